"""One standard layer between two ReLUs as one Triton kernel, forward and backward, for NVIDIA GPUs.

    z = relu(u·M₀ + b + Σ_h softmax((u·N_h + c_h)·uᵀ)·u·M_h)          (see `posattn.nn.standard`)

A sample has few nodes (9 at the paper's size), a tensor core wants 64 rows. So a tile holds as many whole samples as
fit, all products are 64 wide, and a mask that is block-diagonal in samples keeps them apart: more arithmetic than the
formula needs, on units that have it to spare, and every activation is read and written once. The backward kernel
computes the tile again instead of storing it, and leaves the gradients of the matrices to one batched product.
"""

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from posattn.nn.fast.products import only_once
from posattn.nn.kernels.tf32 import rounded

#: Rows of a tile: at least the number of nodes, and what one tensor-core product wants.
ROWS = 64
#: Warps that share a tile. Eight end in an illegal memory access on an H200 under Triton 3.6; two were not timed.
FORWARD_WARPS = 4
BACKWARD_WARPS = 4


@triton.jit
def _tile(tile, total, NODES: tl.constexpr, ROWS: tl.constexpr):
    """Rows of a tile of whole samples: where they lie, which of them exist, and which belong together."""
    used: tl.constexpr = (ROWS // NODES) * NODES
    local = tl.arange(0, ROWS)
    row = tile * used + local
    real = (local < used) & (row < total)
    sample = local // NODES
    together = (sample[:, None] == sample[None, :]) & real[None, :]
    return row, real, together


@triton.jit
def _softmax(logits, together):
    """Over the nodes of one's own sample; a row that does not exist gets something finite, which nobody reads."""
    logits = tl.where(together, logits, -1.0e30)
    weights = tl.exp(logits - tl.max(logits, axis=1)[:, None])
    weights = tl.where(together, weights, 0.0)
    return weights / tl.maximum(tl.sum(weights, axis=1), 1.0e-30)[:, None]


@triton.jit
def _matrix(pointer, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A rows × columns matrix, zero-padded to a tile."""
    i, j = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    return tl.load(
        pointer + i[:, None] * columns + j[None, :], mask=(i[:, None] < rows) & (j[None, :] < columns), other=0.0
    )


@triton.jit
def _operand(x, like, ROUND: tl.constexpr):
    """x as a product takes it: in the state's dtype, float32 rounded to TF32."""
    return rounded(x.to(like.dtype), ROUND)


@triton.jit
def _forward(
    u_pointer, n_pointer, c_pointer, m_pointer, b_pointer, z_pointer,
    total, into, out,
    HEADS: tl.constexpr, NODES: tl.constexpr, ROWS: tl.constexpr, INTO: tl.constexpr, OUT: tl.constexpr,
    ROUND: tl.constexpr,
):  # fmt: skip
    tile, replica = tl.program_id(0), tl.program_id(1).to(tl.int64)
    row, real, together = _tile(tile, total, NODES, ROWS)
    i, j = tl.arange(0, INTO), tl.arange(0, OUT)
    u = tl.load(
        u_pointer + replica * total * into + row[:, None] * into + i[None, :],
        mask=real[:, None] & (i[None, :] < into), other=0.0,
    )  # fmt: skip
    u = _operand(u, u, ROUND)
    m_pointer += replica * (1 + HEADS) * into * out
    n_pointer += replica * HEADS * into * into
    z = tl.dot(u, _operand(_matrix(m_pointer, into, out, INTO, OUT), u, ROUND))
    z += tl.load(b_pointer + replica * out + j, mask=j < out, other=0.0)[None, :]
    for head in tl.static_range(HEADS):
        n = _operand(_matrix(n_pointer + head * into * into, into, into, INTO, INTO), u, ROUND)
        m = _operand(_matrix(m_pointer + (1 + head) * into * out, into, out, INTO, OUT), u, ROUND)
        c = tl.load(c_pointer + (replica * HEADS + head) * into + i, mask=i < into, other=0.0)
        s = _operand(tl.dot(u, n) + c[None, :], u, ROUND)
        weights = _softmax(tl.dot(s, tl.trans(u)), together)
        z += tl.dot(_operand(weights, u, ROUND), _operand(tl.dot(u, m), u, ROUND))
    tl.store(
        z_pointer + replica * total * out + row[:, None] * out + j[None, :],
        tl.maximum(z, 0.0, tl.PropagateNan.ALL).to(u.dtype), mask=real[:, None] & (j[None, :] < out),
    )  # fmt: skip


@triton.jit
def _backward(
    u_pointer, n_pointer, c_pointer, m_pointer, z_pointer, dz_pointer, du_pointer, right_pointer,
    total, into, out,
    HEADS: tl.constexpr, NODES: tl.constexpr, ROWS: tl.constexpr, INTO: tl.constexpr, OUT: tl.constexpr,
    ROUND: tl.constexpr,
):  # fmt: skip
    """du, and beside it `right` = [g | dy_h … | ds_h …]: uᵀ·right are the gradients of all matrices."""
    tile, replica = tl.program_id(0), tl.program_id(1).to(tl.int64)
    row, real, together = _tile(tile, total, NODES, ROWS)
    i, j = tl.arange(0, INTO), tl.arange(0, OUT)
    mask_in, mask_out = real[:, None] & (i[None, :] < into), real[:, None] & (j[None, :] < out)
    u = tl.load(u_pointer + replica * total * into + row[:, None] * into + i[None, :], mask=mask_in, other=0.0)
    u = _operand(u, u, ROUND)
    at_out = replica * total * out + row[:, None] * out + j[None, :]
    z = tl.load(z_pointer + at_out, mask=mask_out, other=0.0)
    g = tl.load(dz_pointer + at_out, mask=mask_out, other=0.0)
    g = tl.where(z > 0, g, 0.0)
    width = (1 + HEADS) * out + HEADS * into
    right_pointer += replica * total * width + row[:, None] * width
    tl.store(right_pointer + j[None, :], g, mask=mask_out)
    g = _operand(g, u, ROUND)
    m_pointer += replica * (1 + HEADS) * into * out
    n_pointer += replica * HEADS * into * into
    du = tl.dot(g, tl.trans(_operand(_matrix(m_pointer, into, out, INTO, OUT), u, ROUND)))
    for head in tl.static_range(HEADS):
        n = _operand(_matrix(n_pointer + head * into * into, into, into, INTO, INTO), u, ROUND)
        m = _operand(_matrix(m_pointer + (1 + head) * into * out, into, out, INTO, OUT), u, ROUND)
        c = tl.load(c_pointer + (replica * HEADS + head) * into + i, mask=i < into, other=0.0)
        s = _operand(tl.dot(u, n) + c[None, :], u, ROUND)
        weights = _softmax(tl.dot(s, tl.trans(u)), together)
        dy = tl.dot(tl.trans(_operand(weights, u, ROUND)), g)
        dweights = tl.dot(g, tl.trans(_operand(tl.dot(u, m), u, ROUND)))
        dlogits = _operand(weights * (dweights - tl.sum(weights * dweights, axis=1)[:, None]), u, ROUND)
        ds = tl.dot(dlogits, u)
        du += tl.dot(tl.trans(dlogits), s)
        du += tl.dot(_operand(ds, u, ROUND), tl.trans(n))
        du += tl.dot(_operand(dy, u, ROUND), tl.trans(m))
        tl.store(right_pointer + (1 + head) * out + j[None, :], dy.to(u.dtype), mask=mask_out)
        tl.store(right_pointer + (1 + HEADS) * out + head * into + i[None, :], ds.to(u.dtype), mask=mask_in)
    tl.store(du_pointer + replica * total * into + row[:, None] * into + i[None, :], du.to(u.dtype), mask=mask_in)


def _blocks(into: int, out: int, dtype: torch.dtype) -> dict[str, int]:
    """Widths of the tiles.

    Half precision comes out wrong on an H200 under Triton 3.6 where a tile is wider going in than coming out. There,
    tiles are as narrow or as wide as can be, in the three pairs that were found right: 16 and 16, 16 and 64, 64 and 64.
    """
    if dtype == torch.float32:
        return {"INTO": max(16, triton.next_power_of_2(into)), "OUT": max(16, triton.next_power_of_2(out))}
    return {"INTO": 16 if into <= 16 else 64, "OUT": 16 if max(into, out) <= 16 else 64}


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, u, n, c, m, b):
        replicas, batch, nodes, into = u.shape
        heads, out = n.shape[1], m.shape[3]
        total = batch * nodes
        u = u.contiguous()
        n, c, m, b = (tensor.contiguous().float() for tensor in (n, c, m, b))
        z = u.new_empty(replicas, batch, nodes, out)
        tiles = triton.cdiv(total, ROWS // nodes * nodes)
        sizes = {"HEADS": heads, "NODES": nodes, "ROWS": ROWS, **_blocks(into, out, u.dtype)}
        sizes["ROUND"] = u.is_cuda and u.dtype == torch.float32
        _forward[(tiles, replicas)](u, n, c, m, b, z, total, into, out, **sizes, num_warps=FORWARD_WARPS)
        ctx.save_for_backward(u, n, c, m, z)
        ctx.sizes = sizes
        return z

    @staticmethod
    def backward(ctx, *grads):
        only_once()
        (dz,) = grads
        u, n, c, m, z = ctx.saved_tensors
        sizes = ctx.sizes
        replicas, batch, nodes, into = u.shape
        heads, out = n.shape[1], m.shape[3]
        total = batch * nodes
        width = (1 + heads) * out + heads * into
        du = torch.empty_like(u)
        right = u.new_empty(replicas, total, width)
        tiles = triton.cdiv(total, ROWS // nodes * nodes)
        _backward[(tiles, replicas)](
            u, n, c, m, z, dz.contiguous(), du, right, total, into, out, **sizes, num_warps=BACKWARD_WARPS
        )
        products = torch.bmm(u.view(replicas, total, into).mT, right).float()
        sums = right.sum(1, dtype=torch.float32)
        split = (1 + heads) * out
        dm = products[:, :, :split].unflatten(2, (1 + heads, out)).transpose(1, 2)
        dn = products[:, :, split:].unflatten(2, (heads, into)).transpose(1, 2)
        return du, dn, sums[:, split:].unflatten(1, (heads, into)), dm, sums[:, :out]


def standard_layer(
    u: Float[Tensor, "replicas batch nodes into"],
    n: Float[Tensor, "replicas heads into into"],
    c: Float[Tensor, "replicas heads into"],
    m: Float[Tensor, "replicas mixed into out"],
    b: Float[Tensor, "replicas out"] | None,
) -> Float[Tensor, "replicas batch nodes out"]:
    """relu(u·M₀ + b + Σ_h softmax((u·N_h + c_h)·uᵀ)·u·M_h), sample by sample.

    Products are rounded to TF32, or to bfloat16 when u is; sums and softmax are float32.
    """
    return _Layer.apply(u, n, c, m, m.new_zeros(m.shape[0], m.shape[3]) if b is None else b)
