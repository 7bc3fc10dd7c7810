"""Records that are sorted once more, back to where they came from: what each of them brings along."""

import itertools
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from posattn.compile.proof.specification.terms import UNIT, AtAddress, Clipped, Form, Input, LastFlagged, Payload, whole

#: The grid of every input, by its name; None: any number.
Grids = Mapping[str, float | None]


def origins(keys: Sequence[Form]) -> dict[Fraction, Form] | None:
    """Number → the key in an earlier sort of the record that carries it.

    For keys that are what all records of that sort carry, at every rank once: numbers, no two of them equal.
    """
    atoms = [atom for key in keys if isinstance(atom := key.atom(), Payload)]
    if not atoms or len(atoms) < len(keys) or len({atom.records for atom in atoms}) > 1:
        return None
    records = atoms[0].records
    if sorted(atom.rank for atom in atoms) != list(range(len(records))):
        return None
    found = {carried.constant: key for key, carried in records if not carried.terms}
    return found if len(found) == len(records) else None


def brought_back(origins: Sequence[Form], words: Sequence[tuple[Form, Form]], grids: Grids) -> list[Form | None]:
    """The words that come with records, given by their keys in the earlier sort; None: not known.

    `words`: for every rank of the earlier sort what is sorted back by, and the word. Where the word at every rank is
    that of the last flagged record up to there, a record brings that of the last flagged one with a key up to its own.
    """
    owners = _owners(words)
    return [None if owners is None else owners.nearest(origin, grids) for origin in origins]


class _Owners(NamedTuple):
    """Flagged records with keys that are numbers, in ascending order: record t has the word x[t], t = first … last."""

    name: str
    first: int
    last: int
    least: Fraction  # the key of every record t is at most t + least
    most: Fraction | None  # and that of t + 1 at least t + most; None: there is only one

    def nearest(self, origin: Form, grids: Grids) -> Form | None:
        """The word of the last record with a key up to `origin` = a + number, where a is a whole number first … last.

        It is x[a] where the key of t is at most t + number, and that of t + 1 is larger, for every t.
        """
        address = origin.shifted()
        if not isinstance(address, Clipped) or (address.low, address.high) != (self.first, self.last):
            return None
        grid = grids[address.name]
        if grid is None or Fraction(grid).denominator != 1:
            return None
        fits = self.least <= origin.constant and (self.most is None or origin.constant < self.most)
        return whole(AtAddress(self.name, address)) if fits else None


def _owners(words: Sequence[tuple[Form, Form]]) -> _Owners | None:
    held: set[frozenset[tuple[Form, Form, Form]]] = set()
    keys: set[frozenset[tuple[Form, Form]]] = set()
    for place, word in words:
        carried, last = place.atom(), word.atom()
        if not isinstance(carried, Payload) or not isinstance(last, LastFlagged):
            return None
        if (last.first, last.last) != (0, carried.rank):
            return None
        held.add(last.records)
        keys.add(carried.records)
    if len(held) != 1 or {frozenset(key for key, _, _ in records) for records in held} != {
        frozenset(key for key, _ in records) for records in keys
    }:
        return None
    flagged = [(key, word.atom()) for key, flag, word in held.pop() if flag == UNIT]
    owned = sorted((key.constant, word) for key, word in flagged if isinstance(word, Input) and not key.terms)
    if not owned or len(owned) < len(flagged):
        return None
    (_, start), (_, end) = owned[0], owned[-1]
    if [word for _, word in owned] != [Input(start.name, node) for node in range(start.node, end.node + 1)]:
        return None
    least = max(key - word.node for key, word in owned)
    gaps = [after - word.node for (_, word), (after, _) in itertools.pairwise(owned)]
    return _Owners(start.name, start.node, end.node, least, min(gaps, default=None))
