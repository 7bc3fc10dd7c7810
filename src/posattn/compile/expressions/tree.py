"""Expressions as trees: one frozen dataclass per kind, compared as they are written.

`==` compares trees, not values; operators that would make Python decide by a value are refused (`refused`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from posattn.compile.expressions.refused import Refusing
from posattn.errors import PosattnError, require

Number = int | float | np.number[Any]
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class Expression(Refusing):
    """A value at every node. Built by operators and by the functions of `posattn.compile.expressions.functions`."""

    def __add__(self, other: "Expression | Number") -> "Expression":
        return Sum((self, as_expression(other)))

    __radd__ = __add__

    def __neg__(self) -> "Expression":
        return Scaled(-1.0, self)

    def __sub__(self, other: "Expression | Number") -> "Expression":
        return Sum((self, -as_expression(other)))

    def __rsub__(self, other: Number) -> "Expression":
        return Sum((as_expression(other), -self))

    def __mul__(self, factor: "Expression | Number") -> "Expression":
        if isinstance(factor, Expression):
            return Product(self, factor)
        return Scaled(finite_number(factor, "an expression is multiplied by a number or by another expression"), self)

    __rmul__ = __mul__

    def __truediv__(self, divisor: "Expression | Number") -> "Expression":
        if isinstance(divisor, Expression):
            return Product(self, Call("reciprocal", np.reciprocal, (divisor,)))
        number = finite_number(divisor, "an expression is divided by a number or by another expression")
        require(number != 0, f"{self} / 0: divide by a number other than 0.")
        return self * (1 / number)

    def __rtruediv__(self, number: Number) -> "Expression":
        return Call("reciprocal", np.reciprocal, (self,)) * number

    def __abs__(self) -> "Expression":
        return Maximum(self, -self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Real | np.bool_):
            raise PosattnError(
                f"{self} == {other}: `==` compares two expressions as they are written, not their values, and decides "
                "once, when the program is written. Write equal(a, b) for the bit a = b."
            )
        if self is other:
            return True
        return isinstance(other, Expression) and type(self) is type(other) and self._fields() == other._fields()

    def __hash__(self) -> int:
        """Kept once it is known: analyses look parts of a tree up again and again."""
        known = self.__dict__.get("_hash")
        if known is None:
            known = hash((type(self), self._fields()))
            object.__setattr__(self, "_hash", known)
        return known

    def _fields(self) -> tuple[Any, ...]:
        return tuple(self.__dict__[name] for name in self.__dataclass_fields__)

    def __getstate__(self) -> dict[str, Any]:
        """Without the hash, which differs from process to process."""
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    def __pos__(self) -> "Expression":
        return self


@dataclass(frozen=True, eq=False)
class Word(Expression):
    """A register or a received word, by name."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class Constant(Expression):
    value: float

    def __str__(self) -> str:
        return f"{self.value:g}"


@dataclass(frozen=True, eq=False)
class Sum(Expression):
    terms: tuple[Expression, ...]

    def __str__(self) -> str:
        text = " + ".join(map(str, self.terms))
        return f"({text.replace('+ -', '− ')})"


@dataclass(frozen=True, eq=False)
class Scaled(Expression):
    factor: float
    of: Expression

    def __str__(self) -> str:
        return f"-{self.of}" if self.factor == -1 else f"{self.factor:g}·{self.of}"


@dataclass(frozen=True, eq=False)
class Product(Expression):
    """The product of two values: exact where one of them is constant at every node, and otherwise a fit."""

    one: Expression
    other: Expression

    def __str__(self) -> str:
        return f"{self.one}·{self.other}"


@dataclass(frozen=True, eq=False)
class Relu(Expression):
    of: Expression

    def __str__(self) -> str:
        return f"relu({self.of})"


@dataclass(frozen=True, eq=False)
class Minimum(Expression):
    one: Expression
    other: Expression

    def __str__(self) -> str:
        return f"min({self.one}, {self.other})"


@dataclass(frozen=True, eq=False)
class Maximum(Expression):
    one: Expression
    other: Expression

    def __str__(self) -> str:
        return f"max({self.one}, {self.other})"


@dataclass(frozen=True, eq=False)
class Gate(Expression):
    """`of` where `shut` is 0, and 0 where it is 1 or more."""

    of: Expression
    shut: Expression

    def __str__(self) -> str:
        return f"gate({self.of}, shut={self.shut})"


@dataclass(frozen=True, eq=False)
class Select(Expression):
    """`one` where the bit is 1, `zero` where it is 0. `unless` is the bit's complement, which may save a layer."""

    bit: Expression
    unless: Expression
    one: Expression
    zero: Expression

    def __str__(self) -> str:
        return f"({self.one} if {self.bit} else {self.zero})"


@dataclass(frozen=True, eq=False)
class Exchange(Expression):
    """min(own, other) where the bit `upper` is 0, max(own, other) where it is 1; `lower` as in `Select`."""

    own: Expression
    other: Expression
    upper: Expression
    lower: Expression

    def __str__(self) -> str:
        return f"(max if {self.upper} else min)({self.own}, {self.other})"


@dataclass(frozen=True, eq=False)
class Positive(Expression):
    """1 where `of` is at least `grid`, 0 where it is at most 0; nothing may lie in between."""

    of: Expression
    grid: float

    def __str__(self) -> str:
        return f"[{self.of} > 0]"


@dataclass(frozen=True, eq=False)
class Equal(Expression):
    """1 where `one` equals `other`, 0 where they lie at least `grid` apart; nothing may lie in between."""

    one: Expression
    other: Expression
    grid: float

    def __str__(self) -> str:
        return f"[{self.one} = {self.other}]"


@dataclass(frozen=True, eq=False)
class Call(Expression):
    """A function that is not piecewise linear, of NumPy arrays."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Expression, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.arguments))})"


#: What stands for an expression: a number is a constant.
Value = Expression | Number


def as_expression(value: Value) -> Expression:
    """A number as a constant; an expression as it is."""
    if isinstance(value, Expression):
        return value
    return Constant(finite_number(value, "use words, finite numbers, and the functions of posattn.compile"))


def finite_number(value: Any, fix: str) -> float:
    """A finite number as a float. Bools are refused: they come from comparisons that Python itself has decided."""
    if isinstance(value, bool | np.bool_):
        raise PosattnError(
            f"{value} in an expression: `==` compares two expressions as they are written, not their values. Write "
            "equal(a, b) for the bit a = b, positive(a - b) for a > b."
        )
    require(isinstance(value, Real), f"{value!r} in an expression: {fix}.")
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    require(math.isfinite(found), f"{found} in an expression: use finite numbers.")
    return found


def foreign(expression: object) -> PosattnError:
    """The error for a kind of expression that the language does not have."""
    return PosattnError(f"{expression!r} is not an expression of posattn.compile.")
