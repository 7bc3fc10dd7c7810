"""A layer and its round as formulas for z3: the same variables on both sides, and every number an exact fraction."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import z3

from posattn.compile.expressions import Expression, Line, tree
from posattn.compile.proof.layer_weights import Column, Cone
from posattn.compile.proof.values import Undecided, Value


class Variables(NamedTuple):
    """What stands for every value, and what is known of the variables in it."""

    terms: list[Any]
    given: list[Any]


def variables(values: Sequence[Value], margins: Sequence[Fraction]) -> Variables:
    """Values on a lattice are offset + step·k for a whole k, others any number in their range; widened by margins."""
    terms: list[Any] = []
    given: list[Any] = []
    for number, (value, margin) in enumerate(zip(values, margins, strict=True)):
        if value.fixed and not margin:
            terms.append(real(value.low))
        elif value.lattice is None:
            free = z3.Real(f"v{number}")
            given += [free >= real(value.low - margin), free <= real(value.high + margin)]
            terms.append(free)
        else:
            offset, step = value.lattice
            point = real(offset)
            if step:
                point = real(offset) + real(step) * z3.ToReal(z3.Int(f"k{number}"))
                off_lattice = value.meant + value.error  # of the range's ends: 0.3 is a little less than 3/10
                given += [point >= real(value.low - off_lattice), point <= real(value.high + off_lattice)]
            if margin:
                off = z3.Real(f"e{number}")
                given += [off >= real(-margin), off <= real(margin)]
                point = point + off
            terms.append(point)
    return Variables(terms, given)


def real(number: Fraction) -> Any:
    return z3.RealVal(f"{number.numerator}/{number.denominator}")


class Network(NamedTuple):
    """A cone as formulas: what each hidden unit adds up to before its ReLU, and the output; 0 is None."""

    hidden: list[list[Any]]
    output: Any


def network(cone: Cone, inputs: Sequence[Any]) -> Network:
    """What a layer computes for one register, from a formula for each input."""
    value = [_sum(column, inputs) for column in cone.value]
    state = [*inputs[: cone.own], *(_sum(column, value) for column in cone.output)]
    hidden: list[list[Any]] = []
    below: list[Column] = []
    for matrix in cone.mlp:
        sums = [_sum(column, state, hidden[-1] if hidden else (), below) for column in matrix]
        hidden.append(sums)
        below = matrix
        state = [None if s is None else z3.If(s > 0, s, real(Fraction(0))) for s in sums]
    return Network(hidden[:-1], hidden[-1][0])


def _sum(column: Column, terms: Sequence[Any], sums: Sequence[Any] = (), below: Sequence[Column] = ()) -> Any:
    """Σ weight·term. Where terms are ReLUs of sums of columns below, w·relu(x) − w·relu(−x) is written as w·x."""
    left = {row: weight for row, weight in column.items() if terms[row] is not None}
    held = []
    while left:
        row, weight = left.popitem()
        pair = next((k for k, w in left.items() if below and w == -weight and below[k] == _opposite(below[row])), None)
        if pair is not None:
            left.pop(pair)
        term = terms[row] if pair is None else sums[row]
        held.append(term if weight == 1 else real(weight) * term)
    if not held:
        return None
    return held[0] if len(held) == 1 else z3.Sum(held)


def _opposite(column: Column) -> Column:
    return {row: -weight for row, weight in column.items()}


class Formulas:
    """Expressions of a program as formulas, and the decisions that they take on the way."""

    def __init__(self, words: Mapping[str, Any]) -> None:
        self.words = words
        self.known: dict[Expression, Any] = {}
        self.decides = False  # whether any decision is taken, be it the same for all inputs
        self.decisions: dict[str, Any] = {}  # by what they print as: the same decision is taken once

    def of(self, expression: Expression) -> Any:
        if expression not in self.known:
            self.known[expression] = self._of(expression)
        return self.known[expression]

    def _of(self, expression: Expression) -> Any:
        zero, one_ = real(Fraction(0)), real(Fraction(1))
        match expression:
            case tree.Word(name):
                return self.words[name]
            case tree.Constant(value):
                return real(Fraction(value))
            case tree.Sum(terms):
                return z3.Sum([self.of(term) for term in terms])
            case tree.Scaled(factor, of):
                return real(Fraction(factor)) * self.of(of)
            case tree.Product(one, other):
                return self._product(z3.simplify(self.of(one)), z3.simplify(self.of(other)), expression)
            case tree.Relu(of):
                held = self.of(of)
                return z3.If(held > 0, held, zero)
            case tree.Minimum(one, other):
                a, b = self.of(one), self.of(other)
                return z3.If(a <= b, a, b)
            case tree.Maximum(one, other):
                a, b = self.of(one), self.of(other)
                return z3.If(a >= b, a, b)
            case tree.Gate(of, shut):
                return z3.If(self._decision(self.of(shut) > 0), zero, self.of(of))
            case tree.Select(bit, _, one, other):
                return z3.If(self._decision(self.of(bit) == 1), self.of(one), self.of(other))
            case tree.Exchange(own, other, upper, _):
                a, b = self.of(own), self.of(other)
                return z3.If(self._decision(self.of(upper) == 1), z3.If(a >= b, a, b), z3.If(a <= b, a, b))
            case tree.Positive(of, grid):
                return z3.If(self._decision(self.of(of) > real(Fraction(grid) / 2)), one_, zero)
            case tree.Equal(one, other, grid):
                apart, half = self.of(one) - self.of(other), real(Fraction(grid) / 2)
                return z3.If(self._decision(z3.And(apart < half, -apart < half)), one_, zero)
            case Line(of, start, knots, bends, _):
                held, pairs = self.of(of), zip(knots, bends, strict=True)
                over = [(real(Fraction(bend)), held - real(Fraction(knot))) for knot, bend in pairs]
                return z3.Sum([real(Fraction(start)), *(bend * z3.If(z > 0, z, zero) for bend, z in over)])
        raise Undecided(f"{expression} is not piecewise linear, and there is no bound on its fit")

    def _product(self, one: Any, other: Any, whole: Expression) -> Any:
        if not (z3.is_rational_value(one) or z3.is_rational_value(other)):
            raise Undecided(f"{whole} multiplies two values that both depend on the input")
        return one * other

    def _decision(self, condition: Any) -> Any:
        self.decides = True
        found = z3.simplify(condition)
        if not (z3.is_true(found) or z3.is_false(found)):
            self.decisions[found.sexpr()] = found
        return found
