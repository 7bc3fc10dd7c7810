"""Does a model that was trained on eight numbers answer for thousands of them, at any scale?

    posattn run length-scale --task sort                                        (two minutes on two CPU cores)
    posattn run length-scale --preset paper                                     (hours on two CPU cores)

One step past the paper: a looped positional layer, shared by all iterations, whose MLP sees only what the task's
symmetry leaves alone, beside the same layer with less symmetry and, for lists, beside other Transformers, compiled
programs and the slopes themselves (`opponents`). Trained on sizes up to 8 (graphs and tables of 6), on numbers in
[−2, 2]. The schedule is given; what is learned are the few numbers that schedule and symmetry leave open.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from posattn import tasks
from posattn.nn import Architecture, Looped, LoopedSlopes
from posattn.studies.core.case import Case
from posattn.studies.core.points import Point
from posattn.studies.core.sentence import placed, span
from posattn.studies.core.study import Study, register
from posattn.studies.length import opponents
from posattn.studies.length.relative_errors import RelativeErrors, Samples, Size
from posattn.studies.positional.compiled_programs import PROGRAMS, ExactTrial
from posattn.studies.positional.numeric_protocol import RANGE
from posattn.tasks.base import sample_options
from posattn.tasks.pairs import GRAPHS
from posattn.train import Data, Evaluation, Optimiser, TestSet, Trial
from posattn.train.looped_for import looped_for


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

    @property
    def listed(self) -> bool:
        """Whether inputs are lists of numbers."""
        return self.schedule in ("scan", "bitonic")

    def numbers(self, size: int) -> int:
        """How many nodes an input of a size has."""
        return size if self.listed else size * size


NODES = {"smoke": (6, 9), "quick": (6, 16, 64), "paper": (6, 16, 64, 256)}
LONG = {"smoke": (8, 64), "quick": (8, 64, 1024, 16_384), "paper": (8, 64, 1024, 16_384, 65_536, 1 << 20)}
TABLES = {"smoke": (6, 9), "quick": (6, 32, 128), "paper": (6, 32, 128, 512)}


def _kind(task: str, **given: Any) -> Kind:
    """A kind with the model that suits a task."""
    model = looped_for(task)
    symmetry = tuple(map(str, model.symmetry))
    return Kind(schedule=model.schedule, symmetry=symmetry, state_dim=model.state_dim, **given)


KINDS = {
    "min": _kind("min", tested=LONG),
    "max": _kind("max", tested=LONG),
    "sort": _kind("sort"),
    "whole-median": _kind("sort", trained_on="sort"),
    "sum": _kind("sum", tested=LONG),
    "max-subarray": _kind("max-subarray"),
    "all-pairs": _kind("all-pairs", size="nodes", trained_at=6, tested=NODES),
    "widest-path": _kind("widest-path", size="nodes", trained_at=6, tested=NODES),
    "reachability": _kind("widest-path", size="nodes", trained_at=6, trained_on="widest-path", tested=NODES),
    "edit-distance": _kind("edit-distance", trained_at=6, tested=TABLES),
    "warping": _kind("warping", trained_at=6, tested=TABLES),
}
HIDDEN = {"smoke": 8, "quick": 32, "paper": 32}
NO_SYMMETRY = "no symmetry"
STEPS = {"smoke": 10, "quick": 1500, "paper": 8000}
BATCH = {"smoke": 8, "quick": 128, "paper": 128}
SCALES = {"smoke": (10,), "quick": (10, 1000), "paper": (10, 100, 1000)}
POTENTIALS = {"smoke": (10,), "quick": (1000,), "paper": (10, 100, 1000)}
SHIFTS = {"smoke": (10,), "quick": (1000,), "paper": (-1000, 10, 1000)}
#: Inputs of at most so many nodes are tested at every scale, larger ones at scale 1.
SCALED = 4096
#: Chosen on other seeds, by the validation loss at the size that is trained at (docs/symmetry.md has the figures).
LEARNING_RATES = {
    "scale": 1e-2,
    "no symmetry": 3e-3,
    "scale, wide state": 1e-2,
    "positional, sinusoidal": 3e-3,
    "positional, stochastic": 3e-3,
    "standard, RoPE": 3e-3,
    "standard, ALiBi": 3e-3,
    "standard, randomised": 3e-3,
    "looped standard": 1e-2,
    "fitted slopes": 1e-2,
}
#: Of the trained opponents, those that the quick preset has time for, and the longest list that it tests them on.
QUICK, QUICK_LENGTH = ("standard, RoPE", "fitted slopes"), 1024
LEARNING_RATE = 1e-2  # of models with all of a task's symmetry


def sizes(task: str, preset: str) -> Sequence[Size]:
    """Where a task is tested: at every size as it is, at those that are not too large scaled, and at the second moved.

    Graphs are dense, sparse and rings at every size. Potentials are added in float64: in float32 ±1,000 would cost the
    digits that are looked at.
    """
    kind, near = KINDS[task], KINDS[task].tested[preset][1]

    def size(n: int, what: str = "", **given: Any) -> Size:
        options = {kind.size: n} | given.pop("options", {})
        return Size(f"{kind.size} {n}{what}", n, options, drawn=not what, **given)

    found = [size(n) for n in kind.tested[preset]]
    if kind.schedule == "pairs":
        others = [graph for graph in GRAPHS if graph != sample_options(tasks.get(task))["graph"]]
        found += [size(n, f", {graph}", options={"graph": graph}) for n in kind.tested[preset] for graph in others]
    if task != "reachability":
        small = [n for n in kind.tested[preset] if kind.numbers(n) <= SCALED]
        found += [size(n, f", c={c}", scale=c) for n in small for c in SCALES[preset]]
        found += [size(near, f", shift {t:+}", shift=t) for t in SHIFTS[preset] if kind.shifts]
    if task == "all-pairs":
        found += [size(near, f", potential ±{u}", potential=u, dtype=torch.float64) for u in POTENTIALS[preset]]
    return found


def polished(case: Case) -> Samples | None:
    """What models with all of a task's symmetry are polished on; none where that leaves more than one number to see."""
    kind = KINDS[case.task]
    if kind.state_dim > 1 or case.arm != " + ".join(kind.symmetry):
        return None
    return Samples(kind.trained_on or case.task, kind.trained)


