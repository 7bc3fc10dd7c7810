"""Attention as communication: an encoding P, and W_Q and W_K that make softmax select one node exactly.

A pattern says for every node which node it reads (−1: the sink, which holds 0). With keys k_j and queries q_i,

    one-hot    k_j = e_j, q_i = e_t(i)                                q·k is 1 at t(i) and 0 elsewhere: any pattern
    binary     k_j = ±1 bits of j, q_i = those of i, some flipped     largest at j = i xor mask, by 2: hypercube edges
    parabolic  k_j = (1, j, j²), q_i = (−t², 2t, −1)                  q·k = −(j − t)², for t = a·i + b: shifts,
                                                                      reversals, broadcasts; a t beyond the border reads
                                                                      the border's node, so the sink is at index −1
    targets    as parabolic, with columns t(i) and t(i)² in P         any pattern, two columns for each not affine one
    digits     j = B·h + l: k_j = (1, h, l, h² + l²), and columns     q·k = −(h − h_t)² − (l − l_t)²: any pattern, for
               h_t, l_t and h_t² + l_t² in P                          nodes whose squares float32 no longer holds

Everything is an integer, scaled by a power of two, so the logits are exact in float32, and the gap is so large that all
weights but one are exactly 0. `choose` takes the encoding with the fewest dimensions that fits every pattern.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from posattn.compile.expressions import Array

#: Node −1: where a node reads from that receives nothing.
SINK = -1
Pattern = tuple[int, ...]

#: exp of minus this is 0, in float64 too (it is so below −745).
UNDERFLOW = 1024
#: Integers up to here are exact in float32.
EXACT = 2**24


@dataclass(frozen=True)
class Positions:
    """P (the sink's row is last, where there is one), W_K, and a W_Q for every pattern; d × d each."""

    name: str
    matrix: Array
    key: Array
    queries: dict[Pattern, Array]

    @property
    def width(self) -> int:
        return self.matrix.shape[1]


def choose(patterns: Sequence[Pattern], nodes: int, *, sink: bool) -> Positions:
    """The smallest encoding that realises every pattern exactly."""
    small = [build(patterns, nodes, sink) for build in (_binary, _parabolic, _targets, _digits)]
    fitting = [positions for positions in small if positions is not None]
    smallest = min(fitting, key=lambda positions: positions.width, default=None)
    if smallest is not None and smallest.width <= nodes + sink:
        return smallest
    return _one_hot(patterns, nodes, sink)


def _scale(width: int, gap: float) -> float:
    """A power of two that makes the gap between logits large enough, after their division by √d."""
    return 2.0 ** math.ceil(math.log2(UNDERFLOW * math.sqrt(width) / gap))


def _one_hot(patterns: Sequence[Pattern], nodes: int, sink: bool) -> Positions:
    width = nodes + sink
    scale = _scale(width, 1.0)
    queries = {}
    for pattern in patterns:
        query = np.zeros((width, width))
        targets = (*pattern, SINK) if sink else pattern
        query[np.arange(width), [target % width for target in targets]] = scale
        queries[pattern] = query
    return Positions("one-hot", np.eye(width), np.eye(width), queries)


def _binary(patterns: Sequence[Pattern], nodes: int, sink: bool) -> Positions | None:
    bits = nodes.bit_length() - 1
    if sink or nodes < 2 or nodes != 1 << bits:
        return None
    signs = 1.0 - 2.0 * ((np.arange(nodes)[:, None] >> np.arange(bits)) & 1)
    scale = _scale(bits, 2.0)
    queries = {}
    for pattern in patterns:
        mask = pattern[0]
        if any(target != node ^ mask for node, target in enumerate(pattern)):
            return None
        queries[pattern] = np.diag([-scale if mask >> bit & 1 else scale for bit in range(bits)])
    return Positions("binary", signs, np.eye(bits), queries)


def _parabola(nodes: int, sink: bool) -> Array:
    index = np.append(np.arange(nodes), SINK) if sink else np.arange(nodes)
    return np.stack([np.ones_like(index), index, index**2], axis=1).astype(np.float64)


def _parabolic(patterns: Sequence[Pattern], nodes: int, sink: bool) -> Positions | None:
    scale = _scale(3, 1.0)
    queries = {}
    for pattern in patterns:
        found = affine(pattern, nodes, sink=sink)
        if found is None or not _exact(found, nodes):
            return None
        queries[pattern] = scale * _affine_query(*found)
    return Positions("parabolic", _parabola(nodes, sink), np.eye(3), queries)


def _affine_query(slope: int, offset: int) -> Array:
    """(1, i, i²) ↦ (−t², 2t, −1) for t = slope·i + offset."""
    return np.array(
        [
            [-(offset**2), 2 * offset, -1],
            [-2 * slope * offset, 2 * slope, 0],
            [-(slope**2), 0, 0],
        ],
        dtype=np.float64,
    )


def _targets(patterns: Sequence[Pattern], nodes: int, sink: bool) -> Positions | None:
    if 4 * nodes**2 > EXACT:
        return None
    matrix, lines = _parabola(nodes, sink), {}
    for pattern in patterns:
        lines[pattern] = affine(pattern, nodes, sink=sink)
        if lines[pattern] is None or not _exact(lines[pattern], nodes):
            lines[pattern] = None
            target = np.array((*pattern, SINK) if sink else pattern, dtype=np.float64)
            matrix = np.concatenate([matrix, np.stack([target, target**2], axis=1)], axis=1)
    width = matrix.shape[1]
    if width >= nodes + sink:  # then one-hot is no wider
        return None
    scale, queries, column = _scale(width, 1.0), {}, 3
    for pattern in patterns:
        query = np.zeros((width, width))
        line = lines[pattern]
        if line is not None:
            query[:3, :3] = scale * _affine_query(*line)
        else:
            query[column, 1] = 2 * scale
            query[column + 1, 0] = -scale
            query[0, 2] = -scale
            column += 2
        queries[pattern] = query
    key = np.zeros((width, width))
    key[:3, :3] = np.eye(3)
    return Positions("targets", matrix, key, queries)


def _digits(patterns: Sequence[Pattern], nodes: int, sink: bool) -> Positions | None:
    """Two digits of about equal size, so that their squares are about as large as the number of nodes."""
    count = nodes + sink  # the sink is the last node here
    base = 1 << ((count - 1).bit_length() + 1) // 2
    place = np.stack(np.divmod(np.arange(count), base), axis=1).astype(np.float64)
    if 4 * nodes**2 <= EXACT or 4 * _sizes(place).max() > EXACT:  # then targets are narrower; then sums would round
        return None
    columns, read, queries = [np.ones(count), *place.T, _sizes(place)], {}, {}
    for pattern in patterns:
        targets = place[[target % count for target in ((*pattern, SINK) if sink else pattern)]]
        read[pattern] = (1, 2, 3)  # the node's own digits
        if not np.array_equal(targets, place):
            read[pattern] = (len(columns), len(columns) + 1, len(columns) + 2)
            columns += [*targets.T, _sizes(targets)]
    width = len(columns)
    scale = _scale(width, 1.0)
    for pattern, (high, low, size) in read.items():
        query = np.zeros((width, width))
        query[high, 1] = query[low, 2] = 2 * scale
        query[size, 0] = query[0, 3] = -scale
        queries[pattern] = query
    key = np.zeros((width, width))
    key[:4, :4] = np.eye(4)
    return Positions("digits", np.stack(columns, axis=1), key, queries)


def _sizes(place: Array) -> Array:
    return (place**2).sum(axis=1)


def _exact(line: tuple[int, int] | None, nodes: int) -> bool:
    """Whether every partial sum of −t² + 2t·j − j², and of t² from its parts, is an exact integer in float32."""
    assert line is not None
    reach = max(abs(line[0]) * nodes + abs(line[1]), nodes)
    return 4 * reach**2 <= EXACT


def affine(pattern: Pattern, nodes: int, *, sink: bool) -> tuple[int, int] | None:
    """(a, b) such that every node i reads a·i + b, moved to the border's node where that is outside; None: no such.

    With a sink the lower border is the sink at −1, and it has to read itself.
    """
    low, high = (SINK if sink else 0), nodes - 1  # the nodes, and their indices, with the sink first
    wanted = (SINK, *pattern) if sink else pattern
    inner = next((place for place, target in enumerate(wanted) if low < target < high), None)
    if inner is not None:  # the line goes through this point, and every other one bounds its slope
        slope = _flattest(wanted, inner, low, high)
        offset = wanted[inner] - slope * (low + inner)
    else:  # every node reads a border: the line is flat, or goes from one to the other in a single step
        step = next((place for place in range(1, len(wanted)) if wanted[place] != wanted[place - 1]), 0)
        slope = wanted[step] - wanted[max(step - 1, 0)]
        offset = wanted[step] - slope * (low + step)
    found = np.clip(slope * np.arange(low, nodes) + offset, low, high)
    return (slope, offset) if np.array_equal(found, wanted) else None


def _flattest(wanted: Sequence[int], inner: int, low: int, high: int) -> int:
    """The slope nearest to 0 that a line through wanted[inner] may have: at most `low` where that is wanted, at least
    `high` where that is, and right in between. Whether there is a line at all is for the caller to see."""
    least, most = -len(wanted), len(wanted)
    for place, target in enumerate(wanted):
        run, rise = place - inner, target - wanted[inner]
        if run and (low < target < high or (target == low) == (run > 0)):
            most = min(most, rise // run)
        if run and (low < target < high or (target == low) == (run < 0)):
            least = max(least, -(-rise // run))
    return min(max(0, least), most)
