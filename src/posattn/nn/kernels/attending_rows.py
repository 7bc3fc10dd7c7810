"""The standard layer between two ReLUs on a GPU: attention by Triton kernels, products by cuBLAS.

    z = relu(u·M₀ + b + Σ_h softmax((u·N_h + c_h)·uᵀ)·u·M_h)          (see `posattn.nn.fast.standard_layer`)

One product gives [s_1 | … | s_H | y_0 | … | y_H] = u·[N_1 | … | N_H | M₀ | … | M_H] for all nodes. What is left stays
within a sample. A sample has few nodes (9 at the paper's size), and tensor cores want 16 rows: so a tile holds as many
whole samples as fit, and a mask that is block-diagonal in samples keeps them apart, as long as they are finite: what is
NaN in one sample is NaN in all samples of its tile. The backward kernel computes the weights again, and writes
[ds | g | dy], from which two more products give the gradients of u and of the matrices.

A kernel that does all products of a layer itself needs so much shared memory that one tile fits on a multiprocessor:
its backward pass took more than twice as long.

A rotary layer has keys of its own, and turns them and the queries by their node's place:
[q | k | y] in place of [s | y], and k_h in place of u.
"""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from posattn.nn.fast.products import beside, only_once, row_products
from posattn.nn.kernels.exact_products import exact_product
from posattn.nn.kernels.tf32 import rounded

#: Warps that share a tile, by precision and by the tile's rows: the fastest of five on an H200. From three TF32 parts,
#: tiles for more than 32 nodes are slower than the products of `posattn.nn.fast.standard_layer`.
FORWARD: dict[str, dict[int, int]] = {"tf32": {16: 1, 32: 4, 64: 4}, "tf32x3": {16: 1, 32: 2}}
BACKWARD: dict[str, dict[int, int]] = {"tf32": {16: 1, 32: 2, 64: 4}, "tf32x3": {16: 1, 32: 4}}
#: By how much more of its rows a tile of three TF32 parts must use to be taken instead of a smaller one (one sample of
#: nine nodes uses 9 rows of 16, three use 27 of 32). What is rounded or turned is faster in the smallest.
WORTH = 1.3
#: Least width of a state for which products from three TF32 parts pay.
DEEP = 32


