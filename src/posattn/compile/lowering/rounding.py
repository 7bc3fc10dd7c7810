"""How far a compiled model can be from its program, for any input of the domain: a bound from the operations.

The error of a register has two parts at every round.

    carried   what its words were off by, through the exact function: at most the sum for +, the larger of the two for
              min, max, select and exchange, nothing for a bit (which forgives a quarter of its grid), times the
              largest slope for a line, and on top what the line is off from the function that it stands for
    local     what this round's own sums are off by. A sum of k terms that are not 0 is off by at most (k − 1)·u·Σ|term|
              in any order, with or without fused multiply-add, u being half the distance from 1 to the next number;
              a sum of two by u·|sum|; a product by another u, unless its factor is a power of two

and no sum is off at all where all terms are multiples of one power of two g and Σ|term| ≤ 2ᵖ·g, p being the bits of a
significand: that is how programs on a grid come out exact. Terms of a shut gate and a bit's M·0 are exact zeros.
Numbers below the smallest normal one may be kept, rounded or flushed to 0, so every term can be off by that as well.

Sizes are those of `posattn.compile.lowering.expression_bounds`, widened by the errors so far.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from posattn.compile.expressions import Array, Expression, Line, raised, tree
from posattn.compile.lowering.expression_bounds import Interval, bounds
from posattn.compile.lowering.floats import Numbers, grain_of
from posattn.compile.lowering.lattice import misread
from posattn.compile.lowering.sum_errors import Parts, chosen, either, nothing, together


@dataclass(frozen=True)
class State:
    """Of every register or word: its bounds in the model, its error, and the power of two it is a multiple of."""

    ranges: Mapping[str, Interval]
    errors: Mapping[str, Array]
    grains: Mapping[str, Array]


@dataclass(frozen=True)
class Rounding:
    """The errors of expressions in words with known bounds and errors.

    `meant`: they count from the numbers that are meant, a tenth for 0.1, and not from those that the program computes
    with.
    """

    words: State
    numbers: Numbers
    meant: bool = False
    known: dict[tuple[str, Expression], Any] = field(default_factory=dict)  # what was computed before

    def local(self, expression: Expression) -> Array:
        """The part that this expression's own sums add."""
        return self.added_up(self.parts(expression), self._reach(expression))

    def carried(self, expression: Expression) -> Array:
        """The part that comes with the words."""
        key = ("carried", expression)
        if key not in self.known:
            self.known[key] = self._carried(expression)
        return self.known[key]

    def parts(self, expression: Expression) -> Parts:
        """The expression as the sum that `posattn.compile.lowering.relu` makes of it."""
        key = ("parts", expression)
        if key not in self.known:
            self.known[key] = self._parts(expression)
        return self.known[key]

    def _carried(self, expression: Expression) -> Array:
        nodes = len(next(iter(self.words.errors.values())))
        match expression:
            case tree.Word(name):
                return self.words.errors[name]
            case tree.Positive() | tree.Equal():
                return np.zeros(nodes)
            case tree.Constant(value):
                return np.full(nodes, float(misread(value)) if self.meant else 0.0)
            case tree.Sum() if (pair := raised(expression)) is not None:
                return np.maximum(self.carried(pair[0]), self.carried(pair[1]))
            case tree.Sum(terms):
                return np.sum([self.carried(term) for term in terms], axis=0)
            case tree.Scaled(factor, of):
                off = float(misread(factor)) * self._reach(of) if self.meant else 0.0
                return abs(factor) * self.carried(of) + off
            case tree.Relu(of):
                return self.carried(of)
            case tree.Gate(of, shut):
                # behind a gate that is always shut nothing is left, unless the error is so large that it passes
                error, shuts = self.carried(of), bounds(shut, self.words.ranges).low >= 1
                return np.where(shuts & (2 * error <= self._reach(of)), 0.0, error)
            case tree.Minimum(one, other) | tree.Maximum(one, other):
                return np.maximum(self.carried(one), self.carried(other))
            case tree.Select(_, _, one, other):
                a, b = self.carried(one), self.carried(other)
                return np.where(self._shut_off(one) & self._shut_off(other), np.maximum(a, b), a + b)
            case tree.Exchange(one, other, _, _):
                a, b = self.carried(one), self.carried(other)
                return np.where(2 * (a + b) <= self._reach(one - other), np.maximum(a, b), 2 * (a + b))
            case Line(of):
                fit = expression.error if self.numbers.rounding else 0.0
                return expression.steepest * self.carried(of) + fit
        raise tree.foreign(expression)

    def _parts(self, expression: Expression) -> Parts:
        match expression:
            case tree.Word(name):
                size = self._reach(expression)
                return Parts((size > 0) * 1, size, np.zeros(len(size)), self.words.grains[name], 0)
            case tree.Constant(value):
                size = self._reach(expression)
                grain = grain_of(np.full(len(size), value)) if self.numbers.holds(value) else np.zeros(len(size))
                return Parts((size > 0) * 1, size, np.zeros(len(size)), grain, 0 if self.numbers.holds(value) else 1)
            case tree.Sum(terms):
                return together(*map(self.parts, terms))
            case tree.Scaled(factor, of):
                return self._times(factor, self.parts(of))
            case tree.Relu(of):
                return self.unit(self.parts(of), of)
            case tree.Gate(of, shut):
                inner = of.of if isinstance(of, tree.Relu) else of
                held, shuts = self.unit(self.parts(inner), of), bounds(shut, self.words.ranges).low >= 1
                shuts &= 2 * (held.error + self.carried(of)) <= self._reach(of)
                return chosen(shuts, nothing(len(shuts)), held)
            case tree.Minimum(one, other) | tree.Maximum(one, other):
                a, b = self.parts(one), self.parts(other)
                return together(a, self.unit(together(a, b), one - other))
            case tree.Select(_, _, one, other):  # one of the two gates is shut
                a, b = self.unit(self.parts(one), one), self.unit(self.parts(other), other)
                return chosen(self._shut_off(one) & self._shut_off(other), either(a, b), together(a, b))
            case tree.Exchange(one, other, _, _):  # one of the two units is shut
                a, b = self.parts(one), self.parts(other)
                return together(a, self.unit(together(a, b), one - other))
            case tree.Positive() | tree.Equal():
                nodes = len(next(iter(self.words.errors.values())))
                return Parts(np.ones(nodes), np.ones(nodes), np.zeros(nodes), np.ones(nodes), 0)
            case Line():
                return self._line_parts(expression)
        raise tree.foreign(expression)

    def _line_parts(self, line: Line) -> Parts:
        """start + Σ bend·relu(of − knot), for all knots at once: one row per knot."""
        inner, held = self.parts(line.of), bounds(line.of, self.words.ranges)
        knots, bends = np.array(line.knots)[:, None], np.abs(line.bends)[:, None]
        moved = Parts(
            inner.terms + (knots != 0),
            inner.size + np.abs(knots),
            inner.error + 0 * knots,
            np.minimum(inner.grain, grain_of(knots)),
            inner.factors,
        )
        error = self.added_up(moved, np.maximum(np.abs(held.low - knots), np.abs(held.high - knots)))
        size = np.maximum(held.high - knots, 0)
        return Parts(
            np.sum((bends > 0) & (size + error > 0), axis=0) + (line.start != 0),
            np.sum(bends * size, axis=0) + abs(line.start),
            np.sum(bends * error, axis=0),
            np.zeros(len(held.low)),
            2,
        )

    def added_up(self, parts: Parts, reach: Array) -> Array:
        """The error of the sum, its terms' errors included, for a value of at most `reach`."""
        u = self.numbers.unit
        count = np.maximum(parts.terms - 1, 0) + parts.factors * (parts.terms > 0)
        share = np.where(count * u < 1, count * u / np.maximum(1 - count * u, u), math.inf)  # all digits may be lost
        total = parts.size + parts.error
        general = np.where(total > 0, share * np.where(total > 0, total, 1.0), 0.0)
        few = (parts.terms <= 2) & (parts.factors == 0)
        rounded = np.where(few, np.minimum(general, u * (reach + parts.error)), general)
        room = (1 - 2.0**-40) * 2.0**self.numbers.bits * parts.grain  # sizes are rounded themselves
        exact = (parts.error == 0) & (parts.size <= room) & (parts.grain >= self.numbers.tiny)
        return np.where(exact, 0.0, parts.error + rounded + parts.terms * self.numbers.tiny)

    def unit(self, parts: Parts, of: Expression) -> Parts:
        """relu of a sum, as one term."""
        reach = self._reach(of)
        error = self.added_up(parts, reach)
        grain = np.where(error == 0, parts.grain, 0.0)
        return Parts(((reach + error) > 0) * 1, reach, error, grain, 0)

    def compared(self, one: Parts, off: Array, grid: float) -> Array:
        """How far a comparison's 2·e/grid ± ½ can be off, e being off by `off` before."""
        scaled = self._times(2 / grid, one)
        whole = np.ones(len(off))
        threshold = Parts(whole, 1.5 * whole, 0 * whole, 0.5 * whole, 0)
        total = together(scaled, threshold)
        return 2 / grid * off + self.added_up(total, total.size)

    def _times(self, factor: float, parts: Parts) -> Parts:
        power = math.frexp(factor)[0] in (0.5, -0.5)
        if factor == 0:
            return nothing(len(parts.size))
        lowest = float(grain_of(np.array([factor]))[0]) if self.numbers.holds(factor) else 0.0
        zeros = np.isinf(parts.grain)
        grain = np.where(zeros, np.inf, np.where(zeros, 0.0, parts.grain) * lowest)
        size = abs(factor)
        return Parts(parts.terms, size * parts.size, size * parts.error, grain, parts.factors + (0 if power else 2))

    def _shut_off(self, of: Expression) -> Array:
        """Whether a shut gate holds a value back, however far it is off: not where its error is as large as itself."""
        error = self.carried(of) + self.unit(self.parts(of), of).error
        return 2 * error <= self._reach(of)

    def _reach(self, expression: Expression) -> Array:
        key = ("reach", expression)
        if key not in self.known:
            held = bounds(expression, self.words.ranges)
            self.known[key] = np.maximum(np.abs(held.low), np.abs(held.high))
        return self.known[key]