def sizes_of(case: Case, preset: str) -> list[Size]:
    """Where a case is tested: at all sizes of its task, or at those that its attention has memory for."""
    every, model = sizes(case.task, preset), case.trial.architecture
    if isinstance(model, Looped | LoopedSlopes):
        return list(every)
    most = QUICK_LENGTH if preset == "quick" else max(size.x for size in every)
    fitting = [size for size in every if size.x <= most and opponents.takes(model, int(size.x))]
    return [size if size.x <= SCALED else size._replace(samples=1) for size in fitting]  # a minute each


def largest(arms: Sequence[Case]) -> str:
    """The largest size that each case is tested at, in words."""
    found: dict[float, list[str]] = {}
    for case in arms:
        found.setdefault(max(size.x for size in sizes_of(case, "paper")), []).append(f"“{case.arm}”")
    return "; ".join(f"to {length:,g}: {', '.join(names)}" for length, names in sorted(found.items()))


def computed(case: Case, size: Size) -> Any:
    """The compiled program of a task, for the numbers of a size."""
    return opponents.program(case.task, int(size.x), RANGE * size.scale + abs(size.shift))


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
    view = RelativeErrors(axis="size", sizes=sizes_of, polishes=polished, computed=computed)
    tasks = tuple(KINDS)
    seeds = {"smoke": 2, "quick": 1, "paper": 10}
    cost = {"smoke": "seconds", "quick": "2 min per task, 2 cores", "paper": "hours, 2 cores"}
    notes = (
        "Figures are the RMS of the error over the RMS of the answers, shifts and potentials left out of both. Models "
        "are trained on sizes up to 8 (graphs and tables of 6) and numbers in [−2, 2] (weights and costs in [0, 2]).",
        "The schedule is given. What schedule and symmetry leave open is learned: four slopes for sort, two for min, "
        "max and shortest paths, four for widest paths and tables, two factors for sum.",
        "The whole median is asked of models that sort, and reachability of those that find widest paths: weights of 0 "
        "and 1 alone would leave slopes open that long paths need.",
        "Small sizes are trained in one pass: whatever block is complete after an iteration has a target. For scan, "
        "pairs and grid that is a target after every iteration; only bitonic has iterations without one.",
        "Lists have other models beside them, with the same numbers, steps and batches, and a learning rate for each "
        "family that was chosen on other seeds. Models that are not looped are trained on lengths 1 … 8, one length in "
        "a batch. “Fitted slopes” have no MLP: the numbers that schedule and symmetry leave are the parameters. "
        "“Compiled” is the library's program, without training.",
    )

    def remarks(self) -> list[str]:
        """With the sizes that opponents are tested at."""
        return [
            *self.notes,
            f"Other models of lists are tested as far as they go, {largest(_opponents('sort', 'paper'))} (in "
            f"quick, all but fitted slopes to {QUICK_LENGTH:,}). The attention of one input may take 8 GB, randomised "
            f"positions are drawn from {opponents.PLACES['paper']:,} places, and a compiled program takes minutes for "
            "an input of 16,384. Models whose nodes all attend to each other are tested on one input per seed above "
            f"{SCALED:,} numbers, and everything else on four.",
        ]

    def sentence(self, points: Sequence[Point]) -> str:
        """The error at the largest size, with all of a task's symmetry and with none."""
        ends: dict[str, dict[str, Point]] = {}
        for point in sorted((p for p in points if p.drawn), key=lambda point: point.x):
            ends.setdefault(point.task, {})[point.arm] = point
        full = {task: " + ".join(KINDS[task].symmetry) for task in ends}
        best = [held.get(full[task], held.get("scale, wide state")) for task, held in ends.items()]
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
            whole = model.symmetry == kind.symmetry and model.state_dim == kind.state_dim
            lr = LEARNING_RATE if whole else LEARNING_RATES[arm]
            data = Data(samples=BATCH[preset] * 10, batch=BATCH[preset], options=kind.trained, fresh=True)
            trial = _trial(
                kind.trained_on or task, model, data, lr=lr, preset=preset, size={kind.size: kind.trained_at}
            )
            found.append(Case(task=task, arm=arm, trial=trial))
        return found + (_opponents(task, preset) if kind.listed else [])


