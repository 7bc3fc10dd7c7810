"""Functions from outside the language that files, texts and proofs know by name, and the values they can take."""

from collections.abc import Callable
from typing import Any

import numpy as np

from posattn.compile.expressions.functions import product, sigmoid
from posattn.compile.expressions.tree import Array, Call
from posattn.errors import require

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "product": product,
    "reciprocal": np.reciprocal,
    "sqrt": np.sqrt,
    "log": np.log,
    "tanh": np.tanh,
    "sigmoid": sigmoid,
    "sin": np.sin,
    "cos": np.cos,
}
#: The number of arguments, where it is not one.
ARGUMENTS = {"product": 2}
INCREASING = ("exp", "sqrt", "log", "tanh", "sigmoid")


def is_known(call: Call) -> bool:
    """Whether a call's function is one of these, and not another of the same name."""
    return FUNCTIONS.get(call.name) is call.function


def defined(name: str, low: float, high: float) -> bool:
    """Whether a known function has a value everywhere between two numbers."""
    return {"reciprocal": low > 0 or high < 0, "sqrt": low >= 0, "log": low > 0}.get(name, True)


def check_argument(call: Call, low: float, high: float) -> None:
    """Refuse an argument that can lie where a known function has no value."""
    fix = {
        "reciprocal": "Keep it away from 0: a divisor above 0 as maximum(e, 0.5)",
        "sqrt": "Keep it at 0 or above, as relu(e)",
        "log": "Keep it above 0, as maximum(e, 0.01)",
    }
    require(
        not is_known(call) or defined(call.name, low, high),
        f"{call}: {call.arguments[0]} can be anything from {low:g} to {high:g}, where {call.name} is not always "
        f"defined. {fix.get(call.name)}.",
    )


def range_of(name: str, low: Array, high: Array) -> tuple[Array, Array]:
    """The least and the largest value of a known function of one argument, between two numbers at every node."""
    function = FUNCTIONS[name]
    with np.errstate(all="ignore"):  # what is infinite, or not a number, is refused where it is fitted
        if name in INCREASING:
            return function(low), function(high)
        if name == "reciprocal":
            ends, inside = (function(high), function(low)), (low <= 0) & (high >= 0)
            return np.where(inside, -np.inf, ends[0]), np.where(inside, np.inf, ends[1])
        first = {"sin": np.pi / 2, "cos": 0.0}[name]  # where it is 1; half a turn on, it is −1
        ends = function(low), function(high)
        return (
            np.where(_passed(low, high, first + np.pi), -1.0, np.minimum(*ends)),
            np.where(_passed(low, high, first), 1.0, np.maximum(*ends)),
        )


def _passed(low: Array, high: Array, place: float) -> Array:
    """Whether place + 2πk lies between two numbers for some whole k."""
    return np.floor((high - place) / (2 * np.pi)) >= np.ceil((low - place) / (2 * np.pi))
