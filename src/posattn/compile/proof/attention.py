"""Step 1: attention is selection. It never looks at the input, so that one calculation settles it for all inputs.

With q = P·W_Q + b_Q and k = P·W_K + b_K, node i reads node t if the logit S_it = q_i·k_t exceeds every other by so much
that softmax has nothing left for them. All logits are computed exactly, as whole numbers times one power of two.

What the dtype makes of them: if every product q_ic·k_jc is a multiple of a power of two g that the dtype holds, and
Σ_c |q_ic·k_jc| ≤ 2ᵖ·g, no sum is rounded, in any order; otherwise they are off by a bound e. Dividing by √d and
subtracting the maximum is off by a factor of 1 ± 4u, so that a distance of at least

    ((S_it − S_ij)·(1 − 8u) − 8u·|S_it| − 2e)/√d

reaches exp. Where that is at least 128 in float32 or 800 in float64, exp gives 0, and the weights are 1 and 0 exactly.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

import numpy as np
from torch import Tensor

from posattn.compile.expressions import Array
from posattn.compile.proof.findings import Finding, Outcome, TimeLimit
from posattn.compile.proof.precision import Precision

#: Sums of whole numbers below this are exact in float64, in any order.
EXACT = 2.0**53


@dataclass(frozen=True)
class Selection:
    """Whom every node reads: `reads[layer][head]` holds a node for every node."""

    reads: list[list[Array]]
    finding: Finding


def prove_selection(
    weights: Mapping[str, Tensor], *, heads: int, used: list[set[int]], precision: Precision, limit: TimeLimit
) -> Selection:
    """Step 1. `used`: the heads of each layer that anything is read through; idle ones may attend as they like."""
    held = {name: tensor.detach().cpu().double().numpy() for name, tensor in weights.items()}
    position, width = held["encoding"], held["encoding"].shape[1]
    known: dict[bytes, tuple[Array, Fraction]] = {}
    reads: list[list[Array]] = []
    least: Fraction | None = None
    for layer, heads_used in enumerate(used):
        largest = _largest_logit(held, layer)
        if not largest < float(precision.largest) / 4:
            return Selection(reads, _overflows(layer, largest, precision))
        reads.append([])
        for head in range(heads):
            limit.check()
            block = slice(head * width, (head + 1) * width)
            maps = [held[f"{name}_weight"][layer][:, block] for name in ("query", "key")]
            shifts = [held[f"{name}_bias"][layer][block] for name in ("query", "key")]
            key = b"".join(np.ascontiguousarray(part).tobytes() for part in (*maps, *shifts))
            if key not in known:
                known[key] = _selected(position, maps, shifts, precision)
            nodes, distance = known[key]
            reads[-1].append(nodes)
            if head in heads_used:
                least = distance if least is None else min(least, distance)
                if distance < precision.never:
                    return Selection(reads, _spread(layer, head, distance, precision))
    return Selection(reads, _selects(least, precision))


def _selects(least: Fraction | None, precision: Precision) -> Finding:
    margin = (
        "nothing is read" if least is None else f"logits at least {float(least):.6g} apart, {precision.never} needed"
    )
    return Finding(
        Outcome.STANDS,
        f"every node's attention is exactly 1 at one node and 0 elsewhere ({margin})",
        "all inputs: attention does not depend on them",
        "exact integer arithmetic",
    )


def _spread(layer: int, head: int, distance: Fraction, precision: Precision) -> Finding:
    return Finding(
        Outcome.REFUTED,
        "every node's attention is exactly 1 at one node and 0 elsewhere",
        "all inputs",
        "exact integer arithmetic",
        f"layer {layer}, head {head}: two logits are only {float(distance):.6g} apart after rounding, and "
        f"{precision.never} are needed",
    )


def _overflows(layer: int, largest: float, precision: Precision) -> Finding:
    return Finding(
        Outcome.OPEN,
        "every node's attention is exactly 1 at one node and 0 elsewhere",
        "all inputs",
        "exact integer arithmetic",
        f"layer {layer}: queries, keys or logits of up to {largest:.3g} can overflow {precision.name}",
    )


def _largest_logit(held: Mapping[str, Array], layer: int) -> float:
    """No query, key or logit of any head is larger: an idle head that overflows would spoil what others read."""
    top = np.append(np.abs(held["encoding"]).max(0), 1)
    query, key = (
        top @ np.abs(np.vstack([held[f"{name}_weight"][layer], held[f"{name}_bias"][layer]]))
        for name in ("query", "key")
    )
    return float(max(query.max(), key.max(), query @ key))


def _selected(position: Array, maps: list[Array], shifts: list[Array], precision: Precision) -> tuple[Array, Fraction]:
    """The node with the largest logit for every node, and the least distance that reaches softmax's exp."""
    beside = _whole(np.hstack([position, np.ones((len(position), 1))]))  # P·W + b as one product
    below = [_whole(np.vstack([w, b[None]])) for w, b in zip(maps, shifts, strict=True)]
    query, key = (_product(beside, map_) for map_ in below)
    transposed = (key[0].T, key[1])
    logits, grain = _product(query, transposed)
    sums = [_largest_sum(beside, map_) for map_ in below] + [_largest_sum(query, transposed)]
    least = min(query[1], key[1], grain)  # a power of two that the dtype has to hold
    exact = max(sums) <= 1 << precision.bits and least >= precision.smallest
    off = Fraction(0) if exact else _rounding(position, maps, shifts, precision) / grain
    nodes, reaches = _distances(logits, 8 * precision.unit)
    root = Fraction(isqrt(position.shape[1] << 80) + 1, 1 << 40)
    return nodes, (reaches - 2 * off) * grain / root


