"""What a word holds as a function of the inputs: a number plus multiples of atoms, in exact fractions.

An atom is an input, an entry of a permutation, a number of some rank among others, and the like. Expressions of such
forms are forms again wherever bounds decide what a nonlinear part does.
"""

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, Union

from posattn.compile.expressions import Expression, tree


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


class Entry(NamedTuple):
    """π(node)."""

    permutation: Permutation
    node: int


class At(NamedTuple):
    """An input of the node that a permutation names: x[π(node)]."""

    name: str
    permutation: Permutation
    node: int


class Rank(NamedTuple):
    """The number of this rank among others, 0 for the smallest."""

    keys: frozenset["Form"]
    rank: int


class Payload(NamedTuple):
    """What came with the key of this rank, of several pairs (key, what comes with it)."""

    records: frozenset[tuple["Form", "Form"]]
    rank: int


class Hit(NamedTuple):
    """`of` where π(node) is the value, else 0."""

    permutation: Permutation
    node: int
    value: int
    of: "Form"


class Placeholder(NamedTuple):
    """Any number at all."""

    name: str


Atom = Union[Input, Entry, At, Rank, Payload, Hit, Placeholder]  # noqa: UP007 (the names are defined above)


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


def bounds(form: Form) -> tuple[Fraction | None, Fraction | None]:
    """The least and the largest value; None where there is none. Entries of permutations are the bounded atoms."""
    low = high = form.constant
    for atom, factor in form.terms:
        if not isinstance(atom, Entry):
            return None, None
        reach = factor * (atom.permutation.length - 1)
        low, high = low + min(reach, Fraction(0)), high + max(reach, Fraction(0))
    return low, high


def evaluated(expression: Expression, words: Mapping[str, Form]) -> Form | None:
    """The expression's value as a form; None where it is not one, or bounds do not decide."""
    match expression:
        case tree.Word(name):
            return words[name]
        case tree.Constant(value):
            return number(value)
        case tree.Sum(terms):
            total = ZERO
            for term in terms:
                held = evaluated(term, words)
                if held is None:
                    return None
                total = added(total, held)
            return total
        case tree.Scaled(factor, part):
            held = evaluated(part, words)
            return None if held is None else scaled(held, Fraction(factor))
        case tree.Product(one, other):
            a, b = evaluated(one, words), evaluated(other, words)
            if a is None or b is None or (a.terms and b.terms):
                return None
            return scaled(b, a.constant) if not a.terms else scaled(a, b.constant)
        case tree.Relu(part):
            return _larger(evaluated(part, words), ZERO)
        case tree.Maximum(one, other):
            return _larger(evaluated(one, words), evaluated(other, words))
        case tree.Minimum(one, other):
            return _smaller(evaluated(one, words), evaluated(other, words))
        case tree.Gate(part, shut):
            return _branch(_above(evaluated(shut, words), Fraction(0)), lambda: ZERO, lambda: evaluated(part, words))
        case tree.Select(bit, _, one, zero):
            return _branch(
                _is_one(evaluated(bit, words)), lambda: evaluated(one, words), lambda: evaluated(zero, words)
            )
        case tree.Exchange(own, other, upper, _):
            a, b = evaluated(own, words), evaluated(other, words)
            return _branch(_is_one(evaluated(upper, words)), lambda: _larger(a, b), lambda: _smaller(a, b))
        case tree.Positive(part, grid):
            return _branch(_above(evaluated(part, words), Fraction(grid) / 2), lambda: UNIT, lambda: ZERO)
        case tree.Equal(one, other, grid):
            return _equal(evaluated(one, words), evaluated(other, words), Fraction(grid) / 2)
    return None


def _branch(decided: bool | None, yes: Callable[[], Form | None], no: Callable[[], Form | None]) -> Form | None:
    return None if decided is None else yes() if decided else no()


def _above(form: Form | None, least: Fraction) -> bool | None:
    """Whether the value is above `least`, if that is the same for all inputs."""
    if form is None:
        return None
    low, high = bounds(form)
    if low is not None and low > least:
        return True
    return False if high is not None and high <= least else None


def _is_one(form: Form | None) -> bool | None:
    return None if form is None or form.terms else form.constant == 1


def _larger(one: Form | None, other: Form | None) -> Form | None:
    if one is None or other is None:
        return None
    if one == other:
        return one
    decided = _above(added(one, scaled(other, -ONE)), Fraction(0))
    if decided is not None:
        return one if decided else other
    low, _ = bounds(added(one, scaled(other, -ONE)))
    return one if low == 0 else None


def _smaller(one: Form | None, other: Form | None) -> Form | None:
    larger = _larger(one, other)
    if larger is None or one is None or other is None:
        return None
    return other if larger == one else one


def _equal(one: Form | None, other: Form | None, half: Fraction) -> Form | None:
    if one is None or other is None:
        return None
    low, high = bounds(added(one, scaled(other, -ONE)))
    if low is None or high is None:
        return None
    if -half < low and high < half:
        return UNIT
    return ZERO if low >= half or high <= -half else None
