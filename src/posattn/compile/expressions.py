"""The language of local functions: what a node may compute from its own registers and the words it received.

    +, −, constants, scaling, relu, min, max, abs       piecewise linear, exact in ReLU units
    word * word                                         linear where one of the two is a constant at every node
    gate(e, shut)                                       e where `shut` is 0, and 0 where it is 1 or more
    select(bit, e, f)                                   e where the bit is 1, f where it is 0
    exchange(own, other, upper)                         the smaller of two at the lower node, the larger at the upper
    positive(e, grid), equal(e, f, grid)                the bits e > 0 and e = f, for numbers on a grid
    call(function, e, …)                                anything else: runs, but can only be compiled by a fit

Expressions are trees of frozen dataclasses. `evaluate` runs one in NumPy, node by node and sample by sample at once;
`posattn.compile.lowering.intervals` bounds its values, `posattn.compile.lowering.relu` turns it into weights.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any

import numpy as np

from posattn.errors import PosattnError, require

Number = int | float | np.number[Any]
Array = np.ndarray[Any, np.dtype[Any]]

#: What to write where Python would compare two expressions itself: `a > b`, `min(a, b)`, `max(a, b)`, `sorted`.
COMPARE = (
    "the values are not known when the program is written. Write minimum(a, b) and maximum(a, b) in place of min and "
    "max, and positive(a - b) for the bit a > b."
)


@dataclass(frozen=True, eq=False)
class Expression:
    """A value at every node. Built by operators and the functions below."""

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
        return Scaled(_number(factor, "an expression is multiplied by a number or by another expression"), self)

    __rmul__ = __mul__

    def __truediv__(self, divisor: Number) -> "Expression":
        number = _number(divisor, "an expression is divided by a number; call(numpy.reciprocal, …) can be fitted")
        require(number != 0, f"{self} / 0: divide by a number other than 0.")
        return self * (1 / number)

    def __abs__(self) -> "Expression":
        return absolute(self)

    # `==` compares two expressions as they are written; whatever would make Python decide by a value is refused.

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Real | np.bool_):
            raise PosattnError(
                f"{self} == {other}: `==` compares two expressions as they are written, not their values, and decides "
                "once, when the program is written. Write equal(a, b) for the bit a = b."
            )
        return isinstance(other, Expression) and type(self) is type(other) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash((type(self), self._fields()))

    def _fields(self) -> tuple[Any, ...]:
        return tuple(getattr(self, field.name) for field in fields(self))

    def __pos__(self) -> "Expression":
        return self

    def __pow__(self, power: object) -> "Expression":
        raise PosattnError(f"{self} ** {power}: powers are not piecewise linear. call(product, a, a) can be fitted.")

    def __mod__(self, divisor: object) -> "Expression":
        raise PosattnError(f"{self} % {divisor}: remainders are not in the language. Build them of positive(…) bits.")

    def __floordiv__(self, divisor: object) -> "Expression":
        raise PosattnError(f"{self} // {divisor}: there is no rounding in the language. Use / and positive(…) bits.")

    def __rtruediv__(self, number: object) -> "Expression":
        raise PosattnError(
            f"{number} / {self}: a quotient is not piecewise linear. call(numpy.reciprocal, …) can be fitted."
        )

    def __bool__(self) -> bool:
        raise PosattnError(
            f"'if {self}', 'and', 'or' and 'not' decide once, when the program is written, not at every node: write "
            "select(bit, one, zero), or gate(value, shut=bit)."
        )

    def __lt__(self, other: object) -> bool:
        raise PosattnError(f"{self} < {other}: {COMPARE}")

    def __le__(self, other: object) -> bool:
        raise PosattnError(f"{self} <= {other}: {COMPARE}")

    def __gt__(self, other: object) -> bool:
        raise PosattnError(f"{self} > {other}: {COMPARE}")

    def __ge__(self, other: object) -> bool:
        raise PosattnError(f"{self} >= {other}: {COMPARE}")


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
    """The product of two values. It compiles where one of them is a constant at every node."""

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
    """`one` where the bit is 1, `zero` where it is 0. `unless` is the complement, and used where that can be seen."""

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
    """1 where `of` is at least `grid`, 0 where it is at most 0; in between there must be nothing."""

    of: Expression
    grid: float

    def __str__(self) -> str:
        return f"[{self.of} > 0]"


@dataclass(frozen=True, eq=False)
class Equal(Expression):
    """1 where `one` and `other` are equal, 0 where they lie at least `grid` apart; in between there must be nothing."""

    one: Expression
    other: Expression
    grid: float

    def __str__(self) -> str:
        return f"[{self.one} = {self.other}]"


@dataclass(frozen=True, eq=False)
class Call(Expression):
    """A function that is not piecewise linear."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Expression, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.arguments))})"


