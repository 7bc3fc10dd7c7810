"""Which values an expression can take: offset + step·k, at every node. Sound, in exact fractions.

A decision (positive, equal, gate, select, exchange) is exact only where no value lies between its two answers. Bounds
cannot tell: x − 100.5 and x − 100 have much the same ones, but on a grid of 1 only the second can be compared with 0.

Numbers in a program are taken as written: 0.1 is a tenth here, whatever a float makes of it. How far the model's
numbers lie from that is up to `posattn.compile.lowering.rounding`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from posattn.compile.expressions import Array, Expression, Line, tree
from posattn.compile.lowering.expression_bounds import Interval, bounds

#: A float is read as the simplest fraction nearby if its denominator is at most this, and otherwise as it is in binary.
SIMPLEST = 1_000_000
#: A lattice finer than this counts as all numbers.
FINEST = Fraction(1, 1 << 256)


class Lattice(NamedTuple):
    """offset + step·k for whole k; with step 0 the offset alone."""

    offset: Fraction
    step: Fraction


#: None stands for any number at all.
Kind = Lattice | None
ZERO, WHOLE = Lattice(Fraction(0), Fraction(0)), Lattice(Fraction(0), Fraction(1))


@lru_cache(maxsize=4096)
def meant(number: float) -> Fraction:
    """The simple fraction that a float stands for: 1/10 for 0.1, 1/3 for 1/3, 3/40 for 3 * 0.025, which is one off."""
    simple = Fraction(number).limit_denominator(SIMPLEST)
    return simple if abs(float(simple) - number) <= 2 * math.ulp(number) else Fraction(number)


def misread(number: float) -> Fraction:
    """How far a float is from the fraction that it stands for."""
    return abs(meant(number) - Fraction(number))


def lattice(offset: Fraction, step: Fraction) -> Kind:
    """The lattice in its normal form, with the offset in [0, step)."""
    if step and step < FINEST:
        return None
    return Lattice(offset % step if step else offset, step)


def _common(*steps: Fraction) -> Fraction:
    """The largest number of which all are whole multiples; 0 where all are 0."""
    below = math.lcm(*(step.denominator for step in steps))
    return Fraction(math.gcd(*(abs(step.numerator) * (below // step.denominator) for step in steps)), below)


def added(one: Kind, other: Kind) -> Kind:
    if one is None or other is None:
        return None
    return lattice(one.offset + other.offset, _common(one.step, other.step))


def scaled(factor: Fraction, of: Kind) -> Kind:
    if factor == 0:
        return ZERO
    return None if of is None else lattice(factor * of.offset, abs(factor) * of.step)


def joined(one: Kind, other: Kind) -> Kind:
    """The coarsest lattice that holds both."""
    if one is None or other is None:
        return None
    return lattice(one.offset, _common(one.step, other.step, one.offset - other.offset))


def multiplied(one: Kind, other: Kind) -> Kind:
    """A constant times anything; the product of two lattices otherwise."""
    for fixed, free in ((one, other), (other, one)):
        if fixed is not None and fixed.step == 0:
            return scaled(fixed.offset, free)
    if one is None or other is None:
        return None
    steps = _common(one.step * other.step, one.step * other.offset, other.step * one.offset)
    return lattice(one.offset * other.offset, steps)


def between(kind: Kind, low: Fraction, high: Fraction) -> Fraction | None:
    """A value of the lattice strictly between two numbers, the smallest one; None where there is none."""
    if kind is None:
        return (low + high) / 2 if low < high else None
    if kind.step == 0:
        return kind.offset if low < kind.offset < high else None
    first = kind.offset + (math.floor((low - kind.offset) / kind.step) + 1) * kind.step
    return first if first < high else None


class Kinds:
    """Lattices of all nodes at once: every node has a number, the place of its lattice in one table."""

    def __init__(self) -> None:
        self.table: list[Kind] = []
        self.places: dict[Kind, int] = {}
        self.memory: dict[tuple[object, ...], int] = {}

    def place(self, kind: Kind) -> int:
        if kind not in self.places:
            self.places[kind] = len(self.table)
            self.table.append(kind)
        return self.places[kind]

    def everywhere(self, kind: Kind, nodes: int) -> Array:
        return np.full(nodes, self.place(kind))

    def numbers(self, values: Array) -> Array:
        """Every node's constant."""
        distinct, which = np.unique(values, return_inverse=True)
        return np.array([self.place(Lattice(meant(float(v)), Fraction(0))) for v in distinct])[which]

    def each(self, name: object, function: Callable[..., Kind], *operands: Array) -> Array:
        """`function` of the operands' lattices at every node, once for each distinct combination."""
        distinct, which = np.unique(np.stack(operands), axis=1, return_inverse=True)
        found = []
        for column in distinct.T.tolist():
            key = (name, *column)
            if key not in self.memory:
                self.memory[key] = self.place(function(*(self.table[place] for place in column)))
            found.append(self.memory[key])
        return np.array(found)[which.reshape(-1)]

    def inside(self, places: Array, within: Interval, gaps: tuple[tuple[float, float], ...]) -> Fraction | None:
        """A value in one of the open gaps that some node can have within its bounds; None where no node can."""
        # bounds are floats: a value that stands for 1/10 may lie just beyond one
        low, high = (bound + side * 2.0**-40 * np.abs(bound) for side, bound in zip((-1, 1), within, strict=True))
        rows = np.stack([places.astype(np.float64), low, high])
        for place, low, high in np.unique(rows, axis=1).T.tolist():
            for below, above in gaps:
                # the bounds themselves can be reached, a gap's ends are outside of it
                start = meant(below) if low <= below else Fraction(low) - FINEST
                stop = meant(above) if high >= above else Fraction(high) + FINEST
                found = between(self.table[int(place)], start, stop)
                if found is not None:
                    return found
        return None