def _distances(logits: Array, share: Fraction) -> tuple[Array, Fraction]:
    """Every node's largest logit, and the least of (S_it − S_ij)·(1 − share) − share·|S_it|."""
    rows, nodes = np.arange(len(logits)), logits.argmax(1)
    top = logits[rows, nodes]
    others = logits.copy()
    others[rows, nodes] = logits.min() - (1 << 40)  # a node alone is as far from others as can be
    pairs = {(int(best - next_), int(best)) for best, next_ in zip(top, others.max(1), strict=True)}
    return nodes, min(gap * (1 - share) - share * abs(best) for gap, best in pairs)


#: Whole numbers, and the power of two that they are to be multiplied by.
Whole = tuple[Array, Fraction]


def _whole(values: Array) -> Whole:
    """Floats as whole numbers times a power of two; as Python's integers where they are too long for float64."""
    mantissa, exponent = np.frexp(values)
    lowest = exponent[values != 0] - 53
    if not len(lowest):
        return np.zeros_like(values), Fraction(1)
    digits = (mantissa * 2.0**53).astype(np.int64)
    trailing = min(_zeros(int(d)) + int(e) for d, e in zip(digits[values != 0], lowest, strict=True))
    grain = Fraction(2) ** trailing
    top = int(exponent[values != 0].max()) - trailing
    if top <= 53:
        return np.ldexp(values, -trailing), grain
    exactly = [[int(Fraction(float(value)) / grain) for value in row] for row in values]
    return np.array(exactly, dtype=object).reshape(values.shape), grain


def _zeros(digits: int) -> int:
    return (digits & -digits).bit_length() - 1


def _product(one: Whole, other: Whole) -> Whole:
    """The exact product of two matrices: in float64 where no sum can be rounded, else in Python's integers."""
    (a, grain), (b, grain_) = one, other
    fits = a.dtype != object and b.dtype != object
    if fits and a.shape[1] * float(np.abs(a).max(initial=0)) * float(np.abs(b).max(initial=0)) < EXACT:
        return a @ b, grain * grain_
    return _long_product(a, b), grain * grain_


def _long_product(a: Array, b: Array) -> Array:
    from flint import fmpz_mat

    left, right = (fmpz_mat([[int(value) for value in row] for row in matrix]) for matrix in (a, b))
    found = (left * right).tolist()
    return np.array([[int(value) for value in row] for row in found], dtype=object)


def _largest_sum(one: Whole, other: Whole) -> int:
    """Σ_c |a_ic·b_cj| at most, in units of the product: no partial sum is larger."""
    a, b = np.abs(one[0]).max(0), np.abs(other[0]).max(1)
    return sum(int(x) * int(y) for x, y in zip(a, b, strict=True))


def _rounding(position: Array, maps: list[Array], shifts: list[Array], precision: Precision) -> Fraction:
    """How far a logit can be off, for any order of summation: |P||W| and |q||k| bound all partial sums.

    Products below the smallest normal number are off by up to the smallest one, which is not 0 in float64.
    """
    unit, width, tiny = float(precision.unit), position.shape[1], float(precision.smallest)
    sizes, errors = [], []
    for weight, shift in zip(maps, shifts, strict=True):
        size = np.abs(position) @ np.abs(weight) + np.abs(shift)
        errors.append((width + 2) * (unit * size + tiny))
        sizes.append(size + errors[-1])
    total = (width + 2) * (unit * (sizes[0] @ sizes[1].T) + tiny) + errors[0] @ sizes[1].T + sizes[0] @ errors[1].T
    return Fraction(float(total.max()) * (1 + 2.0**-20))
