"""How long would the studies that have not been run take on one H200?

    python benchmarks/remaining.py

Prints a row for every study: trials of three seeds that no store under docs/results has, steps of all of them, and how
long they take. The milliseconds of a step are those of `steps.py` at a few sizes (`ANCHORS`), taken in proportion to
batch × nodes × layers for others. Fleets of few replicas, of small models, take longer than that; fleets side by side,
as `record.py` runs them, a tenth to a fifth less.
"""

import argparse
import math
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from posattn import studies
from posattn.nn import GPTArchitecture
from posattn.nn.numeric_sizes import Numeric
from posattn.train import Trial

RESULTS = Path(__file__).parents[1] / "docs" / "results"
SEEDS = 3
#: Study, task (None: all of them), models (None: all of them), least x, and what the paper has no figures for.
LEFT = (
    ("mixed-type", "mixed-multitask", ("standard",), None, ()),
    ("mixed-type-samples", None, ("standard", "positional"), None, ()),
    ("khop-depth", "khop-16", None, None, ()),
    ("khop-depth", "khop", ("standard",), 5, ()),
    ("sizes", None, ("standard", "positional"), None, (64,)),
    ("variable-length", None, ("standard", "positional"), None, ()),
    ("bounds-vs-gap", None, None, None, ()),
)


@dataclass(frozen=True)
class Anchor:
    """Milliseconds of one replica's step at one size."""

    milliseconds: float
    batch: int
    nodes: float
    layers: int

    def seconds(self, steps: int, batch: int, nodes: float, layers: int) -> float:
        share = batch * nodes * layers / (self.batch * self.nodes * self.layers)
        return self.milliseconds * 1e-3 * share * steps


#: float32, fleets of 15 (numbers) and 6 (mixed types); TF32, fleets of 3 (the GPT-style pair).
ANCHORS = {
    "positional": (Anchor(0.138, 1000, 9, 4), Anchor(0.150, 2048, 5.5, 4), Anchor(0.526, 1000, 33, 6)),
    "standard": (Anchor(0.217, 1000, 9, 4), Anchor(0.232, 2048, 5.5, 4), Anchor(1.424, 1000, 33, 6)),
    "mixed-positional": (Anchor(0.575, 1000, 99, 3),),
    "mixed-standard": (Anchor(1.28, 1000, 99, 3),),
    "gpt-positional": (Anchor(0.450, 64, 99, 4),),
    "gpt-standard": (Anchor(0.370, 64, 99, 3),),
}


def seconds(trial: Trial) -> float:
    """What one trial would take, from the step measured at the nearest number of nodes."""
    model, data, steps = trial.model, trial.data, trial.optimiser.steps
    if isinstance(model, GPTArchitecture):
        kind, nodes, layers = "gpt-positional" if model.positional else "gpt-standard", model.length, model.layers
    else:
        assert isinstance(model, Numeric)
        lengths = data.lengths or (model.length,)
        kind, nodes, layers = model.kind, sum(lengths) / len(lengths) + model.scratchpad, model.depth
    anchors = ANCHORS.get(kind, ANCHORS["positional"])
    nearest = min(anchors, key=lambda anchor: abs(math.log(anchor.nodes / nodes)))
    return nearest.seconds(steps, data.batch, nodes, layers)


class Part(NamedTuple):
    """The models of one place of a study that an entry of `LEFT` names."""

    study: str
    task: str | None
    x: float | None
    arms: frozenset[str]
    trials: list[Trial]

    @property
    def name(self) -> str:
        model = next(iter(self.arms)) if len(self.arms) == 1 else None
        x = None if self.x is None else f"{self.x:g}"
        return ", ".join(filter(None, (self.study, self.task, model, x)))


def parts() -> Iterator[Part]:
    """Every part, in the order of the record. A trial that two studies share belongs to the first."""
    given: set[str] = set()
    for name, task, arms, least, without in LEFT:
        study, found = studies.get(name), {}
        for of in study.tasks if task is None else (task,):
            for case in study.cases(of, "paper"):
                wanted = (arms is None or case.arm in arms) and isinstance(case.trial, Trial)
                if wanted and case.x not in without and (least is None or (case.x or 0) >= least):
                    found.setdefault(case.x, []).append(case)
        for x in sorted(found, key=lambda x: (x is not None, x)):
            trials = {one.id: one for case in found[x] for one in map(case.seeded, range(SEEDS)) if one.id not in given}
            given |= trials.keys()
            yield Part(name, task, x, frozenset(case.arm for case in found[x]), [*trials.values()])


def done(archives: Iterable[Path]) -> set[str]:
    """Ids of the trials whose figures are in archives."""
    held = set()
    for archive in archives:
        with tarfile.open(archive) as opened:
            held |= {Path(name).parent.name for name in opened.getnames() if name.endswith("metrics.json")}
    return held


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    held = done(RESULTS.rglob("store.tar.*"))
    rows: dict[str, dict[str, Trial]] = {}
    for part in parts():
        of = rows.setdefault(", ".join(filter(None, (part.study, part.task))), {})
        of.update({trial.id: trial for trial in part.trials if trial.id not in held})
    for name, trials in ((name, found.values()) for name, found in rows.items()):
        minutes = sum(map(seconds, trials)) / 60
        cost = f"{minutes / 60:.1f} h" if minutes >= 60 else f"{minutes:.0f} min"
        steps = sum(trial.optimiser.steps for trial in trials) / 1e6
        print(f"| {name} | {len(trials)} | {steps:,.1f} million | {cost} |")


if __name__ == "__main__":
    main()
