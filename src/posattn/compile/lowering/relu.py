"""From a local function to ReLU units that compute it exactly.

Every expression becomes a linear form in words and units relu(linear form) (`posattn.compile.lowering.linear_forms`).

    min(a, b) = a − relu(a − b)                     max(a, b) = a + relu(b − a)
    gate(e, s) = relu(e − M·s) − relu(−e − M·s)     for |e| ≤ M: with s = 0 it is e and nothing was rounded, with s = 1
                                                    it is 0; gate(relu(e), s) = relu(e − M·s) needs one unit
    exchange = own − relu(own − other − M·upper) + relu(other − own − M·lower)
    [e > 0] = relu(1 − relu(1½ − 2e/grid))          for e a multiple of the grid: 0 up to a quarter of it, 1 from three
                                                    quarters on, so that no rounding of e makes half a bit
    [e = f] = relu(1 − relu(2d − ½) − relu(−2d − ½))    with d = (e − f)/grid: 1 up to a quarter of the grid, 0 from
                                                    three quarters on

M·s must be exactly 0 where the gate is open, so s has to be one atom, or a sum of units that are 0 one by one: with
M·1 − M·bit, e would be rounded away. The complement of a bit is therefore a register of its own, or, where there is
none, a unit one level deeper: relu(1 − bit).

A constant c is c times the register `one`, which is 1 at every node and 0 at the sink: no layer has a bias, and the
sink stays exactly 0.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from posattn.compile.expressions import Expression, Line, tree
from posattn.compile.lowering.expression_bounds import Interval, bounds
from posattn.compile.lowering.linear_forms import Form, Unit, plus, times, unit
from posattn.compile.program import ONE
from posattn.errors import PosattnError, require


@dataclass
class Translator:
    """Expressions to forms, for words within known bounds."""

    words: Mapping[str, Interval]
    aliases: Mapping[str, Form] = field(default_factory=dict)  # words that arrive in columns of another name
    known: dict[Expression, Form] = field(default_factory=dict)  # what was translated before

    def form(self, expression: Expression) -> Form:
        if expression not in self.known:
            self.known[expression] = self._form(expression)
        return dict(self.known[expression])

    def _form(self, expression: Expression) -> Form:
        match expression:
            case tree.Word(name):
                return dict(self.aliases.get(name, {name: 1.0}))
            case tree.Constant(value):
                return {ONE: value} if value else {}
            case tree.Sum(terms):
                return plus(*map(self.form, terms))
            case tree.Scaled(factor, of):
                return times(factor, self.form(of))
            case tree.Relu(of):
                return unit(self.form(of))
            case tree.Minimum(one, other):
                a, b = self.form(one), self.form(other)
                return plus(a, times(-1, unit(plus(a, times(-1, b)))))
            case tree.Maximum(one, other):
                a, b = self.form(one), self.form(other)
                return plus(a, unit(plus(b, times(-1, a))))
            case tree.Gate(of, shut):
                return self._gate(of, self.bit(shut))
            case tree.Select(bit, unless, one, zero):
                return plus(self._gate(one, self.complement(bit, unless)), self._gate(zero, self.bit(bit)))
            case tree.Exchange(own, other, upper, lower):
                a, b = self.form(own), self.form(other)
                limit = self._limit(own - other)
                falls = unit(plus(a, times(-1, b), times(-limit, self.bit(upper))))
                rises = unit(plus(b, times(-1, a), times(-limit, self.complement(upper, lower))))
                return plus(a, times(-1, falls), rises)
            case tree.Positive(of, grid):
                below = unit(plus({ONE: 1.5}, times(-2 / grid, self.form(of))))
                return unit(plus({ONE: 1.0}, times(-1, below)))
            case tree.Equal(one, other, grid):
                apart = times(2 / grid, plus(self.form(one), times(-1, self.form(other))))
                over, under = unit(plus(apart, {ONE: -0.5})), unit(plus(times(-1, apart), {ONE: -0.5}))
                return unit(plus({ONE: 1.0}, times(-1, over), times(-1, under)))
            case Line(of, start, knots, bends, _):
                inside = self.form(of)
                units = (unit(plus(inside, {ONE: -knot} if knot else {})) for knot in knots)
                bent = (times(bend, held) for bend, held in zip(bends, units, strict=True))
                return plus({ONE: start} if start else {}, *bent)
            case tree.Call():
                raise PosattnError(
                    f"{expression} is not piecewise linear: compile with fit=…, or write it in the language."
                )
        raise tree.foreign(expression)

    def bit(self, expression: Expression) -> Form:
        """A bit (or a shutter, 0 or at least 1) in atoms that are all 0 where it is: M times it is then exactly 0."""
        match expression:
            case tree.Sum(
                (tree.Constant(1.0), tree.Scaled(-1.0, tree.Positive(of, grid)))
            ):  # the complement costs no further level
                return unit(plus({ONE: 1.0}, times(-1, unit(plus(times(2 / grid, self.form(of)), {ONE: -0.5})))))
        form = self.form(expression)
        single = len(form) == 1 and next(iter(form.values())) == 1 and bounds(expression, self.words).low.min() >= 0
        units = all(isinstance(atom, Unit) and factor > 0 for atom, factor in form.items())
        return form if single or units else unit(form)

    def complement(self, bit: Expression, other: Expression) -> Form:
        """1 − bit, as `other` where that is known to be it, at no further level; else as a unit of its own."""
        if other == 1 - bit:
            return self.bit(other)
        one, two = bounds(bit, self.words), bounds(other, self.words)
        fixed = np.array_equal(one.low, one.high) and np.array_equal(two.low, two.high)
        if fixed and np.array_equal(one.low + two.low, np.ones_like(one.low)):
            return self.bit(other)
        return unit(plus({ONE: 1.0}, times(-1, self.form(bit))))

    def _gate(self, of: Expression, shut: Form) -> Form:
        limit = self._limit(of)
        if isinstance(of, tree.Relu):
            return unit(plus(self.form(of.of), times(-limit, shut)))
        value = self.form(of)
        if not value:
            return {}
        up = unit(plus(value, times(-limit, shut)))
        down = unit(plus(times(-1, value), times(-limit, shut)))
        return plus(up, times(-1, down))

    def _limit(self, expression: Expression) -> float:
        """A power of two of at least twice what the expression reaches: twice, so that rounding cannot open a gate."""
        reach = bounds(expression, self.words).reach
        require(math.isfinite(reach), f"{expression} is not bounded, so no gate can shut it.")
        return 2.0 ** math.ceil(math.log2(2 * reach)) if reach > 0 else 1.0
