"""Step 4, one layer: how far the model's own sums can be from exact ones, for any order of summation.

Whatever the order, a sum of k terms takes k − 1 additions. Each rounds the sum of some of the terms, by at most half a
last place: the last one that of all of them, and the others, in the worst order, that of the two largest, the three
largest … of them. A product is rounded once more, unless its factor is a power of two, or multiplication and addition
are fused, which takes a rounding away. No sum is rounded where all terms are multiples of a power of two g and Σ|term|
≤ 2ᵖ·g, as every partial sum has at most p bits, and a ReLU whose sum stays below 0 by more than its own error is
exactly 0.

A number that is carried on, relu(x) − relu(−x), is one term: one of the two is 0. Where x itself is off by e, both can
be up to 2e for an x near 0, and adding the smaller one is off by no more than itself. Numbers below the smallest normal
one are kept (IEEE 754): only products lose bits there, by at most the smallest number.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

from posattn.compile.lowering.lattice import Lattice
from posattn.compile.proof.layer_weights import Column, Cone
from posattn.compile.proof.precision import Precision, is_power, power_below
from posattn.compile.proof.values import NONE, Undecided, Value


class Term(NamedTuple):
    """A number in the model: the range of what exact sums give, how far it is off, what divides it (0: not known)."""

    low: Fraction
    high: Fraction
    error: Fraction
    grain: Fraction
    of: frozenset[tuple[int, Fraction]] = frozenset()  # a hidden unit: what its sum is made of

    @property
    def reach(self) -> Fraction:
        return max(abs(self.low), abs(self.high))


ZERO = Term(NONE, NONE, NONE, NONE)


def term(value: Value, *, exact: bool) -> Term:
    """A number that the model holds. It may be off from the program's, unless it is `exact`, but it is what it is."""
    if exact:
        return Term(value.low, value.high, NONE, power_below(value.low))
    grain = NONE
    if isinstance(value.lattice, Lattice) and not (value.error or value.meant):
        grain = min((power_below(part) for part in value.lattice if part), default=NONE)
    return Term(value.low - value.error, value.high + value.error, NONE, grain)


#: Whether a hidden unit's exact sum stays at or below minus an error, for all inputs: level, unit, error.
Stays = Callable[[int, int, Fraction], bool]


def own_rounding(
    cone: Cone, inputs: Sequence[Term], *, reach: Fraction, precision: Precision, stays: Stays
) -> Fraction:
    """How far a register's next value is off from exact sums of the same numbers, which reach at most `reach`."""
    value = [_linear(add(column, inputs, precision)) for column in cone.value]
    state = [*inputs[: cone.own], *(_linear(add(column, value, precision)) for column in cone.output)]
    for level, matrix in enumerate(cone.mlp[:-1]):
        sums = [add(column, state, precision) for column in matrix]
        state = [_relu(found, stays, level, unit) for unit, found in enumerate(sums)]
    return add(cone.mlp[-1][0], state, precision, reach=reach).error


def _linear(found: Term) -> Term:
    """A sum that no ReLU is taken of: it does not pair with its opposite."""
    return found._replace(of=frozenset())


def _relu(of: Term, stays: Stays, level: int, unit: int) -> Term:
    if of.high + of.error <= 0 or (of.low < 0 and stays(level, unit, of.error)):
        return ZERO
    return of._replace(low=max(of.low, NONE), high=max(of.high, NONE))


def add(column: Column, terms: Sequence[Term], precision: Precision, *, reach: Fraction | None = None) -> Term:
    """Σ weight·term as the model computes it. `reach`: the largest size of the exact sum, where more is known of it."""
    present = {row: w for row, w in column.items() if terms[row].reach or terms[row].error}
    if not present:
        return ZERO
    parts = _carried([(w, terms[row]) for row, w in present.items()])
    low = sum((min(w * t.low, w * t.high) for w, t in parts), NONE)
    high = sum((max(w * t.low, w * t.high) for w, t in parts), NONE)
    size = sum((abs(w) * (t.reach + t.error) for w, t in parts), NONE)
    carried = sum((abs(w) * t.error for w, t in parts), NONE)
    if size * 2 > precision.largest:
        raise Undecided(f"a sum of up to {float(size):.3g} can overflow {precision.name}")
    grain = min(power_below(w) * t.grain for w, t in parts)
    largest = max(-low, high) if reach is None else min(reach, max(-low, high))
    off = NONE
    if carried or grain < precision.smallest or size > grain * (1 << precision.bits):
        products = [abs(w) * (t.reach + t.error) for w, t in parts]
        off = sum((precision.rounding(p) for p, (w, _) in zip(products, parts, strict=True) if not is_power(w)), NONE)
        off = _additions(products, largest + carried, off, precision)
        if any(not is_power(w) or abs(w) < 1 for w, _ in parts):  # a product below the smallest normal number
            off += len(parts) * precision.smallest
    return Term(low, high, carried + off, NONE if carried + off else grain, frozenset(present.items()))


def _additions(sizes: list[Fraction], total: Fraction, off: Fraction, precision: Precision) -> Fraction:
    """How far a sum of terms of these sizes is off, in any order, they being off by `off`. `total`: the largest sum."""
    first, *others = sorted(sizes, reverse=True)
    partial = first
    for size in others[:-1]:
        partial += size
        off += precision.rounding(partial + off)
    return off + precision.rounding(total + off) if others else off


def _carried(parts: list[tuple[Fraction, Term]]) -> list[tuple[Fraction, Term]]:
    """The same terms, with w·relu(x) − w·relu(−x) as w·x."""
    left = dict(enumerate(parts))
    found = []
    while left:
        _, (weight, one) = left.popitem()
        opposite = frozenset((row, -w) for row, w in one.of)
        pair = next((k for k, (w, t) in left.items() if one.of and w == -weight and t.of == opposite), None)
        if pair is not None:
            _, other = left.pop(pair)
            off = one.error + other.error + 2 * max(one.error, other.error)
            one = Term(-other.high, one.high, off, min(one.grain, other.grain))
        found.append((weight, one))
    return found
