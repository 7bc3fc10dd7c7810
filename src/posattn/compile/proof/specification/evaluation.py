"""The value of an expression as a form, and gates that open for one entry of a permutation."""

from typing import Any

from posattn.compile.expressions import Expression
from posattn.compile.proof.specification.terms import (
    ZERO,
    Entry,
    Form,
    Hit,
    Placeholder,
    evaluated,
    number,
    whole,
)

#: What stands for any word that a gate lets through.
ANY = whole(Placeholder("any"))


class Evaluation:
    """Evaluates expressions of forms, each once."""

    def __init__(self) -> None:
        self.known: dict[Any, Form | None] = {}
        self.opened: dict[Any, tuple[int, Form] | None] = {}

    def value(self, expression: Expression, words: dict[str, Form]) -> Form | None:
        """The expression's value; None where it is not a form."""
        kind = (expression, tuple(words.items()))
        if kind not in self.known:
            self.known[kind] = evaluated(expression, words)
        return self.known[kind]

    def hit(self, expression: Expression, words: dict[str, Form]) -> Form | None:
        """What a word carries where one entry has one value, else 0: tried for every value that the entry can have."""
        entries = {atom for form in words.values() if isinstance(atom := form.atom(), Entry)}
        if not entries:
            return None
        entry = entries.pop()
        others = {name: form for name, form in words.items() if form.atom() != entry}
        names = frozenset(words.keys() - others.keys())
        for carried in (*others, None):  # None: a number that is no word, as in relu(1 - distance)
            held = others if carried is None else others | {carried: ANY}
            if any(form.terms and form != ANY for form in held.values()):
                continue
            kind = (expression, tuple(held.items()), entry.permutation.length)
            if kind not in self.opened:
                self.opened[kind] = _opening(expression, held, names, entry.permutation.length)
            found = self.opened[kind]
            if found is not None:
                value, form = found
                return whole(Hit(entry.permutation, entry.node, value, form if carried is None else others[carried]))
        return None


def _opening(
    expression: Expression, words: dict[str, Form], names: frozenset[str], length: int
) -> tuple[int, Form] | None:
    """The one value of the entry for which the expression is not 0, and what it is then: ANY where that is a word."""
    wanted = ANY in words.values()
    found: tuple[int, Form] | None = None
    for value in range(length):
        form = evaluated(expression, words | dict.fromkeys(names, number(float(value))))
        if form == ZERO:
            continue
        if form is None or found is not None or (form != ANY if wanted else form.terms):
            return None
        found = value, form
    return found
