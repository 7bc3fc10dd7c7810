"""Numbers that are compared with each other, by the 0–1 principle.

A word that is made of min and max of some keys is at least t exactly if the same min and max of the bits [key ≥ t] are
1. So it is enough to know every word for every choice of bits: one row of bits per word, one column per choice. A word
whose row says "at least so many of the bits are 1" is the key of that rank.

Keys start alone, with two columns. Groups that are compared become one, with a column for every pair of columns. Once
every word of a group is a key of known rank, only the number of ones counts, and m keys need m + 1 columns: a sorting
network that merges runs is followed run by run, by induction, and any network at all of up to 20 keys by brute force.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from posattn.compile.expressions import Array
from posattn.compile.proof.specification.reading import Place
from posattn.compile.proof.specification.terms import Form

#: Bits that a group may take, whatever the number of keys: 2²⁰ columns for each of 20 keys, and some more.
FEWEST_BITS = 1 << 28


#: Unsorted states of a group that are looked at.
MOST_SHOWN = 256
#: A bit for every key.
State = list[tuple[Form, int]]


@dataclass(eq=False, repr=False)
class Key:
    """A number that is compared, and what travels with it, by the register that it is first in."""

    form: Form
    payload: dict[str, Form] = field(default_factory=dict)


class TooManyStates(Exception):  # noqa: N818 (a limit of the method, not an error)
    """Groups that are not sorted yet are compared, and all their states together are too many."""

    def __init__(self, groups: list["Group"]) -> None:
        counts = " and ".join(str(len(group.keys)) for group in groups)
        super().__init__(
            f"groups of {counts} numbers are compared, which have too many states together to try them all. Networks "
            "of up to 20 numbers are decided, and longer ones that sort short runs and merge them"
        )
        self.unsorted = [state for group in groups for state in group.unsorted_states()]


@dataclass(eq=False, repr=False)
class Group:
    """Words made of the same keys. A column is a number of ones for every run; a run of one key is a bit.

    What travels with a key has the same row, as one object: it is made and looked at once.
    """

    runs: list[list[Key]]
    ones: Array  # in each column
    rows: dict[Place, Array]  # packed bits
    gap: Fraction | None = None  # keys must be further apart for what was compared; None: they may be equal

    @classmethod
    def sorted_run(cls, keys: list[Key], places: Iterable[Place]) -> "Group":
        """Keys that are known to be ascending, one at each place."""
        found = cls([keys], np.arange(len(keys) + 1, dtype=np.int32), {})
        found.rows = {place: found.threshold(rank) for rank, place in enumerate(places)}
        return found

    @property
    def keys(self) -> list[Key]:
        return [key for run in self.runs for key in run]

    def threshold(self, rank: int) -> Array:
        """The row of the key of this rank: of m keys, it is 1 where at least m − rank of them are."""
        return np.packbits(self.ones >= sum(map(len, self.runs)) - rank)

    def rank(self, place: Place) -> int | None:
        """The rank of the word at a place, if it has one."""
        return self._rank(self.rows[place])

    def _rank(self, row: Array) -> int | None:
        count = sum(map(len, self.runs))
        ones = self.ones[np.unpackbits(row, count=self.ones.size).view(bool)]
        if not ones.size:
            return None
        rank = count - int(ones.min())
        return rank if 0 <= rank < count and np.array_equal(self.threshold(rank), row) else None

    def joined(self, other: "Group", most: int) -> "Group":
        """Both groups as one, unless that takes more than `most` bits."""
        columns = self.ones.size * other.ones.size
        if columns * (len(self._distinct()) + len(other._distinct())) > most:
            raise TooManyStates([self, other])
        gaps = [gap for gap in (self.gap, other.gap) if gap is not None]
        rows = self._mapped(lambda row: np.packbits(np.repeat(_bits(self, row), other.ones.size)))
        rows |= other._mapped(lambda row: np.packbits(np.tile(_bits(other, row), self.ones.size)))
        ones = (self.ones[:, None] + other.ones[None, :]).ravel()
        return Group(self.runs + other.runs, ones, rows, max(gaps, default=None))

    def settle(self) -> None:
        """Take the group as one run, if every word of it is a key of known rank."""
        if len(self.runs) == 1:
            return
        ranks: dict[int, int] = {}
        for at, row in self._distinct().items():
            rank = self._rank(row)
            if rank is None:
                return
            ranks[at] = rank
        self.runs = [self.keys]
        self.ones = np.arange(len(self.runs[0]) + 1, dtype=np.int32)
        self.rows = self._mapped(lambda row: self.threshold(ranks[id(row)]))

    def _distinct(self) -> dict[int, Array]:
        return {id(row): row for row in self.rows.values()}

    def _mapped(self, made: Callable[[Array], Array]) -> dict[Place, Array]:
        """Every place's row after a change, made once for all places that share it."""
        changed = {at: made(row) for at, row in self._distinct().items()}
        return {place: changed[id(row)] for place, row in self.rows.items()}

    def unsorted_states(self) -> list[State]:
        """States in which a word is not what the rank that its row is nearest to asks for, spread over all words."""
        count = sum(map(len, self.runs))
        sizes = np.bincount(self.ones, minlength=count + 1)[::-1].cumsum()  # of columns with at least m, m − 1, … ones
        found: dict[int, None] = {}
        for row in self.rows.values():
            rank = min(int(np.searchsorted(sizes, int(_bits(self, row).sum()))), count - 1)
            wrong = np.flatnonzero(_bits(self, row ^ self.threshold(rank)))
            found |= dict.fromkeys(wrong[:: max(1, len(wrong) // 8)].tolist())
        columns = list(found)
        return [self._state(column) for column in columns[:: max(1, len(columns) // MOST_SHOWN)]]

    def _state(self, column: int) -> State:
        found: State = []
        for run in reversed(self.runs):
            column, ones = divmod(column, len(run) + 1)
            found += [(key.form, int(place < ones)) for place, key in enumerate(run)]
        return found


def most_bits(keys: int) -> int:
    """Bits that a group may take in a program of so many keys: twice what merging two halves takes."""
    return max(FEWEST_BITS, 2 * keys * (keys // 2 + 1) ** 2)


def _bits(group: Group, row: Array) -> Array:
    return np.unpackbits(row, count=group.ones.size)
