"""How long would the studies that have not been run take on one H200?

    python benchmarks/remaining.py

Prints a row for every study: trials of three seeds that no store under docs/results has, steps of all of them, and how
long they take. The milliseconds of a step are those of `steps.py` at one size (`ANCHORS`), taken in proportion to
batch × nodes × layers for others. Fleets of few replicas, of small models, take longer than that, and large batches
less.
"""

import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from posattn import studies
from posattn.nn import GPTArchitecture, MixedPositional, MixedStandard
from posattn.nn.numeric_sizes import Numeric
from posattn.train import Trial

RESULTS = Path(__file__).parents[1] / "docs" / "results"
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


def parts() -> Iterator[tuple[str, str, list[Trial]]]:
    """Study and place of every part, and its trials, all models of one place of a study, in the order of the record."""
    for name, task, arms, least, without in LEFT:
        study, found = studies.get(name), {}
        for of in study.tasks if task is None else (task,):
            for case in study.cases(of, "paper"):
                wanted = (arms is None or case.arm in arms) and isinstance(case.trial, Trial)
                if wanted and case.x not in without and (least is None or (case.x or 0) >= least):
                    found.setdefault(case.x, []).append(case)
        for x in sorted(found, key=lambda x: (x is not None, x)):
            trials = {one.id: one for case in found[x] for one in map(case.seeded, range(SEEDS))}
            yield f"{name}{f', {task}' if task else ''}", f", {x:g}" if x is not None else "", [*trials.values()]


def done(archives: Iterable[Path]) -> set[str]:
    """Ids of the trials whose figures are in archives."""
    held = set()
    for archive in archives:
        with tarfile.open(archive) as opened:
            held |= {Path(name).parent.name for name in opened.getnames() if name.endswith("metrics.json")}
    return held


def main() -> None:
    held = done(RESULTS.rglob("store.tar.*"))
    rows: dict[str, dict[str, Trial]] = {}
    for study, _, trials in parts():
        rows.setdefault(study, {}).update({trial.id: trial for trial in trials if trial.id not in held})
    for name, trials in ((name, found.values()) for name, found in rows.items()):
        minutes = sum(map(seconds, trials)) / 60
        cost = f"{minutes / 60:.1f} h" if minutes >= 60 else f"{minutes:.0f} min"
        steps = sum(trial.optimiser.steps for trial in trials) / 1e6
        print(f"| {name} | {len(trials)} | {steps:,.1f} million | {cost} |")


if __name__ == "__main__":
    main()
