"""Broken lines: what the compiler puts in place of a function from outside the language.

Programs are written and saved with the function itself, so files hold no lines among their expressions.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from posattn.compile.expressions.tree import Array, Expression


@dataclass(frozen=True, eq=False)
class Line(Expression):
    """start + Σ bend·relu(of − knot), which differs from the function that it stands for by at most `error`."""

    of: Expression
    start: float
    knots: tuple[float, ...]  # ascending; the line is flat before the first
    bends: tuple[float, ...]  # how much the slope changes at each
    error: float

    def __str__(self) -> str:
        return f"line({self.of})"

    @cached_property
    def steepest(self) -> float:
        """The largest slope in size: what an error of the argument is multiplied by at most."""
        return (1 + 2.0**-30) * float(np.abs(np.cumsum(self.bends)).max())

    @cached_property
    def _heights(self) -> Array:
        """The line at its knots."""
        return self.start + np.concatenate([[0.0], np.cumsum(np.cumsum(self.bends)[:-1] * np.diff(self.knots))])

    def at(self, places: Array) -> Array:
        """The line's values, in float64."""
        piece = np.searchsorted(self.knots, places, side="right") - 1
        slopes = np.concatenate([np.cumsum(self.bends), [0.0]])  # −1: before the first knot
        return self._heights[piece.clip(0)] + slopes[piece] * (places - np.array(self.knots)[piece.clip(0)])

    def range(self, low: Array, high: Array) -> tuple[Array, Array]:
        """The least and the largest value between two places, for every pair of them."""
        ends = self.at(low), self.at(high)
        least, most = np.minimum(*ends), np.maximum(*ends)
        knots = np.array(self.knots)
        for start, stop in {*zip(low.tolist(), high.tolist(), strict=True)}:
            within = self._heights[(knots > start) & (knots < stop)]
            if len(within):
                here = (low == start) & (high == stop)
                least[here] = np.minimum(least[here], within.min())
                most[here] = np.maximum(most[here], within.max())
        return least, most
