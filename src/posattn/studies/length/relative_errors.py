"""Errors of trained models on inputs of many sizes, scales and shifts, relative to the answers: derived from weights.

A test set of a trial has the trial's number of samples and is drawn before training; inputs of 65,536 numbers are drawn
here, when a study shows what it found, and the figures are kept beside the scores.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from posattn import devices, tasks
from posattn.files import write_whole
from posattn.nn import LoopedPositionalTransformer, load, model_of
from posattn.nn.random_places import PlacedModel
from posattn.studies.core.case import Case
from posattn.studies.core.points import Finished, Map, Picture, Point, by_panel, over_places
from posattn.studies.core.views import View
from posattn.tasks.scoring import relative_rms
from posattn.train.polish import polish
from posattn.train.random_streams import stream
from posattn.version import __version__

#: What the name of an arm ends in whose models were polished.
POLISHED = ", polished"
#: Numbers that polishing looks at, about: a few hundred answers for a dozen numbers to learn.
NUMBERS = 192


class Size(NamedTuple):
    """Inputs of one size: options of the task's samples, how many of them, and what is done to them."""

    name: str
    x: float
    options: Mapping[str, Any]
    samples: int = 4
    scale: float = 1.0
    shift: float = 0.0
    potential: float = 0.0  # of every node of a graph, drawn from ± this
    dtype: torch.dtype | None = None  # that the model is evaluated in; None is its own
    drawn: bool = True  # in the figure of curves

    @property
    def mapped(self) -> bool:
        """Whether nothing but the scale is changed, so that it is in the maps over size and scale."""
        return not self.shift and not self.potential and "graph" not in self.options


class Samples(NamedTuple):
    """A task, and options of its samples."""

    task: str
    options: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class RelativeErrors(View):
    """The relative RMS error over sizes, and maps of it over sizes and scales; what is moved stands in tables alone.

    `sizes` gives those that a case is tested at in a preset. `polishes` gives what a case's model is polished on, by
    least squares in float64, to be shown a second time; None where it is not. `computed` gives the model of a case that
    is not trained, at a size.
    """

    sizes: Callable[[Case, str], Sequence[Size]]
    polishes: Callable[[Case], Samples | None]
    computed: Callable[[Case, Size], Any]
    measure: str = "relative error"
    across: ClassVar[str] = "test set"

    def points(self, study: str, preset: str, finished: Iterable[Finished]) -> list[Point]:
        found = []
        for one in finished:
            sizes = self.sizes(one.case, preset)
            derived = [
                self._kept(study, preset, one.case, sizes, folder, seed)
                for folder, seed in zip(one.folders, one.seeds, strict=True)
            ]
            for polished in (False, True) if self.polishes(one.case) is not None else (False,):
                arm = one.case.arm + (POLISHED if polished else "")
                for size in sizes:
                    ours = tuple(float(figures[size.name + (POLISHED if polished else "")]) for figures in derived)
                    y = size.scale if size.mapped else None
                    point = Point(one.case.task, arm, size.name, size.x, ours, (), one.seeds, drawn=size.drawn, y=y)
                    found.append(point)
        return found

    def _kept(
        self, study: str, preset: str, case: Case, sizes: Sequence[Size], folder: Path, seed: int
    ) -> Mapping[str, float]:
        """A trial's figures: those that this version has stored beside its scores, or derived now, and stored."""
        path, samples = folder / f"figures-{study}-{case.task}-{preset}.json", self.polishes(case)
        with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):  # missing or damaged: derived again
            held = json.loads(path.read_bytes())
            again = [size.name + POLISHED for size in sizes] if samples is not None else []
            if held["version"] == __version__ and set(held["figures"]) == {*(size.name for size in sizes), *again}:
                return held["figures"]
        trained = load(folder / "weights.safetensors") if case.trial.trained else None
        model = None if trained is None else answering(trained, case.task)
        found = {
            size.name: relative_error(model or self.computed(case, size), case.task, size, seed=seed) for size in sizes
        }
        if samples is not None:
            model = answering(polished_on(trained, samples, seed=seed), case.task)
            found |= {size.name + POLISHED: relative_error(model, case.task, size, seed=seed) for size in sizes}
        write_whole(path, json.dumps({"version": __version__, "figures": found}).encode())
        return found

    def summarised(self, points: Sequence[Point]) -> list[Point]:
        """Plain sizes; those that are scaled or moved are in the report."""
        return [point for point in points if point.drawn]

    def pictures(self, preset: str, points: Sequence[Point]) -> list[Picture]:
        return [
            over_places(panel, shown, axis=self.axis, measure=self.measure, by_test_set=False, log=True)
            for panel, shown in by_panel(points).items()
        ]

    def maps(self, preset: str, points: Sequence[Point]) -> list[Map]:
        tasks_ = dict.fromkeys(point.task for point in points)
        placed = {task: tuple(p for p in points if p.task == task and p.y is not None) for task in tasks_}
        return [
            Map(title=task, points=shown, x_label=self.axis, y_label="scale", measure="relative error")
            for task, shown in placed.items()
            if len({point.y for point in shown}) > 1
        ]


def polished_on(model: Any, samples: Samples, *, seed: int) -> Any:
    """The model after least squares in float64."""
    generator, task = stream(seed, "samples to polish on"), tasks.get(samples.task)
    nodes = task.sample(1, **samples.options, generator=generator)[0].shape[1]
    count = max(4, NUMBERS // nodes)
    return polish(model, task.sample(count, **samples.options, generator=generator, dtype=torch.float64))


def answering(model: Any, task: str) -> Any:
    """The model as it answers a task: a looped one that sorts also knows the median of the whole."""
    if task != "whole-median" or not isinstance(model, LoopedPositionalTransformer):
        return model
    return model_of(model.architecture.changed(reads="median"), model.weights())


@torch.no_grad()
def relative_error(model: Any, task: str, size: Size, *, seed: int) -> float:
    """RMS of the error over RMS of the answers; what a shift or a potential adds would hide every error: left out.

    On a GPU where there is one. Inputs are drawn and answers judged on the CPU.
    """
    trained, device = isinstance(model, nn.Module), devices.resolve("auto")
    dtype = size.dtype or (next(model.parameters()).dtype if trained else torch.float32)
    model = deepcopy(model).to(device, dtype) if trained else model
    places = {"places": model.architecture.length} if isinstance(model, PlacedModel) else {}
    solved = tasks.get(task)

    def drawn(**moved: float) -> tuple[Tensor, ...]:
        generator = stream(seed, f"inputs of {size.name}")
        inputs, _ = solved.sample(size.samples, **size.options, **places, **moved, generator=generator, dtype=dtype)
        x, *stand = inputs if isinstance(inputs, tuple) else (inputs,)
        return x * size.scale, *stand

    plain, *stand = drawn()
    x = (drawn(potential=size.potential)[0] if size.potential else plain) + size.shift
    exact = solved.target(x.double())
    added = exact - solved.target(plain.double()) if size.potential else size.shift
    each = zip(*(tensor.to(device if trained else "cpu").split(1) for tensor in (x, *stand)), strict=True)
    predicted = torch.cat([model(*one) for one in each]).double().cpu()
    return float(relative_rms(predicted - added, exact - added).item())
