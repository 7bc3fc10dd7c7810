"""Does a model that was trained on eight numbers answer for thousands of them, at any scale?

    posattn run length-scale --task sort                                        (two minutes on two CPU cores)
    posattn run length-scale --preset paper                                     (hours on two CPU cores)

One step past the paper: a looped positional layer, shared by all iterations, whose MLP sees only what the task's
symmetry leaves alone, beside the same layer with less symmetry. Trained on sizes up to 8 (graphs and tables of 6), on
numbers in [−2, 2]. The schedule is given; what is learned are the few numbers that schedule and symmetry leave open.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from posattn.nn import Looped
from posattn.studies.core.case import Case
from posattn.studies.core.points import Point
from posattn.studies.core.sentence import placed, span
from posattn.studies.core.study import Study, register
from posattn.studies.length.relative_errors import POLISHED, RelativeErrors, Samples, Size
from posattn.train import Data, Evaluation, Optimiser, TestSet, Trial


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What a task needs: its wiring, the symmetry of a step, the name of its size, and the sizes it is tested at."""

    schedule: str
    symmetry: tuple[str, ...]
    size: str = "length"
    trained_at: int = 8
    trained_on: str | None = None  # another task
    state_dim: int = 1
    tested: dict[str, tuple[int, ...]] = field(
        default_factory=lambda: {
            "smoke": (8, 64),
            "quick": (8, 64, 1024, 16_384),
            "paper": (8, 64, 1024, 16_384, 65_536),
        }
    )

    @property
    def trained(self) -> dict[str, Any]:
        """Options of the samples that models are trained on."""
        return {self.size: self.trained_at, "blocks": True}

    @property
    def shifts(self) -> bool:
        return "shift" in self.symmetry


GRAPHS = {"smoke": (6, 9), "quick": (6, 16, 64), "paper": (6, 16, 64, 256)}
TABLES = {"smoke": (6, 9), "quick": (6, 32, 128), "paper": (6, 32, 128, 512)}
SHIFTED, LINEAR, MOVED = ("scale", "shift"), ("scale", "linear"), ("scale", "potential")
KINDS = {
    "min": Kind(schedule="scan", symmetry=SHIFTED),
    "max": Kind(schedule="scan", symmetry=SHIFTED),
    "sort": Kind(schedule="bitonic", symmetry=SHIFTED),
    "whole-median": Kind(schedule="bitonic", symmetry=SHIFTED, trained_on="sort"),
    "sum": Kind(schedule="scan", symmetry=LINEAR),
    "max-subarray": Kind(schedule="scan", symmetry=("scale",), state_dim=4),
    "all-pairs": Kind(schedule="pairs", symmetry=MOVED, size="nodes", trained_at=6, tested=GRAPHS),
    "widest-path": Kind(schedule="pairs", symmetry=SHIFTED, size="nodes", trained_at=6, tested=GRAPHS),
    "reachability": Kind(schedule="pairs", symmetry=SHIFTED, size="nodes", trained_at=6, tested=GRAPHS),
    "edit-distance": Kind(schedule="grid", symmetry=MOVED, trained_at=6, tested=TABLES),
    "warping": Kind(schedule="grid", symmetry=MOVED, trained_at=6, tested=TABLES),
}
HIDDEN = {"smoke": 8, "quick": 32, "paper": 32}
NO_SYMMETRY = "no symmetry"
STEPS = {"smoke": 10, "quick": 1500, "paper": 8000}
BATCH = {"smoke": 8, "quick": 128, "paper": 128}
SCALES = {"smoke": (10,), "quick": (10, 1000), "paper": (10, 100, 1000)}
SHIFTS = {"smoke": (10,), "quick": (1000,), "paper": (-1000, 10, 1000)}


def sizes(task: str, preset: str) -> Sequence[Size]:
    """Where a task is tested: at every size as it is, and at the second one scaled and shifted too."""
    kind = KINDS[task]
    found = [Size(f"{kind.size} {n}", n, {kind.size: n}) for n in kind.tested[preset]]
    near = kind.tested[preset][1]
    options = {kind.size: near}
    if task != "reachability":
        found += [Size(f"{kind.size} {near}, c={c}", near, options, scale=c) for c in SCALES[preset]]
    if kind.shifts and kind.schedule != "pairs":
        found += [Size(f"{kind.size} {near}, shift {t:+}", near, options, shift=t) for t in SHIFTS[preset]]
    return found


