"""What the k-hop studies share: the GPT-style pair at every depth, its training, and the test sets.

50,000 sequences, AdamW 5e-4 with betas (0.9, 0.95), weight decay 0.1 on matrices, gradients clipped at 1, batch 64,
100,000 steps (Back de Luca et al. 2025, section 7 and appendix), GELU in the tanh form of the authors' code. Results of
versions that knew the erf form alone are those of `--option gelu=erf`. On a GPU the factors of products are rounded to
TF32, which is 1.5 times (positional) to 1.8 times (standard) as fast as float32.
"""

from posattn import tasks
from posattn.errors import require
from posattn.nn import GPTArchitecture
from posattn.published import khop_accuracy
from posattn.studies.core.case import Case
from posattn.studies.core.choices import Choice
from posattn.studies.core.study import Study
from posattn.train import Data, Evaluation, Optimiser, TestSet, Trial

DEPTHS = {
    "smoke": {"standard": (1, 2), "positional": (1, 2)},
    "quick": {"standard": (2, 3), "positional": (3, 6)},
    "paper": {"standard": tuple(range(1, 9)), "positional": tuple(range(1, 9))},
}
STEPS = {"smoke": 4, "quick": 2000, "paper": 100_000}
SAMPLES = {"smoke": 16, "quick": 20_000, "paper": 50_000}
BATCH = {"smoke": 8, "quick": 64, "paper": 64}
HEADS = {"khop": 3, "khop-16": 4}
HOPS = (1, 2, 4, 8, 16)
WHAT_GELU_MEANS = {
    "tanh": "GELU has the tanh form of the authors' code.",
    "erf": "GELU is x·Φ(x) (the erf form); the authors' code has the tanh form, now the default.",
}


class KHopStudy(Study):
    """Both architectures at every depth. `standard_layers` says how deep the standard one goes at most."""

    seeds = {"smoke": 1, "quick": 1, "paper": 3}
    cost = {"smoke": "seconds", "quick": "15 min per task, 2 cores", "paper": "30 min per task, H200"}
    choices = {
        "standard_layers": Choice(("8", "7", "6", "5", "4", "3", "2", "1")),
        "gelu": Choice(("tanh", "erf"), formerly="erf"),
    }

    def remarks(self) -> list[str]:
        return [*super().remarks(), WHAT_GELU_MEANS[self.choice("gelu")]]

    def cases(self, task: str, preset: str) -> list[Case]:
        deepest = {"standard": int(self.choice("standard_layers"))}
        least = min(DEPTHS[preset]["standard"])
        require(
            deepest["standard"] >= least,
            f"standard_layers={deepest['standard']}: the {preset} preset starts at {least}, and none would be left.",
        )
        return [
            Case(
                task=task,
                arm=arm,
                x=layers,
                trial=trial(task, preset, layers=layers, positional=arm == "positional", gelu=self.choice("gelu")),
                published={f"k={hops}": khop_accuracy(layers, hops) for hops in HOPS}
                if (task, arm) == ("khop-16", "standard")
                else {},
            )
            for arm, depths in DEPTHS[preset].items()
            for layers in depths
            if layers <= deepest.get(arm, layers)
        ]


def trial(task: str, preset: str, *, layers: int, positional: bool, gelu: str) -> Trial:
    """One depth of one of the pair."""
    found = tasks.get(task)
    model = GPTArchitecture(
        vocabulary=found.vocabulary,
        length=found.nodes,
        layers=layers,
        heads=HEADS[task],
        positional=positional,
        gelu=gelu,
    )
    sets = [TestSet("validation")]
    if task == "khop":
        sets.append(TestSet("held-out letters", {"held_out": True}))
    else:
        sets += [TestSet(f"k={hops}", {"hops": hops}) for hops in HOPS]
    return Trial(
        task=task,
        model=model,
        data=Data(samples=SAMPLES[preset], batch=BATCH[preset]),
        optimiser=Optimiser(steps=STEPS[preset], name="adamw", lr=5e-4, betas=(0.9, 0.95), weight_decay=0.1, clip=1.0),
        evaluation=Evaluation(samples=8 if preset == "smoke" else 1000, sets=sets),
        precision="tf32",
    )
