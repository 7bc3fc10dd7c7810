"""How long would the studies that have not been run take on one H200?

    python benchmarks/remaining.py

Prints a row for every study: trials of three seeds, steps of all of them, and how long they take. The milliseconds of a
step are those of `steps.py` at one size (`ANCHORS`), taken in proportion to batch × nodes × layers for others.
Fleets of few replicas, of small models, take longer than that, and large batches less.
"""

from dataclasses import dataclass

from posattn import studies
from posattn.nn import GPTArchitecture, MixedPositional, MixedStandard
from posattn.nn.numeric_sizes import Numeric
from posattn.train import Trial

SEEDS = 3
#: Study, task (None: all of them), models (None: all of them), least x, and what the paper has no figures for.
LEFT = (
    ("sample-complexity", None, ("standard",), 15_000, ()),
    ("mixed-type", None, ("standard", "positional"), None, ()),
    ("mixed-type-samples", None, ("standard", "positional"), None, ()),
    ("khop-depth", "khop-16", None, None, ()),
    ("khop-depth", "khop", ("standard",), 5, ()),
    ("sizes", None, ("standard", "positional"), None, (64,)),
    ("variable-length", None, ("standard", "positional"), None, ()),
    ("stochastic-length", None, None, None, ()),
    ("bounds-vs-gap", None, None, None, ()),
)


@dataclass(frozen=True)
class Anchor:
    """Milliseconds of one replica's step at one size."""

    milliseconds: float
    batch: int
    nodes: int
    layers: int

    def seconds(self, steps: int, batch: int, nodes: float, layers: int) -> float:
        share = batch * nodes * layers / (self.batch * self.nodes * self.layers)
        return self.milliseconds * 1e-3 * share * steps


#: float32, fleets of 15 (numbers) and 6 (mixed types); TF32, fleets of 3 (the GPT-style pair).
ANCHORS = {
    "positional": Anchor(0.170, 1000, 9, 4),
    "standard": Anchor(0.259, 1000, 9, 4),
    "positional-placed": Anchor(1.04, 1000, 9, 4),  # not measured: that of the hybrid model, which takes the same way
    "mixed-positional": Anchor(0.983, 1000, 99, 3),
    "mixed-standard": Anchor(1.86, 1000, 99, 3),
    "gpt-positional": Anchor(0.451, 64, 99, 4),
    "gpt-standard": Anchor(0.377, 64, 99, 3),
}


def seconds(trial: Trial) -> float:
    """What one trial would take."""
    model, data, steps = trial.model, trial.data, trial.optimiser.steps
    if isinstance(model, GPTArchitecture):
        anchor = ANCHORS["gpt-positional" if model.positional else "gpt-standard"]
        return anchor.seconds(steps, data.batch, model.length, model.layers)
    if isinstance(model, MixedPositional | MixedStandard):
        anchor = ANCHORS["mixed-standard" if isinstance(model, MixedStandard) else "mixed-positional"]
        return anchor.seconds(steps, data.batch, anchor.nodes, anchor.layers)
    assert isinstance(model, Numeric)
    anchor = ANCHORS.get(model.kind, ANCHORS["positional"])
    lengths = data.lengths or (model.length,)
    nodes = sum(lengths) / len(lengths) + model.scratchpad
    return anchor.seconds(steps, data.batch, nodes, model.depth)


def main() -> None:
    for name, task, arms, least, without in LEFT:
        study, found = studies.get(name), {}
        for of in study.tasks if task is None else (task,):
            for case in study.cases(of, "paper"):
                if (arms is not None and case.arm not in arms) or not isinstance(case.trial, Trial):
                    continue
                if case.x in without or (least is not None and (case.x or 0) < least):
                    continue
                found[case.trial.id] = case.trial
        steps = SEEDS * sum(trial.optimiser.steps for trial in found.values())
        minutes = SEEDS * sum(map(seconds, found.values())) / 60
        cost = f"{minutes / 60:.1f} h" if minutes >= 60 else f"{minutes:.0f} min"
        named = f"{name}, {task}" if task else name
        print(f"| {named} | {SEEDS * len(found)} | {steps / 1e6:,.1f} million | {cost} |")


if __name__ == "__main__":
    main()