@dataclass(frozen=True)
class Values:
    """The lattices of expressions, from those of their words and the bounds of these."""

    kinds: Kinds
    words: Mapping[str, Array]
    ranges: Mapping[str, Interval]
    known: dict[Expression, Array] = field(default_factory=dict)  # what was computed before

    def of(self, expression: Expression) -> Array:
        """Every node's place in the table of lattices."""
        if expression not in self.known:
            self.known[expression] = self._of(expression)
        return self.known[expression]

    def _of(self, expression: Expression) -> Array:
        nodes = len(next(iter(self.words.values())))
        match expression:
            case tree.Word(name):
                return self.words[name]
            case tree.Constant(value):
                return self.kinds.everywhere(Lattice(meant(value), Fraction(0)), nodes)
            case tree.Sum((first, *rest)):
                total = self.of(first)
                for term in rest:
                    total = self.kinds.each("add", added, total, self.of(term))
                return total
            case tree.Scaled(factor, of):
                return self.kinds.each(("scale", factor), lambda held: scaled(meant(factor), held), self.of(of))
            case tree.Product(one, other):
                return self.kinds.each("multiply", multiplied, self.of(one), self.of(other))
            case tree.Relu(of):
                held, reach = self.of(of), bounds(of, self.ranges)
                zero = self.kinds.everywhere(ZERO, nodes)
                return np.where(reach.low >= 0, held, np.where(reach.high <= 0, zero, self._joined(held, zero)))
            case tree.Gate(of, shut):
                held, reach = self.of(of), bounds(shut, self.ranges)
                zero = self.kinds.everywhere(ZERO, nodes)
                return np.where(reach.high <= 0, held, np.where(reach.low > 0, zero, self._joined(held, zero)))
            case (
                tree.Minimum(one, other)
                | tree.Maximum(one, other)
                | tree.Exchange(one, other, _, _)
                | tree.Select(_, _, one, other)
            ):
                return self._joined(self.of(one), self.of(other))
            case tree.Positive() | tree.Equal():
                return self.kinds.everywhere(WHOLE, nodes)
            case tree.Call() | Line():
                return self.kinds.everywhere(None, nodes)
        raise tree.foreign(expression)

    def _joined(self, one: Array, other: Array) -> Array:
        return self.kinds.each("join", joined, one, other)
