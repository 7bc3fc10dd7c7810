"""Errors of trained models on inputs of many sizes, scales and shifts, relative to the answers: derived from weights.

A test set of a trial has the trial's number of samples and is drawn before training; inputs of 65,536 numbers are drawn
here, when a study shows what it found, and the figures are kept beside the scores.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch

from posattn import tasks
from posattn.files import write_whole
from posattn.nn import load
from posattn.studies.core.case import Case
from posattn.studies.core.points import Finished, Picture, Point, by_panel, over_places
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


class Samples(NamedTuple):
    """A task, and options of its samples."""

    task: str
    options: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class RelativeErrors(View):
    """The relative RMS error over sizes; scales and shifts that are not 1 and 0 stand in tables alone.

    `sizes` gives those of a task at a preset. `polishes` gives what a case's model is polished on, by least
    squares in float64, to be shown a second time; None where it is not.
    """

    sizes: Callable[[str, str], Sequence[Size]]
    polishes: Callable[[Case], Samples | None]
    measure: str = "relative error"
    across: ClassVar[str] = "test set"

    def points(self, study: str, preset: str, finished: Iterable[Finished]) -> list[Point]:
        found = []
        for one in finished:
            sizes = self.sizes(one.case.task, preset)
            derived = [
                self._kept(study, preset, one.case, sizes, folder, seed)
                for folder, seed in zip(one.folders, one.seeds, strict=True)
            ]
            for polished in (False, True) if self.polishes(one.case) is not None else (False,):
                arm = one.case.arm + (POLISHED if polished else "")
                for size in sizes:
                    ours = tuple(float(figures[size.name + (POLISHED if polished else "")]) for figures in derived)
                    drawn = (size.scale, size.shift) == (1.0, 0.0)
                    found.append(Point(one.case.task, arm, size.name, size.x, ours, (), one.seeds, drawn=drawn))
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
        trained = load(folder / "weights.safetensors")
        model = answering(trained, case.task)
        found = {size.name: relative_error(model, case.task, size, seed=seed) for size in sizes}
        if samples is not None:
            model = answering(polished_on(trained, samples, seed=seed), case.task)
            found |= {size.name + POLISHED: relative_error(model, case.task, size, seed=seed) for size in sizes}
        write_whole(path, json.dumps({"version": __version__, "figures": found}).encode())
        return found

    def pictures(self, preset: str, points: Sequence[Point]) -> list[Picture]:
        return [
            over_places(panel, shown, axis=self.axis, measure=self.measure, by_test_set=False, log=True)
            for panel, shown in by_panel(points).items()
        ]


def polished_on(model: Any, samples: Samples, *, seed: int) -> Any:
    """The model after least squares in float64."""
    generator, task = stream(seed, "samples to polish on"), tasks.get(samples.task)
    nodes = task.sample(1, **samples.options, generator=generator)[0].shape[1]
    count = max(4, NUMBERS // nodes)
    return polish(model, task.sample(count, **samples.options, generator=generator, dtype=torch.float64))


def answering(model: Any, task: str) -> Any:
    """The model as it answers a task: one that sorts also knows the median of the whole."""
    if task != "whole-median":
        return model
    from posattn.nn import model_of

    return model_of(model.architecture.changed(reads="median"), model.weights())


@torch.no_grad()
def relative_error(model: Any, task: str, size: Size, *, seed: int) -> float:
    """RMS of the error over RMS of the answers, the shift left out of both: a large one would hide every error."""
    dtype = next(model.parameters()).dtype
    x, _ = tasks.get(task).sample(
        size.samples, **size.options, generator=stream(seed, f"inputs of {size.name}"), dtype=dtype
    )
    x = x * size.scale + size.shift
    exact = tasks.get(task).target(x.double())
    predicted = torch.cat([model(one) for one in x.split(1)]).double()
    return float(relative_rms(predicted - size.shift, exact - size.shift).item())
