"""What a node does with two numbers that it compares: it keeps the smaller, the larger, or what came with either."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from posattn.compile.expressions import (
    Equal,
    Exchange,
    Expression,
    Maximum,
    Minimum,
    Positive,
    Select,
    Word,
    walk,
    words_of,
)
from posattn.compile.proof.specification.reading import Place, Step
from posattn.compile.proof.specification.solver import Solver


class Choice(NamedTuple):
    """The word at `if_less` where that at `one` is less than that at `other`, else the word at `if_more`.

    `gap`: only for words that lie further apart; None: for all. A copy compares nothing: one, other and both outcomes
    are the same place.
    """

    one: Place
    other: Place
    if_less: Place
    if_more: Place
    gap: Fraction | None = None

    @property
    def is_copy(self) -> bool:
        return self.one == self.other

    @property
    def is_minimum(self) -> bool:
        return (self.if_less, self.if_more) == (self.one, self.other)

    @property
    def is_maximum(self) -> bool:
        return (self.if_less, self.if_more) == (self.other, self.one)


class Choices:
    """Decides once for every kind of node, by z3."""

    def __init__(self, solver: Solver) -> None:
        self.solver = solver
        self.choosing: dict[Expression, bool] = {}
        self.known: dict[Any, tuple[int, int, int, int, Fraction | None] | None] = {}

    def of(self, step: Step, fixed: Mapping[str, float]) -> Choice | None:
        """The choice that an update is, if it is one. `fixed`: words that are numbers here."""
        if not self._chooses(step.expression):
            return None
        places: list[Place] = []
        shape: dict[str, int | float] = {}
        for name, source in step.sources.items():
            if name in fixed:
                shape[name] = float(fixed[name])
            elif source is not None:
                if source not in places:
                    places.append(source)
                shape[name] = places.index(source)
        kind = (step.expression, tuple(shape.items()), tuple(fixed))
        if kind not in self.known:
            self.known[kind] = self._decided(step.expression, shape, set(fixed), len(places))
        found = self.known[kind]
        if found is None:
            return None
        one, other, less, more, gap = found
        return Choice(places[one], places[other], places[less], places[more], gap)

    def _chooses(self, expression: Expression) -> bool:
        """Whether an expression is a word, or has a part that chooses. Sums and gates are forms."""
        found = self.choosing.get(expression)
        if found is None:
            parts = (Minimum, Maximum, Exchange, Select)
            chooses = isinstance(expression, Word) or any(isinstance(part, parts) for part in walk(expression))
            found = self.choosing[expression] = chooses
        return found

    def _decided(
        self, expression: Expression, shape: dict[str, Any], fixed: set[str], count: int
    ) -> tuple[int, int, int, int, Fraction | None] | None:
        solver = self.solver
        held = [solver.real(f"v{place}") for place in range(count)]
        words = {name: solver.number(at) if name in fixed else held[at] for name, at in shape.items()}
        value = solver.formula(expression, words)
        for place in range(count):
            if solver.always(value == held[place]):
                return place, place, place, place, None
        deciding = [part for part in walk(expression) if isinstance(part, Positive | Equal)]
        gap = max((Fraction(part.grid) / 2 for part in deciding), default=None)
        named = {name for part in deciding for name in words_of(part)} or set(shape)
        compared = sorted({shape[name] for name in named if name in shape and name not in fixed})
        if len(compared) != 2:
            return None
        one, other = (held[place] for place in compared)
        least = None if gap is None else solver.number(gap)
        less = one <= other if least is None else other - one > least
        more = other <= one if least is None else one - other > least
        if_less = next((place for place in range(count) if solver.always(value == held[place], [less])), None)
        if_more = next((place for place in range(count) if solver.always(value == held[place], [more])), None)
        if if_less is None or if_more is None:
            return None
        return compared[0], compared[1], if_less, if_more, gap