def _trial(task: str, model: Architecture, data: Data, *, lr: float, preset: str, size: Mapping[str, int]) -> Trial:
    """One training run, validated at one size."""
    return Trial(
        task=task,
        model=model,
        data=data,
        optimiser=Optimiser(steps=STEPS[preset], lr=lr, schedule="cosine"),
        evaluation=Evaluation(samples=64, sets=[TestSet("validation", {**size, "blocks": False})]),
    )


def _opponents(task: str, preset: str) -> list[Case]:
    """Other models of lists: trained ones, and the compiled program where there is one."""
    kind = KINDS[task]
    blocks = None if kind.trained_on else kind.trained
    made = opponents.opponents(preset, schedule=kind.schedule, symmetry=kind.symmetry, blocks=blocks)
    size, batch = {kind.size: kind.trained_at}, BATCH[preset]
    found = []
    for arm, one in made.items():
        if preset == "quick" and arm not in QUICK:
            continue
        data = Data(
            samples=batch * (len(one.lengths) or 10), batch=batch, options=one.options, lengths=one.lengths, fresh=True
        )
        trial = _trial(task, one.model, data, lr=LEARNING_RATES[arm], preset=preset, size=size)
        found.append(Case(task=task, arm=arm, trial=trial))
    if task in PROGRAMS:
        exact = ExactTrial(task=task, length=kind.trained_at, domain=RANGE, samples=64, sets={"validation": size})
        found.append(Case(task=task, arm="compiled", trial=exact))
    return found
