"""Expressions: one frozen dataclass per kind, compared as they are written.

`==` compares what is written, not values; operators that would make Python decide by a value are refused (`refused`).
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
#: Expressions with more parts than this are shown as "…".
MOST_SHOWN = 1000


@dataclass(frozen=True, eq=False, repr=False)
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
        return isinstance(other, Expression) and _alike(self, other)

    def __hash__(self) -> int:
        """Kept once it is known: analyses look parts of a tree up again and again."""
        known = self.__dict__.get("_hash")
        if known is None:
            known = hash((type(self), self._fields()))
            object.__setattr__(self, "_hash", known)
        return known

    def __repr__(self) -> str:
        shown = zip(self.__dataclass_fields__, self._fields(), strict=True) if self._size <= MOST_SHOWN else ()
        return f"{type(self).__name__}({', '.join(f'{name}={held!r}' for name, held in shown) or '…'})"

    @property
    def _size(self) -> int:
        """How many parts it has when written out; kept once it is known."""
        known = self.__dict__.get("_parts")
        if known is None:
            held = [f if isinstance(f, tuple) else (f,) for f in self._fields()]
            known = 1 + sum(part._size for parts in held for part in parts if isinstance(part, Expression))
            object.__setattr__(self, "_parts", known)
        return known

    def _fields(self) -> tuple[Any, ...]:
        return tuple(self.__dict__[name] for name in self.__dataclass_fields__)

    def __getstate__(self) -> dict[str, Any]:
        """Without what is kept: hashes differ from process to process."""
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    def __pos__(self) -> "Expression":
        return self


@dataclass(frozen=True, eq=False, repr=False)
class Word(Expression):
    """A register or a received word, by name."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False, repr=False)
class Constant(Expression):
    value: float

    def __str__(self) -> str:
        return f"{self.value:g}"


@dataclass(frozen=True, eq=False, repr=False)
class Sum(Expression):
    terms: tuple[Expression, ...]

    def __str__(self) -> str:
        text = " + ".join(map(_shown, self.terms))
        return f"({text.replace('+ -', '− ')})"


@dataclass(frozen=True, eq=False, repr=False)
class Scaled(Expression):
    factor: float
    of: Expression

    def __str__(self) -> str:
        return f"-{_shown(self.of)}" if self.factor == -1 else f"{self.factor:g}·{_shown(self.of)}"


@dataclass(frozen=True, eq=False, repr=False)
class Product(Expression):
    """The product of two values: exact where one of them is constant at every node, and otherwise a fit."""

    one: Expression
    other: Expression

    def __str__(self) -> str:
        return f"{_shown(self.one)}·{_shown(self.other)}"


@dataclass(frozen=True, eq=False, repr=False)
class Relu(Expression):
    of: Expression

    def __str__(self) -> str:
        return f"relu({_shown(self.of)})"


@dataclass(frozen=True, eq=False, repr=False)
class Minimum(Expression):
    one: Expression
    other: Expression

    def __str__(self) -> str:
        return f"min({_shown(self.one)}, {_shown(self.other)})"


@dataclass(frozen=True, eq=False, repr=False)
class Maximum(Expression):
    one: Expression
    other: Expression

    def __str__(self) -> str:
        return f"max({_shown(self.one)}, {_shown(self.other)})"


@dataclass(frozen=True, eq=False, repr=False)
class Gate(Expression):
    """`of` where `shut` is 0, and 0 where it is 1 or more."""

    of: Expression
    shut: Expression

    def __str__(self) -> str:
        return f"gate({_shown(self.of)}, shut={_shown(self.shut)})"


@dataclass(frozen=True, eq=False, repr=False)
class Select(Expression):
    """`one` where the bit is 1, `zero` where it is 0. `unless` is the bit's complement, which may save a layer."""

    bit: Expression
    unless: Expression
    one: Expression
    zero: Expression

    def __str__(self) -> str:
        return f"({_shown(self.one)} if {_shown(self.bit)} else {_shown(self.zero)})"


@dataclass(frozen=True, eq=False, repr=False)
class Exchange(Expression):
    """min(own, other) where the bit `upper` is 0, max(own, other) where it is 1; `lower` as in `Select`."""

    own: Expression
    other: Expression
    upper: Expression
    lower: Expression

    def __str__(self) -> str:
        return f"(max if {_shown(self.upper)} else min)({_shown(self.own)}, {_shown(self.other)})"


@dataclass(frozen=True, eq=False, repr=False)
class Positive(Expression):
    """1 where `of` is at least `grid`, 0 where it is at most 0; nothing may lie in between."""

    of: Expression
    grid: float

    def __str__(self) -> str:
        return f"[{_shown(self.of)} > 0]"


@dataclass(frozen=True, eq=False, repr=False)
class Equal(Expression):
    """1 where `one` equals `other`, 0 where they lie at least `grid` apart; nothing may lie in between."""

    one: Expression
    other: Expression
    grid: float

    def __str__(self) -> str:
        return f"[{_shown(self.one)} = {_shown(self.other)}]"


@dataclass(frozen=True, eq=False, repr=False)
class Call(Expression):
    """A function that is not piecewise linear, of NumPy arrays."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Expression, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(_shown, self.arguments))})"


def _shown(part: Expression) -> str:
    return "…" if part._size > MOST_SHOWN else str(part)


def _alike(one: Expression, other: Expression) -> bool:
    """Whether two expressions are written alike. Every pair of parts is compared once, however often both use it."""
    seen: set[tuple[int, int]] = set()
    waiting: list[tuple[Any, Any]] = [(one, other)]
    while waiting:
        a, b = waiting.pop()
        if a is b or (id(a), id(b)) in seen:
            continue
        if isinstance(a, Expression) and isinstance(b, Expression):
            if type(a) is not type(b) or hash(a) != hash(b):
                return False
            seen.add((id(a), id(b)))
            waiting += zip(a._fields(), b._fields(), strict=True)
        elif isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            waiting += zip(a, b, strict=True)
        elif isinstance(a, Expression) or isinstance(b, Expression) or a != b:
            return False
    return True


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