@triton.jit
def _tile(tile, total, NODES: tl.constexpr, ROWS: tl.constexpr):
    """Rows of a tile of whole samples: where they lie, which of them exist, their places, and which belong together."""
    used: tl.constexpr = (ROWS // NODES) * NODES
    local = tl.arange(0, ROWS)
    row = tile * used + local
    real = (local < used) & (row < total)
    together = (local[:, None] // NODES == local[None, :] // NODES) & real[None, :]
    return row, real, local % NODES, together


@triton.jit
def _dot(x, y, PRECISION: tl.constexpr):
    """A product of float32: by three TF32 parts of each number, or rounded to TF32."""
    if PRECISION == "tf32":
        return tl.dot(rounded(x, True), rounded(y, True), input_precision="tf32")
    return tl.dot(x, y, input_precision=PRECISION)


@triton.jit
def _weights(query, key, together, PRECISION: tl.constexpr):
    """softmax over the nodes of one's own sample; a row that does not exist gets something finite, read by nobody."""
    logits = tl.where(together, _dot(query, tl.trans(key), PRECISION), -1.0e30)
    weights = tl.exp(logits - tl.max(logits, axis=1)[:, None])
    weights = tl.where(together, weights, 0.0)
    return weights / tl.maximum(tl.sum(weights, axis=1), 1.0e-30)[:, None]


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
def _vector(pointer, count: tl.constexpr, COUNT: tl.constexpr):
    i = tl.arange(0, COUNT)
    return tl.load(pointer + i, mask=i < count, other=0.0)


@triton.jit
def _seen(
    pointer, row, real, stride: tl.constexpr, shift_pointer, place, turns_pointer, count: tl.constexpr,
    NODES: tl.constexpr, COUNT: tl.constexpr, TURNED: tl.constexpr,
):  # fmt: skip
    """Queries or keys of some rows, plus their shift; turned by their place: x[i]·cos + x[i ^ 1]·(± sin)."""
    x = _rows(pointer, row, real, stride, count, COUNT) + _vector(shift_pointer, count, COUNT)[None, :]
    if TURNED:
        i = tl.arange(0, COUNT)
        inside = real[:, None] & (i[None, :] < count)
        other = tl.load(pointer + row[:, None] * stride + (i ^ 1)[None, :], mask=inside, other=0.0)
        other += tl.load(shift_pointer + (i ^ 1), mask=i < count, other=0.0)[None, :]
        at = place[:, None] * count + i[None, :]
        cosine = tl.load(turns_pointer + at, mask=inside, other=0.0)
        sine = tl.load(turns_pointer + NODES * count + at, mask=inside, other=0.0)
        x = x * cosine + other * sine
    return x


@triton.jit
def _turned_back(
    x, place, real, turns_pointer, count: tl.constexpr, NODES: tl.constexpr, COUNT: tl.constexpr, ROWS: tl.constexpr
):  # fmt: skip
    """The gradient of what was turned, from that of what came out."""
    i = tl.arange(0, COUNT)
    inside = real[:, None] & (i[None, :] < count)
    at = place[:, None] * count + i[None, :]
    cosine = tl.load(turns_pointer + at, mask=inside, other=0.0)
    sine = tl.load(turns_pointer + NODES * count + at, mask=inside, other=0.0)
    even, odd = tl.split(tl.reshape(x, (ROWS, COUNT // 2, 2)))
    other = tl.reshape(tl.join(odd, even), (ROWS, COUNT))
    return x * cosine - other * sine


@triton.jit
def _forward(
    u_pointer, moved_pointer, shift_pointer, turns_pointer, z_pointer,
    total, into: tl.constexpr, wide: tl.constexpr, out: tl.constexpr, width: tl.constexpr,
    HEADS: tl.constexpr, NODES: tl.constexpr, TURNED: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, WIDE: tl.constexpr, OUT: tl.constexpr,
):  # fmt: skip
    replica = tl.program_id(1).to(tl.int64)
    row, real, place, together = _tile(tl.program_id(0), total, NODES, ROWS)
    moved_pointer += replica * total * width
    kinds: tl.constexpr = 2 if TURNED else 1
    shift_pointer += replica * (kinds * HEADS * wide + out)
    y_pointer = moved_pointer + kinds * HEADS * wide
    if not TURNED:
        own = _rows(u_pointer + replica * total * into, row, real, into, into, WIDE)
    z = _rows(y_pointer, row, real, width, out, OUT)
    z += _vector(shift_pointer + kinds * HEADS * wide, out, OUT)[None, :]
    for head in range(HEADS):
        query = _seen(
            moved_pointer + head * wide, row, real, width, shift_pointer + head * wide, place, turns_pointer, wide,
            NODES, WIDE, TURNED,
        )  # fmt: skip
        if TURNED:
            key = _seen(
                moved_pointer + (HEADS + head) * wide, row, real, width, shift_pointer + (HEADS + head) * wide,
                place, turns_pointer, wide, NODES, WIDE, True,
            )  # fmt: skip
        else:
            key = own
        value = _rows(y_pointer + (1 + head) * out, row, real, width, out, OUT)
        z += _dot(_weights(query, key, together, PRECISION), value, PRECISION)
    _put(z_pointer + replica * total * out, tl.maximum(z, 0.0, tl.PropagateNan.ALL), row, real, out, out, OUT)


@triton.jit
def _backward(
    u_pointer, moved_pointer, shift_pointer, turns_pointer, z_pointer, dz_pointer, right_pointer, du_pointer,
    sums_pointer,
    total, into: tl.constexpr, wide: tl.constexpr, out: tl.constexpr, width: tl.constexpr,
    HEADS: tl.constexpr, NODES: tl.constexpr, TURNED: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, WIDE: tl.constexpr, OUT: tl.constexpr,
):  # fmt: skip
    """[ds | g | dy], sums of ds and g over the tile's rows, and what the keys add to du (where they are u)."""
    replica = tl.program_id(1).to(tl.int64)
    row, real, place, together = _tile(tl.program_id(0), total, NODES, ROWS)
    moved_pointer += replica * total * width
    right_pointer += replica * total * width
    kinds: tl.constexpr = 2 if TURNED else 1
    shift_pointer += replica * (kinds * HEADS * wide + out)
    sums_pointer += (replica * tl.num_programs(0) + tl.program_id(0)) * (kinds * HEADS * wide + out)
    y_pointer = moved_pointer + kinds * HEADS * wide
    i, j = tl.arange(0, WIDE), tl.arange(0, OUT)
    z = _rows(z_pointer + replica * total * out, row, real, out, out, OUT)
    g = _rows(dz_pointer + replica * total * out, row, real, out, out, OUT)
    g = tl.where(z > 0, g, 0.0)
    _put(right_pointer + kinds * HEADS * wide, g, row, real, width, out, OUT)
    tl.store(sums_pointer + kinds * HEADS * wide + j, tl.sum(g, axis=0), mask=j < out)
    if not TURNED:
        own = _rows(u_pointer + replica * total * into, row, real, into, into, WIDE)
    du = tl.zeros((ROWS, WIDE), tl.float32)
    for head in range(HEADS):
        query = _seen(
            moved_pointer + head * wide, row, real, width, shift_pointer + head * wide, place, turns_pointer, wide,
            NODES, WIDE, TURNED,
        )  # fmt: skip
        if TURNED:
            key = _seen(
                moved_pointer + (HEADS + head) * wide, row, real, width, shift_pointer + (HEADS + head) * wide,
                place, turns_pointer, wide, NODES, WIDE, True,
            )  # fmt: skip
        else:
            key = own
        weights = _weights(query, key, together, PRECISION)
        dy = _dot(tl.trans(weights), g, PRECISION)
        _put(right_pointer + kinds * HEADS * wide + (1 + head) * out, dy, row, real, width, out, OUT)
        value = _rows(y_pointer + (1 + head) * out, row, real, width, out, OUT)
        dweights = _dot(g, tl.trans(value), PRECISION)
        dlogits = weights * (dweights - tl.sum(weights * dweights, axis=1)[:, None])
        ds = _dot(dlogits, key, PRECISION)
        if TURNED:
            ds = _turned_back(ds, place, real, turns_pointer, wide, NODES, WIDE, ROWS)
            dkey = _dot(tl.trans(dlogits), query, PRECISION)
            dkey = _turned_back(dkey, place, real, turns_pointer, wide, NODES, WIDE, ROWS)
            _put(right_pointer + (HEADS + head) * wide, dkey, row, real, width, wide, WIDE)
            tl.store(sums_pointer + (HEADS + head) * wide + i, tl.sum(dkey, axis=0), mask=i < wide)
        else:
            du += _dot(tl.trans(dlogits), query, PRECISION)
        _put(right_pointer + head * wide, ds, row, real, width, wide, WIDE)
        tl.store(sums_pointer + head * wide + i, tl.sum(ds, axis=0), mask=i < wide)
    if not TURNED:
        _put(du_pointer + replica * total * into, du, row, real, into, into, WIDE)


class _Sizes(NamedTuple):
    """What the kernels are told."""

    total: int  # rows of a replica
    into: int
    wide: int  # of a query
    out: int
    width: int  # of all columns
    constants: dict[str, Any]

    def launched(self, launch: dict[str, dict[int, int]]) -> tuple[int, dict[str, Any]]:
        """How many tiles there are, and the constants with what a tile is."""
        nodes, precision = self.constants["NODES"], self.constants["PRECISION"]
        shares = {rows: rows // nodes * nodes / rows for rows in launch[precision] if rows >= nodes}
        rows = min(shares)
        if precision == "tf32x3" and not self.constants["TURNED"]:
            rows = next((larger for larger in shares if shares[larger] > WORTH * shares[rows]), rows)
        how = {"ROWS": rows, "num_warps": launch[precision][rows], "num_stages": 1}
        return triton.cdiv(self.total, rows // nodes * nodes), self.constants | how


class _Layer(torch.autograd.Function):
    """`joined` is [N_1 | … | M₀ | …], `shift` [c_1 | … | b], `turns` cosines and signed sines of every place."""

    @staticmethod
    def forward(ctx, u, joined, shift, turns, heads, out):
        replicas, batch, nodes, into = u.shape
        width = joined.shape[2]
        kinds = 1 if turns is None else 2  # queries, and keys where they are not u
        wide = (width - (1 + heads) * out) // (kinds * heads)
        u, joined, shift = u.contiguous(), joined.contiguous(), shift.contiguous()
        rounds = torch.backends.cuda.matmul.fp32_precision == "tf32"
        rows = u.view(replicas, batch * nodes, into)
        moved = torch.bmm(rows, joined) if rounds or into < DEEP else exact_product(rows, joined.mT)
        z = u.new_empty(replicas, batch, nodes, out)
        constants = {"HEADS": heads, "NODES": nodes, "TURNED": turns is not None}
        constants |= {"PRECISION": "tf32" if rounds else "tf32x3"}
        constants |= {"WIDE": max(16, triton.next_power_of_2(wide)), "OUT": max(16, triton.next_power_of_2(out))}
        sizes = _Sizes(batch * nodes, into, wide, out, width, constants)
        tiles, how = sizes.launched(FORWARD)
        _forward[(tiles, replicas)](u, moved, shift, u if turns is None else turns, z, *sizes[:5], **how)
        ctx.save_for_backward(u, joined, shift, turns, moved, z)
        ctx.sizes = sizes
        return z

    @staticmethod
    def backward(ctx, *grads):
        only_once()
        u, joined, shift, turns, moved, z = ctx.saved_tensors
        sizes, replicas = ctx.sizes, u.shape[0]
        right, du = torch.empty_like(moved), torch.empty_like(u)
        tiles, how = sizes.launched(BACKWARD)
        sums = u.new_empty(replicas, tiles, shift.shape[1])
        _backward[(tiles, replicas)](
            u, moved, shift, u if turns is None else turns, z, grads[0].contiguous(), right, du, sums,
            *sizes[:5], **how,
        )  # fmt: skip
        rows = u.view(replicas, sizes.total, sizes.into)
        if ctx.needs_input_grad[0]:
            rounds = sizes.constants["PRECISION"] == "tf32"
            flat = None if turns is not None else du.view_as(rows)
            if not rounds and sizes.into >= DEEP:
                du = exact_product(right, joined, add_to=flat)
            else:
                du = torch.bmm(right, joined.mT) if flat is None else flat.baddbmm_(right, joined.mT)
        return du.view_as(u), row_products(rows, right), sums.sum(1), None, None, None


def attending_rows(
    u: Float[Tensor, "replicas batch nodes into"],
    n: Float[Tensor, "replicas heads into into"],
    c: Float[Tensor, "replicas heads into"],
    m: Float[Tensor, "replicas mixed into out"],
    b: Float[Tensor, "replicas out"] | None,
) -> Float[Tensor, "replicas batch nodes out"]:
    """relu(u·M₀ + b + Σ_h softmax((u·N_h + c_h)·uᵀ)·u·M_h), sample by sample, in float32."""
    heads, out = n.shape[1], m.shape[3]
    joined = torch.cat([beside(n), beside(m)], dim=2)
    return _Layer.apply(u, joined, torch.cat([c.flatten(1), _bias(b, m)], dim=1), None, heads, out)


def turning_rows(
    u: Float[Tensor, "replicas batch nodes into"],
    query: Float[Tensor, "replicas into wide"],
    query_bias: Float[Tensor, "replicas wide"],
    key: Float[Tensor, "replicas into wide"],
    key_bias: Float[Tensor, "replicas wide"],
    m: Float[Tensor, "replicas mixed into out"],
    b: Float[Tensor, "replicas out"] | None,
    turns: Float[Tensor, "2 nodes width"],
) -> Float[Tensor, "replicas batch nodes out"]:
    """The same with softmax(R(u·Q_h + q_h)·R(u·K_h + k_h)ᵀ), all heads' queries and keys side by side.

    R turns a node by its place: `turns` has the cosine for every place and dimension, and the sine, negative for the
    first dimension of a pair.
    """
    joined = torch.cat([query, key, beside(m)], dim=2)
    shift = torch.cat([query_bias, key_bias, _bias(b, m)], dim=1)
    return _Layer.apply(u, joined, shift, turns.contiguous(), m.shape[1] - 1, m.shape[3])


def _bias(b: Tensor | None, m: Tensor) -> Tensor:
    return m.new_zeros(m.shape[0], m.shape[3]) if b is None else b
