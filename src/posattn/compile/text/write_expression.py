"""Expressions as text that reads back as the same expression.

A number by itself is a constant. const(2) is one where a number would be taken for a factor, as in const(2) * x, or be
moved to the end, as in const(2) + x.
"""

from collections.abc import Mapping
from typing import NamedTuple

from posattn.compile.expressions import Expression, Once, tree
from posattn.compile.expressions.known_functions import FUNCTIONS
from posattn.compile.text.tokens import quoted, shown_name, shown_number


class Text(NamedTuple):
    """An expression as text, and how tightly it binds: 0 a sum, 1 a product, 2 a minus sign, 3 anything else."""

    text: str
    binds: int


class Writer:
    """Writes expressions, with names in place of some of their parts."""

    def __init__(self, named: Mapping[Expression, str]) -> None:
        self.named = named
        self.known = Once(lambda part, _: self._named_or_text(part))

    def __call__(self, expression: Expression) -> str:
        return self.known.of(expression).text

    def _named_or_text(self, part: Expression) -> Text:
        return Text(self.named[part], 3) if part in self.named else self._text(part)

    def _binding(self, part: Expression, least: int, *, number: bool = False) -> str:
        """A part in a place where it has to bind; `number`: whether a bare number stands for a constant there."""
        if isinstance(part, tree.Constant) and not number:
            return f"const({shown_number(part.value)})"
        held = self.known.of(part)
        return held.text if held.binds >= least else f"({held.text})"

    def _called(self, name: str, *parts: Expression, **named: Expression | float | None) -> Text:
        given = list(map(self, parts))
        for key, held in named.items():
            if held is not None:
                given.append(f"{key}={self(held) if isinstance(held, Expression) else shown_number(held)}")
        return Text(f"{name}({', '.join(given)})", 3)

    def _text(self, expression: Expression) -> Text:
        match expression:
            case tree.Word(name):
                return Text(shown_name(name), 3)
            case tree.Constant(value):
                return Text(shown_number(value), 2)
            case tree.Sum():
                return self._sum(expression)
            case tree.Scaled():
                return self._scaled(expression)
            case tree.Product(one, other):
                return Text(f"{self._binding(one, 1)} * {self._binding(other, 2)}", 1)
            case tree.Relu(part):
                return self._called("relu", part)
            case tree.Minimum(one, other):
                return self._called("min", one, other)
            case tree.Maximum(one, tree.Scaled(-1.0, same)) if same == one:
                return self._called("abs", one)
            case tree.Maximum(one, other):
                return self._called("max", one, other)
            case tree.Gate(part, shut):
                return self._called("gate", part, shut=shut)
            case tree.Select(bit, unless, one, zero):
                return self._called("select", bit, one, zero, unless=None if unless == 1 - bit else unless)
            case tree.Exchange(own, other, upper, lower):
                return self._called("exchange", own, other, upper=upper, lower=None if lower == 1 - upper else lower)
            case tree.Positive(part, grid):
                return self._called("positive", part, grid=None if grid == 1 else grid)
            case tree.Equal(one, other, grid):
                return self._called("equal", one, other, grid=None if grid == 1 else grid)
            case tree.Call(name, function, arguments) if FUNCTIONS.get(name) is function:
                return self._called(name, *arguments)
            case tree.Call(name, _, arguments):  # a function of the user's own: for people to read
                return Text(f"call({', '.join([quoted(name), *map(self, arguments)])})", 3)
        raise tree.foreign(expression)

    def _sum(self, expression: tree.Sum) -> Text:
        match expression.terms:
            case (one, tree.Scaled(-1.0, other)):
                # a number on the left of a minus stays there, unless both sides are numbers
                number = isinstance(one, tree.Constant) and not isinstance(other, tree.Constant)
                return Text(f"{self._binding(one, 0, number=number)} - {self._binding(other, 1, number=True)}", 0)
            case (one, other):
                return Text(f"{self._binding(one, 0)} + {self._binding(other, 1, number=True)}", 0)
        return self._called("sum", *expression.terms)

    def _scaled(self, expression: tree.Scaled) -> Text:
        factor, part = expression.factor, expression.of
        if factor == -1:
            return Text(f"-{self._binding(part, 2)}", 2)
        divisor = _divisor(factor)
        if divisor is not None:
            return Text(f"{self._binding(part, 1)} / {divisor}", 1)
        return Text(f"{shown_number(factor)} * {self._binding(part, 2)}", 1)


def _divisor(factor: float) -> int | None:
    """3 for 1/3, where dividing by it is multiplying by the factor."""
    if not 1e-9 < abs(factor) < 1:
        return None
    divisor = round(1 / factor)
    return divisor if 1 / divisor == factor else None
