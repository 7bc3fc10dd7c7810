"""The functions that write expressions; operators write the rest."""

from collections.abc import Callable
from typing import Any

import numpy as np

from posattn.compile.expressions.tree import (
    Array,
    Call,
    Equal,
    Exchange,
    Expression,
    Gate,
    Maximum,
    Minimum,
    Positive,
    Relu,
    Select,
    Value,
    Word,
    as_expression,
    finite_number,
)
from posattn.errors import require


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
    """The bit `value > 0`, for values that never lie strictly between 0 and `grid`."""
    return Positive(as_expression(value), _grid(grid))


def equal(one: Value, other: Value, *, grid: float = 1.0) -> Expression:
    """The bit `one == other`, for values that are equal or at least `grid` apart."""
    return Equal(as_expression(one), as_expression(other), _grid(grid))


def distance(one: Value, other: Value) -> Expression:
    """|one − other| as the sum of two units: 0 or at least 1 for whole numbers, so it can shut a gate."""
    difference = as_expression(one) - as_expression(other)
    return relu(difference) + relu(-difference)


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


def _grid(value: Any) -> float:
    number = finite_number(value, "grid is the distance between neighbouring values")
    require(number > 0, f"grid={value}: the distance between neighbouring values must be above 0.")
    return number