def as_expression(value: "Expression | Number") -> Expression:
    """A number as a constant; an expression as it is."""
    if isinstance(value, Expression):
        return value
    return Constant(_number(value, "use words, finite numbers, and the functions of posattn.compile"))


def _number(value: Any, wanted: str) -> float:
    """A finite number as a float. A bool is refused: it comes from a comparison that Python made by itself."""
    if isinstance(value, bool | np.bool_):
        raise PosattnError(
            f"{value} in an expression: `==` compares two expressions as they are written, not their values. Write "
            "equal(a, b) for the bit a = b, positive(a - b) for a > b."
        )
    require(isinstance(value, Real), f"{value!r} in an expression: {wanted}.")
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    require(math.isfinite(found), f"{found} in an expression: its numbers are finite.")
    return found


def _grid(value: Any) -> float:
    number = _number(value, "grid is the distance between two neighbouring values")
    require(number > 0, f"grid={value}: the distance between two neighbouring values is above 0.")
    return number


def word(name: str) -> Expression:
    """A register or a received word, by name."""
    named = isinstance(name, str) and bool(name)
    require(named, f"word({name!r}): a word is named by a text, as word('x').")
    return Word(name)


def relu(value: "Expression | Number") -> Expression:
    return Relu(as_expression(value))


def minimum(one: "Expression | Number", other: "Expression | Number") -> Expression:
    return Minimum(as_expression(one), as_expression(other))


def maximum(one: "Expression | Number", other: "Expression | Number") -> Expression:
    return Maximum(as_expression(one), as_expression(other))


def absolute(value: "Expression | Number") -> Expression:
    held = as_expression(value)
    return Maximum(held, -held)


def gate(value: "Expression | Number", *, shut: "Expression | Number") -> Expression:
    """`value` where `shut` is 0, and 0 where it is 1 or more."""
    return Gate(as_expression(value), as_expression(shut))


def select(
    bit: "Expression | Number",
    one: "Expression | Number",
    zero: "Expression | Number",
    *,
    unless: "Expression | Number | None" = None,
) -> Expression:
    """`one` where the bit is 1, `zero` where it is 0. A constant register that holds the complement saves a layer."""
    held = as_expression(bit)
    return Select(held, 1 - held if unless is None else as_expression(unless), as_expression(one), as_expression(zero))


def exchange(
    own: "Expression | Number",
    other: "Expression | Number",
    *,
    upper: "Expression | Number",
    lower: "Expression | Number | None" = None,
) -> Expression:
    """Compare-exchange: the smaller one where the bit `upper` is 0, the larger one where it is 1."""
    bit = as_expression(upper)
    return Exchange(as_expression(own), as_expression(other), bit, 1 - bit if lower is None else as_expression(lower))


def positive(value: "Expression | Number", *, grid: float = 1.0) -> Expression:
    """The bit `value > 0`, for values of which none lies strictly between 0 and `grid`."""
    return Positive(as_expression(value), _grid(grid))


def equal(one: "Expression | Number", other: "Expression | Number", *, grid: float = 1.0) -> Expression:
    """The bit `one == other`, for values that are equal or at least `grid` apart."""
    return Equal(as_expression(one), as_expression(other), _grid(grid))


def distance(one: "Expression | Number", other: "Expression | Number") -> Expression:
    """|one − other| as the sum of two units: 0 or at least 1 for whole numbers, so it can shut a gate."""
    difference = as_expression(one) - as_expression(other)
    return relu(difference) + relu(-difference)


