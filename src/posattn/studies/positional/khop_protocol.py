"""What the k-hop studies share: the GPT-style pair at every depth, its training, and the test sets.

50,000 sequences, AdamW 5e-4 with betas (0.9, 0.95), weight decay 0.1 on matrices, gradients clipped at 1, batch 64,
100,000 steps (Back de Luca et al. 2025, section 7 and appendix), GELU in the tanh form of the authors' code. Results of
versions that knew the erf form alone are those of `--option gelu=erf`. On a GPU the factors of products are rounded to
TF32, which is 1.5 times (positional) to 1.8 times (standard) as fast as float32.

Beside the pair stands a model that is not the paper's, “by tables” (`posattn.nn.HopTables`), trained on the same
sequences in fewer and larger steps.
"""

from posattn import tasks
from posattn.errors import require
from posattn.nn import GPTArchitecture, HopTables
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
TABLES_ARM = "by tables"
TABLES_STEPS = {"smoke": 4, "quick": 500, "paper": 500}
TABLES_BATCH = {"smoke": 8, "quick": 16, "paper": 16}
TABLES_TESTS = {"smoke": 8, "quick": 1000, "paper": 2500}
TABLES_NOTE = (
    "“by tables” is not the paper's model. Given: who reads whom (a scan for every hop), tables with a row for every "
    "letter, and MLPs that treat all letters, nodes and hops alike, so unseen letters are like any others. Learned: "
    "what enters a table, which of two entries wins, what is looked up and when, and what is answered. It takes 500 "
    "steps of batch 16 from lr 1e-2 down to 0 by a cosine."
)
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
        found = [
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
        return [*found, tables_case(task, preset)] if task == "khop" else found


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


def tables_case(task: str, preset: str) -> Case:
    """Hops by tables, at the depth that the task's length asks for; three hops are also tested by themselves."""
    found = tasks.get(task)
    model = HopTables(letters=found.first_hop_token, hops=found.max_hops)
    steps = TABLES_STEPS[preset]
    sets = [
        TestSet("validation"),
        TestSet("held-out letters", {"held_out": True}),
        TestSet(f"k={found.max_hops}", {"hops": found.max_hops}),
    ]
    trial = Trial(
        task=task,
        model=model,
        data=Data(samples=SAMPLES[preset], batch=TABLES_BATCH[preset]),
        optimiser=Optimiser(steps=steps, lr=1e-2, schedule="cosine", warmup=steps // 50, clip=1.0),
        evaluation=Evaluation(samples=TABLES_TESTS[preset], sets=sets),
    )
    return Case(task=task, arm=TABLES_ARM, x=model.layers(found.nodes), trial=trial)
