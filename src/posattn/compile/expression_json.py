"""Expressions as JSON: the kind of each, then its fields. Nothing in it is ever executed."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from posattn.compile.expressions import Call, Equal, Expression, Positive, tree
from posattn.compile.expressions.known_functions import ARGUMENTS, FUNCTIONS, is_known
from posattn.errors import PosattnError, require

NOTHING_SHARED: dict[Expression, int] = {}


def checked_text(value: Any) -> str:
    require(isinstance(value, str), f"{value!r} is not a name.")
    return value


def checked_whole(value: Any) -> int:
    require(isinstance(value, int) and not isinstance(value, bool), f"{value!r} is not a whole number.")
    return value


def checked_finite(value: Any) -> float:
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    require(known, f"{value!r} is not a finite number.")
    return float(value)


def packed(expression: Expression, places: Mapping[Expression, int] = NOTHING_SHARED) -> list[Any]:
    """["Minimum", one, other]: an expression's kind, then its fields; or where it is among the shared parts."""
    return ["Shared", places[expression]] if expression in places else fields_of(expression, places)


def fields_of(expression: Expression, places: Mapping[Expression, int]) -> list[Any]:
    if isinstance(expression, Call):
        require(
            is_known(expression),
            f"{expression}: a program with a function of your own cannot be saved. Known: {', '.join(FUNCTIONS)}.",
        )
        return ["Call", expression.name, *(packed(argument, places) for argument in expression.arguments)]
    found: list[Any] = [type(expression).__name__]
    for field in dataclasses.fields(expression):
        held = getattr(expression, field.name)
        if isinstance(held, Expression):
            found.append(packed(held, places))
        elif isinstance(held, tuple):
            found.append([packed(entry, places) for entry in held])
        else:
            found.append(held)
    return found


KINDS = {
    kind.__name__: kind
    for kind in vars(tree).values()
    if isinstance(kind, type) and issubclass(kind, Expression) and kind is not Expression
}


def unpacked(written: list[Any], shared: Sequence[Expression] = ()) -> Expression:
    name, *held = written
    if name == "Shared":
        (place,) = map(checked_whole, held)
        require(0 <= place < len(shared), f"shared part {place} of {len(shared)}.")
        return shared[place]
    if name == "Call":
        called, *arguments = held
        count = ARGUMENTS.get(called, 1)
        require(len(arguments) == count, f"'{called}' has {len(arguments)} arguments, not {count}.")
        return Call(called, FUNCTIONS[called], tuple(unpacked(argument, shared) for argument in arguments))
    fields = dataclasses.fields(KINDS[name])
    made = KINDS[name](*(_field(field.type, value, shared) for field, value in zip(fields, held, strict=True)))
    if isinstance(made, Positive | Equal) and not made.grid > 0:
        raise PosattnError(f"{made}: its grid is not above 0.")
    return made


def _field(kind: Any, value: Any, shared: Sequence[Expression]) -> Any:
    """What a field of an expression holds: a name, a number, an expression, or several."""
    if kind is str:
        return checked_text(value)
    if kind is float:
        return checked_finite(value)
    if kind is Expression:
        return unpacked(value, shared)
    require(bool(value), "a sum has terms.")
    return tuple(unpacked(part, shared) for part in value)
