"""Lower and upper bounds of expressions, from those of their words. Sound, node by node.

The bounds decide how large a gate's constant must be, and what the compiled model's domain is. Compare-exchange,
selection and gates are bounded by the values they choose from, not by the sums of ReLU units that they become: those
would make the bounds grow threefold with every round.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

from posattn.compile.expressions import Array, Expression, Line, Once, raised, tree
from posattn.compile.expressions.known_functions import is_known, range_of

#: A user's function is bounded by its values at this many points of an argument's interval.
PROBES = 129


class Interval(NamedTuple):
    """Lower and upper bounds, one for every node."""

    low: Array
    high: Array

    @property
    def reach(self) -> float:
        """The largest magnitude at any node."""
        return float(max(np.abs(self.low).max(), np.abs(self.high).max()))

    def hull(self, other: "Interval") -> "Interval":
        return Interval(np.minimum(self.low, other.low), np.maximum(self.high, other.high))


def bounds(expression: Expression, words: Mapping[str, Interval]) -> Interval:
    """Bounds of an expression, from those of its words."""
    return Once(partial(_bounds, words)).of(expression)


def _bounds(
    words: Mapping[str, Interval], expression: Expression, within: Callable[[Expression], Interval]
) -> Interval:
    """Bounds of a part, from those of its own parts."""
    match expression:
        case tree.Word(name):
            return words[name]
        case tree.Constant(value):
            some = next(iter(words.values())).low
            return Interval(np.full_like(some, value), np.full_like(some, value))
        case tree.Sum() if (pair := raised(expression)) is not None:
            a, b = within(pair[0]), within(pair[1])
            return Interval(a.low, np.maximum(a.high, b.high))
        case tree.Sum(terms):
            parts = [within(term) for term in terms]
            return Interval(np.sum([part.low for part in parts], axis=0), np.sum([part.high for part in parts], axis=0))
        case tree.Scaled(factor, of):
            held = within(of)
            return Interval(*sorted_pair(factor * held.low, factor * held.high))
        case tree.Product(one, other):
            a, b = within(one), within(other)
            corners = [a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high]
            return Interval(np.minimum.reduce(corners), np.maximum.reduce(corners))
        case tree.Relu(of):
            held = within(of)
            return Interval(np.maximum(held.low, 0), np.maximum(held.high, 0))
        case tree.Minimum(one, other):
            a, b = within(one), within(other)
            return Interval(np.minimum(a.low, b.low), np.minimum(a.high, b.high))
        case tree.Maximum(one, tree.Scaled(-1.0, same)) if same == one:  # |one|
            held = within(one)
            return Interval(np.maximum(np.maximum(held.low, -held.high), 0), np.maximum(-held.low, held.high))
        case tree.Maximum(one, other):
            a, b = within(one), within(other)
            return Interval(np.maximum(a.low, b.low), np.maximum(a.high, b.high))
        case tree.Gate(of, _):
            held = within(of)
            return Interval(np.minimum(held.low, 0), np.maximum(held.high, 0))
        case tree.Select(_, _, one, zero):
            return within(one).hull(within(zero))
        case tree.Exchange(own, other, _, _):
            return within(own).hull(within(other))
        case tree.Positive(of, _):
            held = within(of)
            return Interval(np.zeros_like(held.low), np.ones_like(held.low))
        case tree.Equal(one, _, _):
            held = within(one)
            return Interval(np.zeros_like(held.low), np.ones_like(held.low))
        case tree.Call("product", _, (one, other)) if is_known(expression):
            return within(tree.Product(one, other))
        case tree.Call(name, _, (argument,)) if is_known(expression):
            held = within(argument)
            return Interval(*range_of(name, held.low, held.high))
        case tree.Call():
            return _probed(expression, within)
        case Line(of):
            held = within(of)
            return Interval(*expression.range(held.low, held.high))
    raise tree.foreign(expression)


def sorted_pair(one: Array, other: Array) -> tuple[Array, Array]:
    return np.minimum(one, other), np.maximum(one, other)


def _probed(expression: tree.Call, within: Callable[[Expression], Interval]) -> Interval:
    """The function's least and largest value on a grid over its arguments' intervals: for a fit, not a proof."""
    places = np.linspace(0.0, 1.0, PROBES)
    grids = []
    for argument in expression.arguments:
        held = within(argument)
        grids.append(held.low[:, None] + (held.high - held.low)[:, None] * places)
    if len(grids) == 2:
        grids = [grids[0][:, :, None].repeat(PROBES, 2), grids[1][:, None, :].repeat(PROBES, 1)]
    with np.errstate(all="ignore"):  # what is not finite is refused where it is fitted
        values = np.asarray(expression.function(*grids)).reshape(grids[0].shape[0], -1)
    return Interval(values.min(1), values.max(1))
