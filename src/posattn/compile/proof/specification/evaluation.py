"""The value of an expression as a form, and gates that open for one entry of a permutation."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from posattn.compile.expressions import Expression, tree
from posattn.compile.proof.specification.terms import (
    ONE,
    UNIT,
    ZERO,
    Atom,
    Clipped,
    Entry,
    Form,
    Hit,
    Input,
    Placeholder,
    added,
    number,
    scaled,
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


def bounds(form: Form) -> tuple[Fraction | None, Fraction | None]:
    """The least and the largest value; None where there is none."""
    low: Fraction | None = form.constant
    high: Fraction | None = form.constant
    for atom, factor in form.terms:
        least, most = _range(atom) if factor > 0 else _range(atom)[::-1]
        low = None if low is None or least is None else low + factor * least
        high = None if high is None or most is None else high + factor * most
    return low, high


def _range(atom: Atom) -> tuple[Fraction | None, Fraction | None]:
    match atom:
        case Entry(permutation):
            return Fraction(0), Fraction(permutation.length - 1)
        case Clipped(_, _, low, high):
            return low, high
    return None, None


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
    apart = added(one, scaled(other, -ONE))
    decided = _above(apart, Fraction(0))
    if decided is not None:
        return one if decided else other
    low, _ = bounds(apart)
    if low == 0:
        return one
    cut = _cut_off(apart)
    return None if cut is None else added(other, cut)


def _smaller(one: Form | None, other: Form | None) -> Form | None:
    """−max(−one, −other)."""
    if one is None or other is None:
        return None
    larger = _larger(scaled(one, -ONE), scaled(other, -ONE))
    return None if larger is None else scaled(larger, -ONE)


def _cut_off(form: Form) -> Form | None:
    """relu(x + c) = max(x, −c) + c, and relu(c − x) = c − min(x, c), of an input that may be cut off already.

    Its bounds do not decide, so −c and c lie between them.
    """
    ((atom, factor),) = form.terms if len(form.terms) == 1 else ((None, ONE),)
    if not isinstance(atom, Input | Clipped) or abs(factor) != 1:
        return None
    low, high = _range(atom)
    if factor == 1:
        return added(whole(Clipped(atom.name, atom.node, -form.constant, high)), Form(form.constant))
    return added(scaled(whole(Clipped(atom.name, atom.node, low, form.constant)), -ONE), Form(form.constant))


def _equal(one: Form | None, other: Form | None, half: Fraction) -> Form | None:
    if one is None or other is None:
        return None
    low, high = bounds(added(one, scaled(other, -ONE)))
    if low is None or high is None:
        return None
    if -half < low and high < half:
        return UNIT
    return ZERO if low >= half or high <= -half else None
