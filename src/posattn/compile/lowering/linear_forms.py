"""Linear forms in words and ReLU units, nested as deep as need be: what every expression becomes."""

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Unit:
    """relu(Σ coefficient·atom), `depth` ReLUs deep."""

    form: frozenset[tuple["Atom", float]]
    depth: int
    terms: tuple[tuple["Atom", float], ...] = field(compare=False)  # the form, in the order in which it was written


#: A word by its name, or a unit.
Atom = str | Unit
#: Σ coefficient·atom.
Form = dict[Atom, float]


def depth_of(atom: Atom) -> int:
    return atom.depth if isinstance(atom, Unit) else 0


def unit(form: Form) -> Form:
    """relu of a form, as a form."""
    if not form:
        return {}
    return {Unit(frozenset(form.items()), 1 + max(map(depth_of, form)), tuple(form.items())): 1.0}


def plus(*forms: Form) -> Form:
    total: Form = {}
    for form in forms:
        for atom, coefficient in form.items():
            total[atom] = total.get(atom, 0.0) + coefficient
    return {atom: coefficient for atom, coefficient in total.items() if coefficient != 0}


def times(factor: float, form: Form) -> Form:
    return {atom: factor * coefficient for atom, coefficient in form.items() if factor * coefficient != 0}


def mentions(form: Form, name: str) -> bool:
    """Whether a form reads a word, at any depth."""
    seen, waiting = set(form), list(form)
    for atom in waiting:
        below = {part for part, _ in atom.terms} - seen if isinstance(atom, Unit) else set()
        seen |= below
        waiting += below
    return name in seen


def levels(forms: Iterable[Form]) -> int:
    """The number of hidden layers that a network for these forms needs, at least one."""
    return max([1, *(depth_of(atom) for form in forms for atom in form)])