def polished(case: Case) -> Samples | None:
    """What models with all of a task's symmetry are polished on; none where that leaves more than one number to see."""
    kind = KINDS[case.task]
    if kind.state_dim > 1 or case.arm != " + ".join(kind.symmetry):
        return None
    return Samples(kind.trained_on or case.task, kind.trained)


def models(kind: Kind, hidden_dim: int = 32) -> dict[str, Looped]:
    """The model with all of its symmetry, and those with less."""

    def looped(symmetry: tuple[str, ...], state_dim: int) -> Looped:
        return Looped(schedule=kind.schedule, symmetry=symmetry, state_dim=state_dim, hidden_dim=hidden_dim)

    if kind.state_dim > 1:
        return {"scale, wide state": looped(kind.symmetry, kind.state_dim), NO_SYMMETRY: looped((), kind.state_dim)}
    full = {" + ".join(kind.symmetry): looped(kind.symmetry, 1)}
    if kind.schedule == "grid":  # without a translation, its two steps would see different numbers
        return full
    return full | {
        "scale": looped(("scale",), 1),
        NO_SYMMETRY: looped((), 1),
        "scale, wide state": looped(("scale",), 4),
    }


@register
class LengthScale(Study):
    name = "length-scale"
    question = "Does a model that was trained on eight numbers answer for thousands of them?"
    answers = "one step past"
    view = RelativeErrors(axis="size", sizes=sizes, polishes=polished)
    tasks = tuple(KINDS)
    seeds = {"smoke": 2, "quick": 1, "paper": 10}
    cost = {"smoke": "seconds", "quick": "2 min per task, 2 cores", "paper": "hours, 2 cores"}
    notes = (
        "Figures are the RMS of the error over the RMS of the answers, shifts left out of both. Models are trained on "
        "sizes up to 8 (graphs and tables of 6) and numbers in [−2, 2] (weights and costs in [0, 2]).",
        "The schedule is given. What schedule and symmetry leave open is learned: four slopes for sort, two for min, "
        "max and shortest paths, four for widest paths and tables, two factors for sum.",
        "Small sizes are trained in one pass: whatever block is complete after an iteration has a target. For scan, "
        "pairs and grid that is a target after every iteration; only bitonic has iterations without one.",
    )

    def sentence(self, points: Sequence[Point]) -> str:
        """The error at the largest size, with all of a task's symmetry and with none."""
        ends: dict[str, dict[str, Point]] = {}
        for point in sorted((p for p in points if p.drawn), key=lambda point: point.x):
            ends.setdefault(point.task, {})[point.arm] = point
        full = {task: " + ".join(KINDS[task].symmetry) for task in ends}
        best = [
            held.get(full[task] + POLISHED, held.get(full[task], held.get("scale, wide state")))
            for task, held in ends.items()
        ]
        symmetric = [point for point in best if point is not None]
        if not symmetric:
            return self.view.sentence(points)
        without = [held[NO_SYMMETRY].median for held in ends.values() if NO_SYMMETRY in held]
        but = f", without symmetry {span(without)}" if without else ""
        error = span([point.median for point in symmetric])
        where = placed("At size {x}, trained on up to 8,", symmetric)
        return f"{where} the error of models with their task's symmetry is {error} of the answer{but}."

    def cases(self, task: str, preset: str) -> list[Case]:
        kind = KINDS[task]
        found = []
        for arm, model in models(kind, HIDDEN[preset]).items():
            trial = Trial(
                task=kind.trained_on or task,
                model=model,
                data=Data(samples=BATCH[preset] * 10, batch=BATCH[preset], options=kind.trained, fresh=True),
                optimiser=Optimiser(steps=STEPS[preset], lr=1e-2, schedule="cosine"),
                evaluation=Evaluation(samples=64, sets=[TestSet("validation", kind.trained | {"blocks": False})]),
            )
            found.append(Case(task=task, arm=arm, trial=trial))
        return found
