"""What the step of a looped model has learned: a few numbers, in exact fractions.

Where a symmetry leaves one number d for the MLP to see, and no bias (`Looped.sloped`), a step is

    carrier + up·relu(d) + down·relu(−d)        up = MLP(shares), down = MLP(−shares), for each role

and where it is linear in a node's own number s and its partner's o (schedule="scan", symmetry=("scale", "linear")),

    a·s + b·o

There is nothing else to know about it. Weights are read as the fractions that they are, and every sum and product is
exact. The shares of attention are the one exception: their softmax is evaluated once, in float64, and what it gives is
taken as stored.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import torch

from posattn.checks import instance, switch
from posattn.errors import PosattnError, require
from posattn.nn.looped import LoopedPositionalTransformer
from posattn.nn.looped_step import way_to_the_other
from posattn.nn.weights import check_finite_weights

#: Factors count as the simplest fraction within this distance, of denominators up to `SIMPLE`; else as a whole number.
TOLERANCE = Fraction(1, 50)
SIMPLE = 8

Pair = tuple[Fraction, Fraction]


@dataclass(frozen=True)
class Law:
    """Two factors for each role, as learned and as the simple fractions that they are near."""

    linear: bool  # whether they are (a, b) of a·self + b·partner, else (up, down) of one number's two signs
    factors: tuple[Pair, ...]
    compares: bool = False  # whether carrier + d is the other one of two candidates, as under a shift or a potential

    @property
    def snapped(self) -> tuple[Pair, ...]:
        """The nearest simple fractions."""
        return tuple((snap(first), snap(second)) for first, second in self.factors)

    @property
    def epsilon(self) -> Fraction:
        """The largest distance of a factor from its simple fraction.

        So much a step is off, at most, per |d|, or, if it is linear, per |self| + |partner|.
        """
        return max(
            abs(given - simple)
            for role, near in zip(self.factors, self.snapped, strict=True)
            for given, simple in zip(role, near, strict=True)
        )

    def __str__(self) -> str:
        return "; ".join(self._line(role, pair) for role, pair in enumerate(self.snapped))

    def _line(self, role: int, pair: Pair) -> str:
        first, second = pair
        if self.linear:
            return f"role {role}: {first}·self + {second}·partner"
        if self.compares and pair in ((0, -1), (1, 0)):
            return f"role {role}: the {'larger' if first else 'smaller'} of two"
        return f"role {role}: carrier + {first}·relu(d) + {second}·relu(−d)"


def snap(value: Fraction) -> Fraction:
    """The simplest fraction within `TOLERANCE`, or, where there is none of a small denominator, the nearest integer.

    >>> snap(Fraction("0.3333")), snap(Fraction("-0.999999")), snap(Fraction("0.473"))
    (Fraction(1, 3), Fraction(-1, 1), Fraction(0, 1))
    """
    value = _fraction(value)
    for denominator in range(1, SIMPLE + 1):
        near = Fraction(round(value * denominator), denominator)
        if abs(near - value) <= TOLERANCE:
            return near
    return Fraction(round(value))


def law(model: LoopedPositionalTransformer, *, evaluated: bool = False) -> Law:
    """The law of a model's step.

    `evaluated`: of the step as it is evaluated under `torch.no_grad()`, by slopes that are computed in float64 and kept
    in the model's own dtype (`posattn.nn.looped_step.way_to_the_other`).
    """
    check_looped(model)
    sizes, evaluated = model.architecture, switch("evaluated", evaluated)
    two = not sizes.sloped and sizes.linear and sizes.state_dim == 1 and len(sizes.actions[0].invariants) == 2
    if not sizes.sloped and not two:
        raise PosattnError(
            f"symmetry={sizes.symmetry!r}, state_dim={sizes.state_dim}: a step is two factors where its MLP sees one "
            "number, as with ('scale', 'shift'), or is linear, as with ('scale', 'linear') in a scan."
        )
    compares = sizes.translation in ("shift", "potential")
    if sizes.sloped and evaluated:
        check_finite_weights("the looped model", model.weights())
        with torch.no_grad():
            nearer, rest = way_to_the_other(model.slopes())
            rows = zip(nearer.tolist(), rest.to(next(model.parameters()).dtype).tolist(), strict=True)
        shares = [[Fraction(whole) + Fraction(part) for whole, part in zip(*row, strict=True)] for row in rows]
        return Law(False, tuple((up, -down) for up, down in shares), compares)
    exact = ExactStep(model, evaluated=evaluated)
    inputs = ((1, 0), (0, 1)) if two else ((1,), (-1,))
    found = tuple((exact.answer(inputs[0], role), exact.answer(inputs[1], role)) for role in range(len(exact.shares)))
    return Law(two, found, compares)


class ExactStep:
    """The MLP of a model without biases, on invariants that are integers, in exact arithmetic.

    Every matrix is an integer matrix over a power of two, as floats are, so that no fraction has to be reduced.
    """

    def __init__(self, model: LoopedPositionalTransformer, *, evaluated: bool = False) -> None:
        check_looped(model)
        sizes = model.architecture
        require(
            not sizes.bias and sizes.state_dim == 1,
            f"symmetry={sizes.symmetry!r}, state_dim={sizes.state_dim}: exact laws are of steps without biases, on one "
            "number per node. Use symmetry=('scale', …) and state_dim=1.",
        )
        check_finite_weights("the looped model", model.weights())
        logits = model.logits.detach()
        shares = (logits if evaluated else logits.double()).softmax(-1)[..., 1:]  # the first one goes to nothing
        self.linear = sizes.linear
        self.layers = [_integers(weight.detach().double().tolist()) for weight in model.linear_maps()]
        self.shares = [_integers(role) for role in shares.double().tolist()]

    def maps(self, role: int) -> list[tuple[list[list[int]], int]]:
        """The linear maps that the ReLUs stand between: the first one reads the invariants."""
        shares, by = self.shares[role]
        first, scale = self.layers[0]
        mixed = [[_dot(row, column) for column in zip(*shares, strict=True)] for row in first]
        return [(mixed, scale * by), *self.layers[1:]]

    def answer(self, seen: Sequence[int], role: int) -> Fraction:
        """What the MLP answers."""
        values, over, maps = list(seen), 1, self.maps(role)
        for place, (rows, by) in enumerate(maps):
            values = [_dot(row, values) for row in rows]
            over *= by
            if place < len(maps) - 1 and not self.linear:
                values = [max(value, 0) for value in values]
        return Fraction(values[0], over)


def check_looped(model: LoopedPositionalTransformer) -> None:
    instance("model", model, LoopedPositionalTransformer, fix="pass a looped model, as posattn.load(file) gives it")


def _fraction(value: Fraction) -> Fraction:
    try:
        return Fraction(value)
    except (TypeError, ValueError, OverflowError):
        raise PosattnError(f"value={value!r:.60}: give a number, as Fraction(1, 3).") from None


def _dot(row: Sequence[int], column: Sequence[int]) -> int:
    return sum(a * b for a, b in zip(row, column, strict=True))


def _integers(rows: list[list[float]]) -> tuple[list[list[int]], int]:
    """The same matrix as integers over a power of two."""
    ratios = [[entry.as_integer_ratio() for entry in row] for row in rows]
    over = max(bottom for row in ratios for _, bottom in row)
    return [[top * (over // bottom) for top, bottom in row] for row in ratios], over
