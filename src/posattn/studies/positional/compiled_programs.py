"""Compiled programs as one more model of a study: nothing is trained, the weights are right from the start."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import torch

from posattn import tasks
from posattn.compile import Compiled, compile, library
from posattn.compile.programs.mixed import laid_out, mixed
from posattn.studies.core.computed import Computed
from posattn.tasks.mixed import GLYPHS, MixedInputs, MixedTask
from posattn.train import identity
from posattn.train.fleet.data import draw
from posattn.train.random_streams import stream
from posattn.train.sample_options import BY_NAME, Sets, TestSets, named

#: The library's program for every task that has one.
PROGRAMS = {"sum": "cumsum", "min": "cummin", "max": "cummax", "median": "cummedian", "sort": "sort"}
PROGRAMS |= {"max-subarray": "max-subarray"}


@dataclass(frozen=True, kw_only=True)
class ExactTrial(Computed):
    """A compiled program to be tested like a trained model, on the same test sets for the same seed."""

    kind: ClassVar[str] = "compiled"

    task: str
    length: int
    domain: float
    samples: int
    sets: Sets = field(default=(), metadata=BY_NAME)
    seed: int = 0

    def __post_init__(self) -> None:
        identity.settle(self)

    @property
    def labels(self) -> dict[str, Any]:
        return super().labels | {"program": PROGRAMS.get(self.task, self.task)}

    @cached_property
    def test_sets(self) -> TestSets:
        return named(self.sets)

    def seeded(self, seed: int) -> "ExactTrial":
        return replace(self, seed=seed)

    def compiled(self) -> Compiled:
        task = tasks.get(self.task)
        if isinstance(task, MixedTask):
            return compile(mixed(task), domain={"code": len(GLYPHS) - 1, "x": self.domain})
        return compile(library.get(PROGRAMS[self.task], self.length), domain=self.domain)

    def scores(self) -> list[dict[str, Any]]:
        """Those of the compiled model on the test sets."""
        task, model = tasks.get(self.task), self.compiled()
        found: list[dict[str, Any]] = []
        for one in self.test_sets:
            generator = stream(self.seed, f"test set {one.name}")
            *inputs, y = draw(task, self.samples, one.options, generator, torch.float32)
            mixed_type = isinstance(task, MixedTask)
            guess = model(laid_out(MixedInputs(*inputs))).squeeze(2) if mixed_type else model(*inputs)
            loss, metric = task.loss(guess, y).item(), task.metric(guess, y).item()
            found.append({"set": one.name, "step": 0, "loss": loss, "metric": metric})
        return found
