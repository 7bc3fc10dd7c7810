"""The key of a rank, and what travels with it, as forms."""

import itertools
from collections.abc import Sequence
from fractions import Fraction

from posattn.compile.proof.specification.returns import Grids, brought_back, origins
from posattn.compile.proof.specification.terms import Clipped, Entry, Form, Input, Payload, Rank, picked, whole
from posattn.compile.proof.specification.zero_one import Group, Key


class Ranking:
    """The keys of a group, and what travels with them, by rank."""

    def __init__(self, group: Group, grids: Grids) -> None:
        self.keys, self.gap, self.grids = group.keys, group.gap, grids
        apart = None if self.gap is None else separation([key.form for key in self.keys], grids)
        self.told_apart = self.gap is None or (apart is not None and apart > self.gap)
        self.forms = frozenset(key.form for key in self.keys)
        self.origins = origins([key.form for key in self.keys])
        self.numbers = known_numbers(self.keys) if self.origins is None else sorted(self.origins)
        self.known: dict[str, list[Form | None]] = {}

    def key(self, rank: int) -> Form | None:
        """The key of this rank; None where keys may be too close for what was compared, or one counts twice."""
        if len(self.keys) == 1:
            return self.keys[0].form
        if not self.told_apart or len(self.forms) < len(self.keys):
            return None
        return whole(Rank(self.forms, rank)) if self.numbers is None else Form(self.numbers[rank])

    def payload(self, rank: int, name: str) -> Form | None:
        """What travels under a name with the key of this rank."""
        if name not in self.known:
            self.known[name] = self._payloads(name)
        return self.known[name][rank]

    def _payloads(self, name: str) -> list[Form | None]:
        keys = self.keys
        if any(name not in key.payload for key in keys) or not self.told_apart or len(self.forms) < len(keys):
            return [None] * len(keys)
        if self.numbers is None:
            records = frozenset((key.form, key.payload[name]) for key in keys)
            return [whole(Payload(records, rank)) for rank in range(len(keys))]
        if self.origins is not None:
            words = [(key.form, key.payload[name]) for key in keys]
            return brought_back([self.origins[number] for number in self.numbers], words, self.grids)
        fixed = {key.form.constant: key.payload[name] for key in keys if not key.form.terms}
        entries = {entry.node: key for key in keys if (entry := _entry(key.form)) is not None}
        ordered = [entries[node].payload[name] for node in sorted(entries)]
        found: list[Form | None] = []
        for value in self.numbers:
            if value in fixed:
                found.append(fixed[value])
            else:
                entry = _entry(entries[0].form)
                assert entry is not None
                place = int(value - entries[0].form.constant)
                found.append(picked(ordered, entry.permutation.inverted(), place))
        return found


def known_numbers(keys: Sequence[Key]) -> list[Fraction] | None:
    """The keys in ascending order, where they are numbers and all entries of a permutation, in whatever order."""
    numbers = [key.form.constant for key in keys if not key.form.terms]
    entries = [(entry, key.form.constant) for key in keys if (entry := _entry(key.form)) is not None]
    if len(numbers) + len(entries) < len(keys):
        return None
    if entries:
        (permutation, shift), *others = {(entry.permutation, shift) for entry, shift in entries}
        if others or {entry.node for entry, _ in entries} != set(range(permutation.length)):
            return None
        numbers += [shift + value for value in range(permutation.length)]
    return sorted(numbers) if len(numbers) == len(keys) else None


def separation(forms: Sequence[Form], grids: Grids) -> Fraction | None:
    """How far any two are apart at least: numbers, and inputs on a grid plus numbers or entries of a permutation.

    Or the numbers that the records of a sort carry.
    """
    carried = origins(forms)
    numbers = sorted(carried or (form.constant for form in forms if not form.terms))
    gaps = [above - below for below, above in itertools.pairwise(numbers)]
    if len(numbers) == len(forms):
        return min(gaps, default=Fraction(1))
    varying = [form for form in forms if form.terms]
    entries = [(entry, form.constant) for form in varying if (entry := _entry(form)) is not None]
    if not entries:
        steps = {_step(form, grids) for form in varying}
        step = steps.pop()
        if step is None or steps:
            return None
        places = [*(form.constant for form in varying), *{value % step for value in numbers}]
        return min([*gaps, _circular_gap(places, step)])
    if len(entries) < len(varying) or len({entry for entry, _ in entries}) < len(entries):
        return None
    if len({(entry.permutation, shift) for entry, shift in entries}) > 1:
        return None
    return min([*gaps, Fraction(1), *(_circular_gap([value, entries[0][1]], Fraction(1)) for value in numbers)])


def _step(form: Form, grids: Grids) -> Fraction | None:
    """The grid of the input in input + number, which may be cut off at multiples of it."""
    atom = form.shifted()
    grid = grids[atom.name] if isinstance(atom, Input | Clipped) else None
    if grid is None:
        return None
    ends = (atom.low, atom.high) if isinstance(atom, Clipped) else ()
    return None if any(end is not None and end % Fraction(grid) for end in ends) else Fraction(grid)


def _circular_gap(offsets: Sequence[Fraction], step: Fraction) -> Fraction:
    """How near two of the lattices offset + step·ℤ come."""
    held = sorted(offset % step for offset in offsets)
    around = [*held, held[0] + step]
    return min(above - below for below, above in itertools.pairwise(around))


def _entry(form: Form) -> Entry | None:
    """The entry in entry + number."""
    atom = form.shifted()
    return atom if isinstance(atom, Entry) else None
