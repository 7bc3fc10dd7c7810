"""The functions that a text may name."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from posattn.compile.expressions import Expression, functions, tree
from posattn.compile.expressions.known_functions import ARGUMENTS, FUNCTIONS


class Function(NamedTuple):
    """How a function is built, its arguments in order, and those that are given by name."""

    build: Callable[..., Expression]
    arguments: int | None  # None: one or more
    named: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()  # by name too, and numbers
    needed: tuple[str, ...] = ()


LANGUAGE: dict[str, Function] = {
    "relu": Function(functions.relu, 1),
    "abs": Function(functions.absolute, 1),
    "min": Function(functions.minimum, 2),
    "max": Function(functions.maximum, 2),
    "distance": Function(functions.distance, 2),
    "gate": Function(functions.gate, 1, ("shut",), needed=("shut",)),
    "select": Function(functions.select, 3, ("unless",)),
    "exchange": Function(functions.exchange, 2, ("upper", "lower"), needed=("upper",)),
    "positive": Function(functions.positive, 1, numbers=("grid",)),
    "equal": Function(functions.equal, 2, numbers=("grid",)),
    "const": Function(tree.as_expression, 1),
    "sum": Function(lambda *terms: tree.Sum(tuple(map(tree.as_expression, terms))), None),
    **{
        name: Function(partial(functions.call, function, name=name), ARGUMENTS.get(name, 1))
        for name, function in FUNCTIONS.items()
    },
}
