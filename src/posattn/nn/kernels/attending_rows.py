"""Attention within samples, as Triton kernels: softmax(s_h·kᵀ)·v_h for rows that are the nodes of sample after sample.

Queries are s_h = u·N_h + c_h, keys the state u itself (see `posattn.nn.fast.standard_layer`). A rotary layer has keys
of its own, and turns them and the queries by their node's place.

A sample may have few nodes (9 at the paper's size), and tensor cores want 16 rows: a tile holds as many whole samples
as fit, and a mask that is block-diagonal in samples keeps them apart, as long as they are finite: what is NaN in one
sample is NaN in all samples of its tile. A program takes one head of one tile. With all heads in one program, which
needs no second copy of the keys' gradient, parts of the state were held for the next head, and an H200's
multiprocessor had room for 8 warps of them where it has room for 20 of these.
"""

from dataclasses import dataclass
from typing import Any

import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from posattn.nn.kernels.tf32 import dot, side

#: Warps that share a tile, by its rows: the fastest of those tried on an H200.
WARPS = {16: 1, 32: 2, 64: 4, 128: 8}


@triton.jit
def _tile(tile, total, NODES: tl.constexpr, ROWS: tl.constexpr):
    """Rows of a tile of whole samples: where they lie, which of them exist, their places, and which belong together.

    Where a tile holds one sample, a row's place is its number: the compiler sees that neighbours are neighbours.
    """
    used: tl.constexpr = (ROWS // NODES) * NODES
    local = tl.arange(0, ROWS)
    row = tile * used + local
    real = (local < used) & (row < total)
    together = real[:, None] & real[None, :]
    place = local
    if used > NODES:
        together &= local[:, None] // NODES == local[None, :] // NODES
        place = local % NODES
    return row, real, place, together


@triton.jit
def _rows(pointer, row, real, stride: tl.constexpr, count: tl.constexpr, COUNT: tl.constexpr):
    """Some rows of a matrix; what does not exist is 0."""
    i = tl.arange(0, COUNT)
    return tl.load(pointer + row[:, None] * stride + i[None, :], mask=real[:, None] & (i[None, :] < count), other=0.0)


@triton.jit
def _put(pointer, block, row, real, stride: tl.constexpr, count: tl.constexpr, COUNT: tl.constexpr):
    i = tl.arange(0, COUNT)
    tl.store(pointer + row[:, None] * stride + i[None, :], block, mask=real[:, None] & (i[None, :] < count))


@triton.jit
def _turned(
    x, place, real, turns_pointer, count: tl.constexpr, NODES: tl.constexpr, ROWS: tl.constexpr, COUNT: tl.constexpr,
    BACK: tl.constexpr,
):  # fmt: skip
    """x[i]·cos + x[i ^ 1]·(± sin), every row by its place; or turned back, as gradients are."""
    i = tl.arange(0, COUNT)
    inside = real[:, None] & (i[None, :] < count)
    at = place[:, None] * count + i[None, :]
    cosine = tl.load(turns_pointer + at, mask=inside, other=0.0)
    sine = tl.load(turns_pointer + NODES * count + at, mask=inside, other=0.0)
    even, odd = tl.split(tl.reshape(x, (ROWS, COUNT // 2, 2)))
    other = tl.reshape(tl.join(odd, even), (ROWS, COUNT))
    if BACK:
        return x * cosine - other * sine
    return x * cosine + other * sine


@triton.jit
def _seen(
    pointer, row, real, stride: tl.constexpr, shift_pointer, place, turns_pointer, count: tl.constexpr,
    NODES: tl.constexpr, ROWS: tl.constexpr, COUNT: tl.constexpr, TURNED: tl.constexpr,
):  # fmt: skip
    """Queries or keys of some rows, plus their shift, turned where asked to."""
    i = tl.arange(0, COUNT)
    x = _rows(pointer, row, real, stride, count, COUNT) + tl.load(shift_pointer + i, mask=i < count, other=0.0)[None, :]
    if TURNED:
        x = _turned(x, place, real, turns_pointer, count, NODES, ROWS, COUNT, False)
    return x


@triton.jit
def _kept(pointer, row, place, head, HEADS: tl.constexpr, NODES: tl.constexpr, ROWS: tl.constexpr):
    """Where the weights of a tile are kept: for every sample and head, a row for every reader."""
    other = tl.arange(0, ROWS)[None, :]
    if ROWS >= 2 * NODES:  # from the first node of the reader's sample on
        other = other - (tl.arange(0, ROWS) - place)[:, None]
    return pointer + (row // NODES * HEADS + head)[:, None] * NODES * NODES + place[:, None] * NODES + other


@triton.jit
def _forward(
    u_pointer, moved_pointer, shift_pointer, turns_pointer, read_pointer, weights_pointer, total,
    into: tl.constexpr, wide: tl.constexpr, value: tl.constexpr, values_at: tl.constexpr, width: tl.constexpr,
    HEADS: tl.constexpr, NODES: tl.constexpr, TURNED: tl.constexpr, EXACT: tl.constexpr,
    ROWS: tl.constexpr, WIDE: tl.constexpr, VALUE: tl.constexpr,
):  # fmt: skip
    head, replica = tl.program_id(1), tl.program_id(2).to(tl.int64)
    row, real, place, together = _tile(tl.program_id(0), total, NODES, ROWS)
    moved_pointer += replica * total * width
    queries: tl.constexpr = HEADS * wide
    shift_pointer += replica * (2 * queries if TURNED else queries) + head * wide
    query = _seen(
        moved_pointer + head * wide, row, real, width, shift_pointer, place, turns_pointer, wide,
        NODES, ROWS, WIDE, TURNED,
    )  # fmt: skip
    if TURNED:
        key = _seen(
            moved_pointer + queries + head * wide, row, real, width, shift_pointer + queries, place, turns_pointer,
            wide, NODES, ROWS, WIDE, True,
        )  # fmt: skip
    else:
        key = _rows(u_pointer + replica * total * into, row, real, into, into, WIDE)
    logits = dot(query, tl.trans(key), tl.zeros((ROWS, ROWS), tl.float32), EXACT)
    logits = tl.where(together, logits, -3.4028234663852886e38)  # the lowest of float32
    weights = tl.where(together, tl.exp(logits - tl.max(logits, axis=1)[:, None]), 0.0)
    weights = weights / tl.maximum(tl.sum(weights, axis=1), 1.0e-30)[:, None]  # 0 in rows that do not exist
    weights_pointer += replica * total * HEADS * NODES
    tl.store(_kept(weights_pointer, row, place, head, HEADS, NODES, ROWS), weights, mask=together)
    v = _rows(moved_pointer + values_at + head * value, row, real, width, value, VALUE)
    read = dot(weights, v, tl.zeros((ROWS, VALUE), tl.float32), EXACT)
    read_pointer += replica * total * HEADS * value + head * value
    _put(read_pointer, read, row, real, HEADS * value, value, VALUE)


@triton.jit
def _backward(
    u_pointer, moved_pointer, shift_pointer, turns_pointer, weights_pointer, dread_pointer, right_pointer, du_pointer,
    sums_pointer, total,
    into: tl.constexpr, wide: tl.constexpr, value: tl.constexpr, values_at: tl.constexpr, width: tl.constexpr,
    HEADS: tl.constexpr, NODES: tl.constexpr, TURNED: tl.constexpr, EXACT: tl.constexpr,
    ROWS: tl.constexpr, WIDE: tl.constexpr, VALUE: tl.constexpr,
):  # fmt: skip
    """Gradients of queries, keys and values in their places; the sums of the first two over the tile's rows."""
    head, replica = tl.program_id(1), tl.program_id(2).to(tl.int64)
    row, real, place, together = _tile(tl.program_id(0), total, NODES, ROWS)
    moved_pointer += replica * total * width
    right_pointer += replica * total * width
    queries: tl.constexpr = HEADS * wide
    shifts: tl.constexpr = 2 * queries if TURNED else queries
    shift_pointer += replica * shifts + head * wide
    sums_pointer += (replica * tl.num_programs(0) + tl.program_id(0)) * shifts + head * wide
    i = tl.arange(0, WIDE)
    dread_pointer += replica * total * HEADS * value + head * value
    dread = _rows(dread_pointer, row, real, HEADS * value, value, VALUE)
    v = _rows(moved_pointer + values_at + head * value, row, real, width, value, VALUE)
    weights_pointer += replica * total * HEADS * NODES
    weights = tl.load(_kept(weights_pointer, row, place, head, HEADS, NODES, ROWS), mask=together, other=0.0)
    dv = dot(tl.trans(weights), dread, tl.zeros((ROWS, VALUE), tl.float32), EXACT)
    _put(right_pointer + values_at + head * value, dv, row, real, width, value, VALUE)
    dweights = dot(dread, tl.trans(v), tl.zeros((ROWS, ROWS), tl.float32), EXACT)
    dlogits = weights * (dweights - tl.sum(weights * dweights, axis=1)[:, None])
    if TURNED:
        key = _seen(
            moved_pointer + queries + head * wide, row, real, width, shift_pointer + queries, place, turns_pointer,
            wide, NODES, ROWS, WIDE, True,
        )  # fmt: skip
    else:
        key = _rows(u_pointer + replica * total * into, row, real, into, into, WIDE)
    dquery = dot(dlogits, key, tl.zeros((ROWS, WIDE), tl.float32), EXACT)
    if TURNED:
        dquery = _turned(dquery, place, real, turns_pointer, wide, NODES, ROWS, WIDE, True)
    _put(right_pointer + head * wide, dquery, row, real, width, wide, WIDE)
    tl.store(sums_pointer + i, tl.sum(dquery, axis=0), mask=i < wide)
    query = _seen(
        moved_pointer + head * wide, row, real, width, shift_pointer, place, turns_pointer, wide,
        NODES, ROWS, WIDE, TURNED,
    )  # fmt: skip
    dkey = dot(tl.trans(dlogits), query, tl.zeros((ROWS, WIDE), tl.float32), EXACT)
    if TURNED:
        dkey = _turned(dkey, place, real, turns_pointer, wide, NODES, ROWS, WIDE, True)
        _put(right_pointer + queries + head * wide, dkey, row, real, width, wide, WIDE)
        tl.store(sums_pointer + queries + i, tl.sum(dkey, axis=0), mask=i < wide)
    else:
        du_pointer += replica * total * HEADS * into + head * into
        _put(du_pointer, dkey, row, real, HEADS * into, into, WIDE)


@dataclass(frozen=True)
class Attending:
    """Attention in one layer: of `heads` queries as wide as `wide`, over samples of so many nodes.

    What is `moved` are rows [queries | keys, if turned | … | values], the values from `values_at` on. `turns` has the
    cosine for every place and dimension, and the sine, negative for the first dimension of a pair.
    """

    heads: int
    nodes: int
    wide: int
    values_at: int
    exact: bool
    turns: Float[Tensor, "2 nodes wide"] | None = None

    def read(
        self,
        u: Float[Tensor, "replicas rows into"],
        moved: Float[Tensor, "replicas rows width"],
        shift: Float[Tensor, "replicas shifts"],
    ) -> tuple[Tensor, Tensor]:
        """What every node reads, all heads side by side, and its weights, for `differentiated`."""
        replicas, rows, width = moved.shape
        read = u.new_empty(replicas, rows, width - self.values_at)
        weights = u.new_empty(replicas, rows * self.heads * self.nodes)
        grid, constants = self._launched(u, moved)
        _forward[grid](u, moved, shift, self._turns(u), read, weights, rows, **constants)
        return read, weights

    def differentiated(
        self,
        u: Float[Tensor, "replicas rows into"],
        moved: Float[Tensor, "replicas rows width"],
        shift: Float[Tensor, "replicas shifts"],
        weights: Float[Tensor, "replicas weights"],
        dread: Float[Tensor, "replicas rows heads_of_values"],
        right: Float[Tensor, "replicas rows width"],
    ) -> tuple[Tensor | None, Tensor]:
        """Write the gradients of queries, keys and values into `right`, where these lie in `moved`.

        Gives the gradient of u as keys, one block of columns for every head, and that of the shift.
        """
        grid, constants = self._launched(u, moved)
        du = None if self.turns is not None else u.new_empty(*u.shape[:2], self.heads * u.shape[2])
        sums = u.new_empty(u.shape[0], grid[0], shift.shape[1])
        _backward[grid](
            u, moved, shift, self._turns(u), weights, dread, right, u if du is None else du, sums, u.shape[1],
            **constants,
        )  # fmt: skip
        return du, _added(sums)

    def _turns(self, u: Tensor) -> Tensor:
        return u if self.turns is None else self.turns

    def _launched(self, u: Tensor, moved: Tensor) -> tuple[tuple[int, int, int], dict[str, Any]]:
        """The grid, and what the kernels are told."""
        (replicas, rows, width), into = moved.shape, u.shape[2]
        value = (width - self.values_at) // self.heads
        tile = side(self.nodes)
        constants = {
            "into": into, "wide": self.wide, "value": value, "values_at": self.values_at, "width": width,
            "HEADS": self.heads, "NODES": self.nodes, "TURNED": self.turns is not None, "EXACT": self.exact,
            "ROWS": tile, "WIDE": side(self.wide), "VALUE": side(value), "num_warps": WARPS[tile], "num_stages": 1,
        }  # fmt: skip
        return (triton.cdiv(rows, tile // self.nodes * self.nodes), self.heads, replicas), constants


def _added(parts: Float[Tensor, "replicas parts columns"]) -> Float[Tensor, "replicas columns"]:
    """The sum over all parts; of many, in two steps, since PyTorch gives the sum of a column to few threads."""
    groups = next((groups for groups in range(32, 1, -1) if parts.shape[1] % groups == 0), 1)
    return parts.unflatten(1, (groups, -1)).sum(2).sum(1)
