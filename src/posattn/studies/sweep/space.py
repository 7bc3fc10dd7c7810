"""What a sweep tries: fields of the trials by dotted path, each with values to choose from.

>>> parse(["optimiser.lr=1e-4,1e-3", "model.heads=1,2"]).settings()
[{'model.heads': 1, 'optimiser.lr': 0.0001}, {'model.heads': 1, 'optimiser.lr': 0.001},
 {'model.heads': 2, 'optimiser.lr': 0.0001}, {'model.heads': 2, 'optimiser.lr': 0.001}]

A search that draws its settings takes ranges as well, `optimiser.lr=1e-5..1e-2`.
"""

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posattn import checks
from posattn.errors import PosattnError, kind_of, require
from posattn.train import changes

#: One value for every field of a space.
Setting = dict[str, Any]
#: Settings that one sweep may try.
MOST = 100_000
NUMBER = r"[-+]?[0-9][0-9._]*(?:[eE][-+]?[0-9]+)?"


@dataclass(frozen=True)
class Range:
    """All numbers from low to high: whole ones where both ends are, else by their logarithm, as learning rates are."""

    low: float
    high: float

    def __post_init__(self) -> None:
        checks.keep_real(self, "low", "high")
        require(self.low < self.high, f"range {self}: its first number must be the lower one.")
        fix = "list the values instead, with commas"
        require(self.whole or self.low > 0, f"range {self}: it is drawn by logarithms, so above 0: {fix}.")

    def __str__(self) -> str:
        return f"{self.low:g}..{self.high:g}"

    @property
    def whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def count(self) -> int | None:
        """How many numbers there are; None where they cannot be counted."""
        return int(self.high - self.low + 1) if self.whole else None

    @property
    def ends(self) -> tuple[float, float]:
        return self.low, self.high

    def at(self, share: float) -> float:
        """The number at a share of the way, in [0, 1)."""
        if self.whole:
            return int(self.low + math.floor(share * (self.high - self.low + 1)))
        return float(self.low * (self.high / self.low) ** share)


@dataclass(frozen=True)
class Space:
    """Values by field: a tuple of those to try, or a range."""

    fields: Mapping[str, tuple[Any, ...] | Range]

    def __post_init__(self) -> None:
        if not isinstance(self.fields, Mapping):
            raise PosattnError(
                f"fields is {kind_of(self.fields)}: give values by field, as {{'optimiser.lr': (1e-3,)}}."
            )
        empty = "the grid is empty: name a field and its values, --set optimiser.lr=1e-4,1e-3."
        require(bool(self.fields), empty)
        found: dict[str, tuple[Any, ...] | Range] = {}
        for path, values in self.fields.items():
            changes.settled({path: None})
            if not isinstance(values, Range):
                listed = isinstance(values, Sequence) and not isinstance(values, str) and len(values) > 0
                require(listed, f"--set {path}={values!r:.40}: {empty}")
                values = tuple(changes.settled({path: value})[path] for value in values)
                twice = [value for at, value in enumerate(values) if value in values[:at]]
                require(not twice, f"--set {path}: {twice and twice[0]!r} is there twice. Give each value once.")
            found[path] = values
        object.__setattr__(self, "fields", {path: found[path] for path in sorted(found)})

    @property
    def ranges(self) -> list[str]:
        return [path for path, values in self.fields.items() if isinstance(values, Range)]

    @property
    def size(self) -> int | None:
        """How many settings there are; None where a range is not one of whole numbers."""
        counts = [values.count if isinstance(values, Range) else len(values) for values in self.fields.values()]
        known = [count for count in counts if count is not None]
        return math.prod(known) if len(known) == len(counts) else None

    def settings(self) -> list[Setting]:
        """Every combination of the listed values, the last field's changing fastest."""
        for path in self.ranges:
            raise PosattnError(
                f"--set {path}={self.fields[path]}: a grid needs listed values. Give some, with commas, or draw from "
                "the range, --search random --budget 50."
            )
        return self.every()

    def every(self) -> list[Setting]:
        """Every combination, where they can be counted: ranges of whole numbers are lists of them."""
        require((self.size or 0) <= MOST, f"the grid has {self.size} settings, and a sweep at most {MOST}: try fewer.")
        listed = [
            [(path, value) for value in (_whole(values) if isinstance(values, Range) else values)]
            for path, values in self.fields.items()
        ]
        return [dict(chosen) for chosen in itertools.product(*listed)]

    def each(self) -> Iterable[Setting]:
        """Every value of every field by itself, the ends of ranges: what can be checked before anything is drawn."""
        for path, values in self.fields.items():
            for value in values.ends if isinstance(values, Range) else values:
                yield {path: value}

    def words(self) -> list[str]:
        """FIELD=VALUES as `parse` reads them."""
        return [
            f"{path}={values}"
            if isinstance(values, Range)
            else ",".join([changes.written(path, values[0]), *(changes.written("", value)[1:] for value in values[1:])])
            for path, values in self.fields.items()
        ]


def _whole(values: Range) -> Iterable[int]:
    return range(int(values.low), int(values.high) + 1)


def parse(given: Sequence[str]) -> Space:
    """FIELD=VALUE,VALUE,… or FIELD=LOW..HIGH, for every field once."""
    found: dict[str, tuple[Any, ...] | Range] = {}
    for text in checks.several(
        "given", given, str, fix="give a list of fields with values, as ['optimiser.lr=1e-4,1e-3']"
    ):
        path, equals, values = text.partition("=")
        require(bool(equals), f"--set {text}: write FIELD=VALUE,VALUE, as optimiser.lr=1e-4,1e-3.")
        require(path not in found, f"--set {text}: {path} was set before. Set it once, with all values.")
        ends = re.fullmatch(rf"({NUMBER})\.\.({NUMBER})", values)
        if ends:
            low, high = (changes.parse([f"{path}={end}"])[path] for end in ends.groups())
            try:
                found[path] = Range(low, high)
            except PosattnError as error:
                raise PosattnError(f"--set {text}: {error}") from None
        else:
            pieces = changes.pieces(values)
            require("" not in pieces, f"--set {text}: a value is empty. Give one at least, with one comma between two.")
            found[path] = tuple(changes.parse([f"{path}={piece}"])[path] for piece in pieces)
    return Space(found)
