"""What an expression is made of, and the same expression with other parts.

An expression is a graph: a part may be used in several places. Everything here visits a part once, however often it is
used; y = e + e, e = f + f … over 40 levels has 41 parts, and 2⁴⁰ words if it is written out.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from functools import partial
from typing import Any, Generic, TypeVar

from posattn.compile.expressions.tree import Expression, Gate, Relu, Scaled, Sum, Word

T = TypeVar("T")


class Once(Generic[T]):
    """A recursive function of expressions, computed once for each part. `step(part, of)` calls `of` where it recurs.

    >>> count = Once(lambda part, of: 1 + sum(map(of, children(part))))
    >>> count.of(Word("x") + 1)
    3
    """

    def __init__(self, step: "Callable[[Expression, Callable[[Expression], T]], T]") -> None:
        self.step = step
        self.known: dict[Expression, T] = {}

    def of(self, expression: Expression) -> T:
        if expression not in self.known:
            self.known[expression] = self.step(expression, self.of)
        return self.known[expression]


def shared_parts(expressions: Iterable[Expression], *, least: int) -> list[Expression]:
    """Parts that are used more than once and are not small, each after the parts it is made of.

    `least`: the size from which a part counts, where shared parts within it count as one.
    """
    uses: dict[Expression, int] = {}
    order: dict[Expression, None] = {}  # parts before what they are part of
    for expression in expressions:
        _count(expression, uses, order)
    sizes: dict[Expression, int] = {}
    found = []
    for part in order:
        sizes[part] = 1 + sum(sizes[child] for child in children(part))
        if uses[part] > 1 and sizes[part] >= least:
            found.append(part)
            sizes[part] = 1
    return found


def _count(expression: Expression, uses: dict[Expression, int], order: dict[Expression, None]) -> None:
    uses[expression] = uses.get(expression, 0) + 1
    if uses[expression] == 1:
        for child in children(expression):
            _count(child, uses, order)
        order[expression] = None


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
    return Once(partial(_renamed, names)).of(expression)


def _renamed(names: Mapping[str, str], part: Expression, of: Callable[[Expression], Expression]) -> Expression:
    return Word(names.get(part.name, part.name)) if isinstance(part, Word) else rebuilt(part, of)


def raised(expression: Expression) -> tuple[Expression, Expression] | None:
    """(a, b) for a + gate(relu(b − a), shut=…), which is a or max(a, b): no more than the larger of the two."""
    match expression:
        case Sum((one, Gate(Relu(Sum((other, Scaled(-1.0, same)))), _))) if same == one:
            return one, other
    return None