def call(function: Callable[..., Any], *arguments: "Expression | Number", name: str | None = None) -> Expression:
    """Any function of NumPy arrays. It runs in the interpreter; compiling it needs a fit."""
    require(callable(function), f"call({function!r}, …): the first argument is a function of NumPy arrays.")
    named = name is None or (isinstance(name, str) and bool(name))
    require(named, f"name={name!r}: a function is named by a text, as call(numpy.exp, word('x'), name='exp').")
    called = getattr(function, "__name__", "function") if name is None else name
    return Call(called, function, tuple(map(as_expression, arguments)))


def product(one: Array, other: Array) -> Array:
    """The product of two words: outside the language, but known to the fits."""
    return one * other


def raised(expression: Expression) -> tuple[Expression, Expression] | None:
    """(a, b) for a + gate(relu(b − a), shut=…), which is a or max(a, b): no more than the larger of the two."""
    match expression:
        case Sum((one, Gate(Relu(Sum((other, Scaled(-1.0, same)))), _))) if same == one:
            return one, other
    return None


def children(expression: Expression) -> Iterator[Expression]:
    """What an expression is made of directly."""
    for field in fields(expression):
        held = getattr(expression, field.name)
        if isinstance(held, Expression):
            yield held
        elif isinstance(held, tuple):
            yield from (entry for entry in held if isinstance(entry, Expression))


def walk(expression: Expression) -> Iterator[Expression]:
    """An expression and everything in it."""
    yield expression
    for child in children(expression):
        yield from walk(child)


def words_of(expression: Expression) -> set[str]:
    """The names of the words that an expression reads."""
    return {part.name for part in walk(expression) if isinstance(part, Word)}


def renamed(expression: Expression, names: Mapping[str, str]) -> Expression:
    """The same expression with other words."""
    if isinstance(expression, Word):
        return Word(names.get(expression.name, expression.name))
    changed: dict[str, Any] = {}
    for field in fields(expression):
        held = getattr(expression, field.name)
        if isinstance(held, Expression):
            changed[field.name] = renamed(held, names)
        elif isinstance(held, tuple):
            changed[field.name] = tuple(renamed(e, names) if isinstance(e, Expression) else e for e in held)
        else:
            changed[field.name] = held
    return type(expression)(**changed)


def evaluate(expression: Expression, words: Mapping[str, Array]) -> Array:
    """The expression's value, in the dtype of the words."""
    match expression:
        case Word(name):
            return words[name]
        case Constant(value):
            some = next(iter(words.values()))
            return np.full_like(some, value)
        case Sum(terms):
            total = evaluate(terms[0], words)
            for term in terms[1:]:
                total = total + evaluate(term, words)
            return total
        case Scaled(factor, of):
            held = evaluate(of, words)
            return held * held.dtype.type(factor)
        case Product(one, other):
            return evaluate(one, words) * evaluate(other, words)
        case Relu(of):
            return np.maximum(evaluate(of, words), 0)
        case Minimum(one, other):
            return np.minimum(evaluate(one, words), evaluate(other, words))
        case Maximum(one, other):
            return np.maximum(evaluate(one, words), evaluate(other, words))
        case Gate(of, shut):
            return np.where(evaluate(shut, words) > 0, 0, evaluate(of, words))
        case Select(bit, _, one, zero):
            return np.where(evaluate(bit, words) == 1, evaluate(one, words), evaluate(zero, words))
        case Exchange(own, other, upper, _):
            a, b = evaluate(own, words), evaluate(other, words)
            return np.where(evaluate(upper, words) == 1, np.maximum(a, b), np.minimum(a, b))
        case Positive(of, grid):
            held = evaluate(of, words)
            return (held > grid / 2).astype(held.dtype)
        case Equal(one, other, grid):
            apart = np.abs(evaluate(one, words) - evaluate(other, words))
            return (apart < grid / 2).astype(apart.dtype)
        case Call(_, function, arguments):
            return np.asarray(function(*(evaluate(argument, words) for argument in arguments)))
    raise PosattnError(f"{expression!r} is no expression of posattn.compile.")
