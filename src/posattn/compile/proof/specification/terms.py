"""What a word holds as a function of the inputs: a number plus multiples of atoms, in exact fractions.

An atom is an input, an entry of a permutation, a number of some rank among others, and the like. Expressions of such
forms are forms again wherever bounds decide what a nonlinear part does (`evaluation`).
"""

from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, Union


class Permutation(NamedTuple):
    """An input that holds every number of 0 … length − 1 once, or its inverse."""

    name: str
    length: int
    inverse: bool = False

    def inverted(self) -> "Permutation":
        return self._replace(inverse=not self.inverse)


class Input(NamedTuple):
    """The number that was given to a node."""

    name: str
    node: int


class Clipped(NamedTuple):
    """The number that was given to a node, cut off below and above; None: it is not cut off there."""

    name: str
    node: int
    low: Fraction | None
    high: Fraction | None


class Entry(NamedTuple):
    """π(node)."""

    permutation: Permutation
    node: int


class At(NamedTuple):
    """An input of the node that a permutation names: x[π(node)]."""

    name: str
    permutation: Permutation
    node: int


class AtAddress(NamedTuple):
    """An input of the node that another input names, within its bounds: x[clip(a)]."""

    name: str
    address: Clipped


class Rank(NamedTuple):
    """The number of this rank among others, 0 for the smallest."""

    keys: frozenset["Form"]
    rank: int


class Payload(NamedTuple):
    """What came with the key of this rank, of several pairs (key, what comes with it)."""

    records: frozenset[tuple["Form", "Form"]]
    rank: int


class AnyFlag(NamedTuple):
    """1 where a record of the ranks first … last, of pairs (key, 0 or 1), has a 1; else 0."""

    records: frozenset[tuple["Form", "Form"]]
    first: int
    last: int


class LastFlagged(NamedTuple):
    """Of records (key, 0 or 1, word), the word of the last one of the ranks first … last with a 1; 0 without any."""

    records: frozenset[tuple["Form", "Form", "Form"]]
    first: int
    last: int


class Hit(NamedTuple):
    """`of` where π(node) is the value, else 0."""

    permutation: Permutation
    node: int
    value: int
    of: "Form"


class Placeholder(NamedTuple):
    """Any number at all."""

    name: str


Atom = Union[  # noqa: UP007 (the names are defined above)
    Input, Clipped, Entry, At, AtAddress, Rank, Payload, AnyFlag, LastFlagged, Hit, Placeholder
]


class Form(NamedTuple):
    """constant + Σ coefficient · atom."""

    constant: Fraction
    terms: frozenset[tuple[Atom, Fraction]] = frozenset()

    def atom(self) -> Atom | None:
        """The atom that the form is, if it is nothing else."""
        if self.constant == 0 and len(self.terms) == 1:
            ((atom, coefficient),) = self.terms
            return atom if coefficient == 1 else None
        return None

    def shifted(self) -> Atom | None:
        """The atom in atom + number."""
        return self._replace(constant=Fraction(0)).atom()


ONE = Fraction(1)


@lru_cache(1 << 16)
def number(value: float) -> Form:
    return Form(Fraction(value))


def whole(atom: Atom) -> Form:
    """An atom as a form."""
    return Form(Fraction(0), frozenset({(atom, ONE)}))


ZERO, UNIT = number(0.0), number(1.0)


def scaled(form: Form, factor: Fraction) -> Form:
    if factor == ONE:
        return form
    if factor == 0:
        return ZERO
    return Form(form.constant * factor, frozenset((atom, held * factor) for atom, held in form.terms))


def added(one: Form, other: Form) -> Form:
    if not other.terms:
        return Form(one.constant + other.constant, one.terms) if other.constant else one
    held = dict(one.terms)
    for atom, factor in other.terms:
        held[atom] = held.get(atom, Fraction(0)) + factor
    return _gathered(Form(one.constant + other.constant, frozenset((a, f) for a, f in held.items() if f)))


def _gathered(form: Form) -> Form:
    """A sum of hits on one value by every entry of a permutation is what the one that hits carries."""
    first = next(iter(form.terms), None)
    if first is None or not isinstance(first[0], Hit) or len(form.terms) != first[0].permutation.length:
        return form
    hits = {atom.node: atom for atom, factor in form.terms if isinstance(atom, Hit) and factor == 1}
    if len(hits) < len(form.terms) or len({(hit.permutation, hit.value) for hit in hits.values()}) > 1:
        return form
    found = picked([hits[node].of for node in sorted(hits)], first[0].permutation.inverted(), first[0].value)
    return form if found is None else added(found, Form(form.constant))


def picked(forms: list[Form], permutation: Permutation, node: int) -> Form | None:
    """forms[π(node)], where the forms are numbered nodes, inputs of one name, or all equal."""
    if len(set(forms)) == 1 and not forms[0].terms:
        return forms[0]
    if all(form == number(float(place)) for place, form in enumerate(forms)):
        return whole(Entry(permutation, node))
    first = forms[0].atom()
    if isinstance(first, Input) and all(form == whole(Input(first.name, k)) for k, form in enumerate(forms)):
        return whole(At(first.name, permutation, node))
    return None
