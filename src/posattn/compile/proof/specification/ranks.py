"""The key of a rank, and what travels with it, as forms."""

from collections.abc import Sequence
from fractions import Fraction

from posattn.compile.proof.specification.terms import Entry, Form, Input, Payload, Permutation, Rank, picked, whole
from posattn.compile.proof.specification.zero_one import Group, Key


def key_of_rank(group: Group, rank: int, grid: float | None) -> Form | None:
    """The key of this rank; None where keys may be too close for what was compared, or one counts twice."""
    keys = group.keys
    if len(keys) == 1:
        return keys[0].form
    if not _told_apart(group, grid):
        return None
    known = known_numbers(keys)
    if known is not None:
        return Form(known[rank])
    forms = frozenset(key.form for key in keys)
    return whole(Rank(forms, rank)) if len(forms) == len(keys) else None


def payload_of_rank(group: Group, rank: int, name: str, grid: float | None) -> Form | None:
    """What travels under a name with the key of this rank."""
    keys = group.keys
    if any(name not in key.payload for key in keys) or not _told_apart(group, grid):
        return None
    if len(keys) == 1:
        return keys[0].payload[name]
    known = known_numbers(keys)
    if known is None:
        records = frozenset((key.form, key.payload[name]) for key in keys)
        return whole(Payload(records, rank)) if len({key for key, _ in records}) == len(keys) else None
    for key in keys:
        if not key.form.terms and key.form.constant == known[rank]:
            return key.payload[name]
    entries = sorted((entry.node, key) for key in keys if (entry := _entry(key.form)) is not None)
    first = _entry(entries[0][1].form)
    assert first is not None
    value = int(known[rank] - entries[0][1].form.constant)
    return picked([key.payload[name] for _, key in entries], first.permutation.inverted(), value)


def known_numbers(keys: Sequence[Key]) -> list[Fraction] | None:
    """The keys in ascending order, where they are numbers and all entries of a permutation, in whatever order."""
    numbers, permutations, nodes = [], set[tuple[Permutation, Fraction]](), set[int]()
    for key in keys:
        entry = _entry(key.form)
        if entry is not None:
            permutations.add((entry.permutation, key.form.constant))
            nodes.add(entry.node)
        elif key.form.terms:
            return None
        else:
            numbers.append(key.form.constant)
    if permutations:
        (permutation, shift), *more = permutations
        if more or len(nodes) != permutation.length or len(numbers) + len(nodes) != len(keys):
            return None
        numbers += [shift + value for value in range(permutation.length)]
    return sorted(numbers)


def _told_apart(group: Group, grid: float | None) -> bool:
    if group.gap is None:
        return True
    apart = separation([key.form for key in group.keys], grid)
    return apart is not None and apart > group.gap


def separation(forms: Sequence[Form], grid: float | None) -> Fraction | None:
    """How far any two are apart at least: inputs on a grid plus numbers, or entries of a permutation and numbers."""
    if all(_input(form) is not None for form in forms):
        nodes = {_input(form) for form in forms}
        if grid is None or len(nodes) < len(forms):
            return None
        return _circular_gap([form.constant for form in forms], Fraction(grid))
    numbers = sorted(form.constant for form in forms if not form.terms)
    entries = [(entry, form.constant) for form in forms if (entry := _entry(form)) is not None]
    if len(numbers) + len(entries) < len(forms) or len({entry for entry, _ in entries}) < len(entries):
        return None
    if len({(entry.permutation, shift) for entry, shift in entries}) > 1:
        return None
    gaps = [above - below for below, above in zip(numbers, numbers[1:], strict=False)]
    if entries:
        gaps += [Fraction(1), *(_circular_gap([value, entries[0][1]], Fraction(1)) for value in numbers)]
    return min(gaps, default=Fraction(1))


def _circular_gap(offsets: Sequence[Fraction], step: Fraction) -> Fraction:
    """How near two of the lattices offset + step·ℤ come."""
    held = sorted(offset % step for offset in offsets)
    around = [*held, held[0] + step]
    return min(above - below for below, above in zip(around, around[1:], strict=False))


def _entry(form: Form) -> Entry | None:
    """The entry in entry + number."""
    atom = form._replace(constant=Fraction(0)).atom()
    return atom if isinstance(atom, Entry) else None


def _input(form: Form) -> Input | None:
    """The input in input + number."""
    atom = form._replace(constant=Fraction(0)).atom()
    return atom if isinstance(atom, Input) else None
