"""How a problem's numbers move under its group, and what an MLP may see of them: what does not move.

    scale       x ↦ c·x for c > 0: no biases
    linear      no ReLU either
    shift       x ↦ x + t: the MLP sees differences, and its answer is added to a number that moves with the input
    Action(G)   x ↦ x + G·t in general, one row of G for each number that a step reads and one for its answer

The numbers that a step reads are v. Its invariants are the functionals n with n·G = 0, its carrier a functional c with
c·G = g, where g is the answer's row; both are computed once, in exact fractions. A step is then

    c·v + MLP(heads, learned weights on n₁·v … n_k·v)

and moves as the answer does, for every t, whatever the MLP has learned.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from posattn.errors import PosattnError, require, unknown

Row = tuple[Fraction, ...]
#: Factors of what an MLP sees lie between its inverse and this: floats hold them, with room for what they multiply.
FARTHEST = Fraction(10**6)
#: Names of symmetries. What `potential` does, only a schedule of pairs knows.
NAMES = ("scale", "shift", "potential", "linear")


@dataclass(frozen=True)
class Action:
    """x ↦ x + G·t: a row for each number that a step reads, the node's own first, and one for the answer.

    >>> Action(((1,), (1,), (1,))).invariants  # a shift: self, partner, answer
    ((Fraction(-1, 1), Fraction(1, 1)),)
    """

    rows: tuple[tuple[Any, ...], ...]

    def __post_init__(self) -> None:
        try:
            rows = tuple(tuple(Fraction(entry) for entry in row) for row in self.rows)
        except (TypeError, ValueError, OverflowError, ZeroDivisionError):
            raise PosattnError(f"G={self.rows!r:.80}: give rows of fractions, as ((1,), (1,), (1,)).") from None
        require(
            len(rows) >= 2 and len({len(row) for row in rows}) == 1,
            f"G has {len(rows)} rows: it needs one for each number that a step reads and one for the answer, equally "
            "long.",
        )
        object.__setattr__(self, "rows", rows)
        require(
            self._solved(self.rows[-1]) is not None,
            "the answer's row of G is no combination of the others: nothing that a step reads moves as the answer.",
        )
        require(
            bool(self.invariants),
            "G leaves no invariant: the MLP would see nothing. Use a smaller group, with fewer columns.",
        )
        factors = [entry for row in (*self.invariants, self.carrier) for entry in row if entry]
        require(
            all(FARTHEST**-1 <= abs(entry) <= FARTHEST for entry in factors),
            f"G has entries too far apart: what a step sees would have factors beyond 10^±{len(str(FARTHEST)) - 1}.",
        )

    @property
    def values(self) -> int:
        """How many numbers a step reads."""
        return len(self.rows) - 1

    @property
    def invariants(self) -> tuple[Row, ...]:
        """A basis of the functionals that G leaves alone, as whole numbers where that is possible."""
        columns = [list(column) for column in zip(*self.rows[:-1], strict=True)]
        return null_space(columns, self.values)

    @property
    def carrier(self) -> Row:
        """A functional that moves as the answer does: of the first numbers alone, where they are enough."""
        found = self._solved(self.rows[-1])
        assert found is not None
        return found

    def _solved(self, wanted: Row) -> Row | None:
        """c with c·G = wanted, 0 wherever possible."""
        matrix = [[*column, goal] for column, goal in zip(zip(*self.rows[:-1], strict=True), wanted, strict=True)]
        pivots = _reduce(matrix, len(self.rows) - 1)
        if any(not any(row[:-1]) and row[-1] for row in matrix):
            return None
        found = [Fraction(0)] * (len(self.rows) - 1)
        for row, pivot in enumerate(pivots):
            found[pivot] = matrix[row][-1]
        return tuple(found)

    def to_json(self) -> str:
        return json.dumps([[str(entry) for entry in row] for row in self.rows])

    @classmethod
    def from_json(cls, text: str) -> "Action":
        try:
            return cls(tuple(tuple(map(Fraction, row)) for row in json.loads(text)))
        except (TypeError, ValueError, RecursionError):
            raise PosattnError(f"not an action: {text!r:.80}. Action.to_json writes one.") from None


def nothing(values: int) -> Action:
    """The group that moves nothing: every number is an invariant."""
    return Action(((Fraction(0),),) * (values + 1))


def shift(values: int) -> Action:
    """x ↦ x + t, all numbers alike."""
    return Action(((Fraction(1),),) * (values + 1))


def null_space(rows: list[list[Fraction]], width: int) -> tuple[Row, ...]:
    """A basis of {n : row·n = 0 for every row}."""
    matrix = [list(row) for row in rows]
    pivots = _reduce(matrix, width)
    found = []
    for free in (column for column in range(width) if column not in pivots):
        vector = [Fraction(0)] * width
        vector[free] = Fraction(1)
        for row, pivot in enumerate(pivots):
            vector[pivot] = -matrix[row][free]
        found.append(tuple(vector))
    return tuple(found)


def _reduce(matrix: list[list[Fraction]], width: int) -> list[int]:
    """Gauss–Jordan in place over the first columns; the pivots' columns."""
    pivots: list[int] = []
    for column in range(width):
        place = len(pivots)
        row = next((r for r in range(place, len(matrix)) if matrix[r][column]), None)
        if row is None:
            continue
        matrix[place], matrix[row] = matrix[row], matrix[place]
        lead = matrix[place][column]
        matrix[place] = [entry / lead for entry in matrix[place]]
        for other in range(len(matrix)):
            if other != place and matrix[other][column]:
                by = matrix[other][column]
                matrix[other] = [a - by * b for a, b in zip(matrix[other], matrix[place], strict=True)]
        pivots.append(column)
    return pivots


def checked_symmetry(value: Any) -> tuple[str | Action, ...]:
    """What was passed as `symmetry`: names and actions in a tuple; a single one alone is fine too."""
    given: Sequence[Any] = (value,) if isinstance(value, (str, Action)) else value
    if not isinstance(given, (tuple, list)):
        raise PosattnError(f"symmetry={value!r:.60}: name symmetries in a tuple, as ('scale', 'shift').")
    found = []
    for one in given:
        one = Action.from_json(one) if isinstance(one, str) and one.startswith("[") else one
        if not isinstance(one, Action) and one not in NAMES:
            raise unknown("symmetry", one, NAMES)
        require(one not in found, f"symmetry={value!r:.60}: '{one}' is named twice.")
        found.append(one)
    moving = [one for one in found if one in ("shift", "potential") or isinstance(one, Action)]
    require(len(moving) <= 1, f"symmetry={value!r:.60}: it has two translations. Write them as one Action(G).")
    return tuple(found)
