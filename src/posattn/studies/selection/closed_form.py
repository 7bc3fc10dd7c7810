"""Lines of the selection studies that are computed, not trained: descent on the population loss, and the FCN floor."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from posattn.studies.core.computed import Computed
from posattn.theory import selection
from posattn.train.sample_options import TestSet, TestSets


@dataclass(frozen=True, kw_only=True)
class Descent(Computed):
    """Gradient descent on the population loss, one-hot encodings, scored every `every` steps.

    From the share `drop_from` of all steps on, the step size is `eta·factor`. `lengths` and `subsets` are the T and q
    of test sets "T=…" and "q=…"; "validation" has those of the training.
    """

    T: int
    q: int
    d: int
    eta: float
    steps: int
    every: int
    kappa: float = 0.5
    drop_from: float = 1.0
    factor: float = 1.0
    lengths: tuple[int, ...] = ()
    subsets: tuple[int, ...] = ()

    kind: ClassVar[str] = "population descent"

    @property
    def labels(self) -> dict[str, Any]:
        return {"task": "selection", "optimiser": {"steps": self.steps}}

    @cached_property
    def test_sets(self) -> TestSets:
        """T and q of every test set, named as a selector's samples name them."""
        longer = {f"T={length}": (length, self.q) for length in self.lengths}
        sizes = {"validation": (self.T, self.q)} | longer | {f"q={size}": (self.T, size) for size in self.subsets}
        return TestSets(TestSet(name, {"length": T, "subset_size": q}) for name, (T, q) in sizes.items())

    def scores(self) -> list[dict[str, Any]]:
        dropped = np.arange(self.steps) >= np.ceil(self.drop_from * self.steps)
        eta = self.eta * np.where(dropped, self.factor, 1.0)
        run = selection.trajectory(
            T=self.T, q=self.q, d=self.d, eta=eta, steps=self.steps, kappa=self.kappa, every=self.every
        )
        losses = {}
        for one in self.test_sets:
            sizes = {"T": one.options["length"], "q": one.options["subset_size"], "d": self.d}
            losses[one.name] = np.asarray(selection.loss(run.v, run.g, **sizes, kappa=self.kappa))
        # V = v·[I, 0] and W = g·[0, I − 11ᵀ/T]
        along = {"cosine W": (run.g > 0) * np.sqrt((self.T - 1) / self.T), "cosine V": 1.0 * (run.v > 0)}
        return [
            {"set": name, "step": int(step), "loss": float(values[at]), "metric": None}
            for at, step in enumerate(run.step)
            for name, values in (losses | along).items()
        ]


@dataclass(frozen=True, kw_only=True)
class Slope(Descent):
    """The line that 1/loss tends to, of slope 4η/(T − 1), through descent's own point at half of its first phase."""

    kind = "predicted slope"

    @cached_property
    def test_sets(self) -> TestSets:
        return TestSets([TestSet("validation", {"length": self.T, "subset_size": self.q})])

    def scores(self) -> list[dict[str, Any]]:
        drop = math.ceil(self.drop_from * self.steps)
        found = [score for score in super().scores() if score["set"] == "validation" and 2 * score["step"] >= drop]
        start, inverse = found[0]["step"], 1 / found[0]["loss"]
        slope = selection.inverse_loss_slope(self.T, self.eta)
        for score in found:
            fast, slow = min(score["step"], drop) - start, max(score["step"] - drop, 0)
            score["loss"] = 1 / (inverse + slope * (fast + self.factor * slow))
        return found


@dataclass(frozen=True, kw_only=True)
class Floor(Computed):
    """The least loss of a network whose first layer is `width` wide."""

    width: int
    T: int
    q: int
    d: int
    kappa: float = 0.5

    kind: ClassVar[str] = "floor"

    @property
    def labels(self) -> dict[str, Any]:
        return super().labels | {"task": "selection"}

    @cached_property
    def test_sets(self) -> TestSets:
        return TestSets([TestSet("validation", {"length": self.T, "subset_size": self.q})])

    def scores(self) -> list[dict[str, Any]]:
        floor = selection.fcn_floor(self.width, T=self.T, q=self.q, d=self.d, kappa=self.kappa)
        return [{"set": "validation", "step": 0, "loss": floor, "metric": None}]
