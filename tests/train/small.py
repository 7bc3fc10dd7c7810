"""Trials small enough to be trained in a test, and what tests of training compare."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from posattn.nn import Positional
from posattn.train import Data, Evaluation, Fleet, Optimiser, Trial

MODEL = Positional(length=5, embed_dim=6, hidden_dim=7, layers=2)
NONE: Mapping[str, Any] = {}

Weights = dict[str, torch.Tensor]


def small_trial(
    *, data: Any = NONE, optimiser: Any = NONE, evaluation: Any = NONE, bias: bool = True, **fields: Any
) -> Trial:
    """A trial on five numbers in float64; `data`, `optimiser` and `evaluation` replace single fields of theirs."""
    far = {"length": 5, "low": -6.0, "high": 6.0, "avoid": (-2.0, 2.0)}
    return Trial(
        **{"task": "sum", "model": dataclasses.replace(MODEL, bias=bias), "precision": "float64"} | fields,
        data=Data(**{"samples": 24, "batch": 6, "options": {"length": 5}} | data),
        optimiser=Optimiser(**{"steps": 20, "lr": 1e-2} | optimiser),
        evaluation=Evaluation(**{"samples": 11, "sets": {"near": {"length": 5}, "far": far}} | evaluation),
    )


def trained(trials: list[Trial], until: int | None = None) -> Fleet:
    fleet = Fleet(trials, device="cpu")
    for _ in fleet.run(until):
        pass
    return fleet


#: Two ways to add up n products differ by up to n roundings, and tests of training add up no more than this many.
SUMMANDS = 100
#: A limit beyond this would let mistakes pass.
SHARP = 1e-5


def shake(tensors: Iterable[torch.Tensor], generator: torch.Generator) -> None:
    """Change every number by about one rounding, in place.

    Training magnifies roundings: Adam divides a gradient by its own size, however small, and every step passes on what
    it got. How far two right runs may come apart is therefore measured, not guessed: `SUMMANDS` times as far as a run
    comes from itself when it is shaken after every step.
    """
    with torch.no_grad():
        for tensor in tensors:
            unit = torch.finfo(tensor.dtype).eps
            tensor.mul_(1 + unit * torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype))


def shaken(trials: list[Trial]) -> Fleet:
    """The fleet, shaken after every step."""
    fleet, generator = Fleet(trials, device="cpu"), torch.Generator().manual_seed(0)
    for _ in fleet.run():
        shake([fleet.parameters.values], generator)
    return fleet


def difference(first: Weights, second: Weights) -> float:
    """The largest distance of two entries; the names must agree."""
    assert first.keys() == second.keys()
    return max((first[name] - second[name]).abs().max().item() for name in first)


def score_difference(first: Any, second: Any) -> float:
    """The largest distance of two scores, the training loss and the metrics among them."""
    assert first.keys() == second.keys()
    pairs = [pair for name in first for pair in zip(first[name], second[name], strict=True)]
    return max(abs(a - b) for a, b in pairs if not (a != a and b != b))


def identical(first: Weights, second: Weights) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
