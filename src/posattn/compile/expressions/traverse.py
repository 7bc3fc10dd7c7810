"""What an expression is made of, and the same expression with other parts."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from posattn.compile.expressions.tree import Expression, Gate, Relu, Scaled, Sum, Word


def children(expression: Expression) -> Iterator[Expression]:
    """What an expression is made of directly."""
    for field in fields(expression):
        held = getattr(expression, field.name)
        if isinstance(held, Expression):
            yield held
        elif isinstance(held, tuple):
            yield from (entry for entry in held if isinstance(entry, Expression))


def walk(expression: Expression) -> list[Expression]:
    """An expression and everything in it, from the outside in; a part that is used twice is there once."""
    found: dict[Expression, None] = {}
    _collect(expression, found)
    return list(found)


def _collect(expression: Expression, found: dict[Expression, None]) -> None:
    if expression not in found:
        found[expression] = None
        for child in children(expression):
            _collect(child, found)


def words_of(expression: Expression) -> set[str]:
    """The names of the words that an expression reads."""
    return {part.name for part in walk(expression) if isinstance(part, Word)}


def rebuilt(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """The same kind of expression, with each of its direct parts changed."""
    changed: dict[str, Any] = {}
    for field in fields(expression):
        held = getattr(expression, field.name)
        if isinstance(held, Expression):
            held = change(held)
        elif isinstance(held, tuple):
            held = tuple(change(entry) if isinstance(entry, Expression) else entry for entry in held)
        changed[field.name] = held
    return type(expression)(**changed)


def renamed(expression: Expression, names: Mapping[str, str]) -> Expression:
    """The same expression with other words."""
    if isinstance(expression, Word):
        return Word(names.get(expression.name, expression.name))
    return rebuilt(expression, lambda part: renamed(part, names))


def raised(expression: Expression) -> tuple[Expression, Expression] | None:
    """(a, b) for a + gate(relu(b − a), shut=…), which is a or max(a, b): no more than the larger of the two."""
    match expression:
        case Sum((one, Gate(Relu(Sum((other, Scaled(-1.0, same)))), _))) if same == one:
            return one, other
    return None
