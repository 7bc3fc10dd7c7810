"""The functions that write expressions; operators write the rest."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from posattn.compile.expressions.tree import (
    Array,
    Call,
    Constant,
    Equal,
    Exchange,
    Expression,
    Gate,
    Maximum,
    Minimum,
    Positive,
    Relu,
    Select,
    Sum,
    Value,
    Word,
    as_expression,
    finite_number,
)
from posattn.errors import require

#: Steps that a quotient may have.
MOST_STEPS = 1024


def word(name: str) -> Expression:
    """A register or a received word, by name."""
    named = isinstance(name, str) and bool(name)
    require(named, f"word({name!r}): name a word by a text, as word('x').")
    return Word(name)


def relu(value: Value) -> Expression:
    return Relu(as_expression(value))


def minimum(one: Value, other: Value) -> Expression:
    return Minimum(as_expression(one), as_expression(other))


def maximum(one: Value, other: Value) -> Expression:
    return Maximum(as_expression(one), as_expression(other))


def absolute(value: Value) -> Expression:
    held = as_expression(value)
    return Maximum(held, -held)


def gate(value: Value, *, shut: Value) -> Expression:
    """`value` where `shut` is 0, and 0 where it is 1 or more."""
    return Gate(as_expression(value), as_expression(shut))


def select(bit: Value, one: Value, zero: Value, *, unless: Value | None = None) -> Expression:
    """`one` where the bit is 1, `zero` where it is 0. A constant register that holds the complement saves a layer."""
    held = as_expression(bit)
    return Select(held, 1 - held if unless is None else as_expression(unless), as_expression(one), as_expression(zero))


def exchange(own: Value, other: Value, *, upper: Value, lower: Value | None = None) -> Expression:
    """Compare-exchange: the smaller one where the bit `upper` is 0, the larger one where it is 1."""
    bit = as_expression(upper)
    return Exchange(as_expression(own), as_expression(other), bit, 1 - bit if lower is None else as_expression(lower))


def positive(value: Value, *, grid: float = 1.0) -> Expression:
    """The bit `value > 0`, for values that never lie strictly between 0 and `grid`; `ramp` takes any."""
    return Positive(as_expression(value), _grid(grid))


def equal(one: Value, other: Value, *, grid: float = 1.0) -> Expression:
    """The bit `one == other`, for values that are equal or at least `grid` apart."""
    return Equal(as_expression(one), as_expression(other), _grid(grid))


def distance(one: Value, other: Value) -> Expression:
    """|one − other| as the sum of two units: 0 or at least 1 for whole numbers, so it can shut a gate."""
    difference = as_expression(one) - as_expression(other)
    return relu(difference) + relu(-difference)


def clip(value: Value, *, low: float, high: float) -> Expression:
    """`value` where it lies between two numbers, and the nearer of them elsewhere."""
    least, most = (finite_number(end, "clip(value, low=…, high=…) takes numbers") for end in (low, high))
    require(least <= most, f"low={low}, high={high}: clip between two numbers, the smaller one first.")
    # what lies outside is cut off before it is added to anything, so a large number leaves no rounding error behind
    return most - relu((most - least) - relu(as_expression(value) - least))


def ramp(value: Value, *, width: float) -> Expression:
    """0 where `value` is at most 0, 1 where it is at least `width`, and value/width in between: > for real numbers."""
    number = finite_number(width, "ramp(value, width=…) takes a number")
    require(number > 0, f"width={width}: a ramp rises from 0 to a number above 0.")
    return relu(1 - relu(1 - as_expression(value) / number))


def floor_divide(value: Value, divisor: float, *, low: float, high: float, grid: float = 1.0) -> Expression:
    """⌊value/divisor⌋ for values on a grid, from `low` to `high`: a sum of steps, one for each multiple in between.

    The divisor is a multiple of the grid. Beyond `low` and `high` the quotient stays what it is there.
    """
    held, step = as_expression(value), _grid(grid)
    count = _multiple(divisor, step)
    ends = [finite_number(end, "low and high are the least and the largest value") / step for end in (low, high)]
    first, last = math.ceil(ends[0] - 1e-9) // count, math.floor(ends[1] + 1e-9) // count
    require(ends[0] <= ends[1], f"low={low}, high={high}: the least value is no more than the largest.")
    require(
        last - first <= MOST_STEPS,
        f"{last - first:,} multiples of {divisor} from {low} to {high}: each is a unit of its own, and there may be "
        f"{MOST_STEPS:,}. Choose closer bounds.",
    )
    passed = (positive(held - (k * count - 1) * step, grid=step) for k in range(first + 1, last + 1))
    return Sum((Constant(float(first)), *passed))


def modulo(value: Value, divisor: float, *, low: float, high: float, grid: float = 1.0) -> Expression:
    """value − divisor·⌊value/divisor⌋ for values on a grid, from `low` to `high`: 0 … divisor − grid, as Python's %."""
    held, step = as_expression(value), _grid(grid)
    quotient = floor_divide(held, divisor, low=low, high=high, grid=step)
    return clip(held - _multiple(divisor, step) * step * quotient, low=0.0, high=(_multiple(divisor, step) - 1) * step)


def call(function: Callable[..., Any], *arguments: Value, name: str | None = None) -> Expression:
    """Any function of NumPy arrays. It runs in the interpreter; compiling it needs a fit."""
    require(callable(function), f"call({function!r}, …): pass a function of NumPy arrays first.")
    named = name is None or (isinstance(name, str) and bool(name))
    require(named, f"name={name!r}: name a function by a text, as call(numpy.exp, word('x'), name='exp').")
    called = getattr(function, "__name__", "function") if name is None else name
    return Call(called, function, tuple(map(as_expression, arguments)))


def product(one: Array, other: Array) -> Array:
    """The product of two words: outside the language, but known to the fits."""
    return one * other


def sigmoid(value: Array) -> Array:
    """1/(1 + e^−value): outside the language, but known to the fits."""
    return np.tanh(value / 2) / 2 + 0.5  # without overflow


def _multiple(divisor: Any, grid: float) -> int:
    """How many steps of the grid a divisor is."""
    steps = finite_number(divisor, "divide by a number") / grid
    require(
        steps > 0.5 and abs(steps - round(steps)) <= 1e-9 * steps,
        f"divisor={divisor}: numbers on a grid of {grid:g} are divided by a multiple of it above 0.",
    )
    return round(steps)


def _grid(value: Any) -> float:
    number = finite_number(value, "grid is the distance between neighbouring values")
    require(number > 0, f"grid={value}: the distance between neighbouring values must be above 0.")
    return number
