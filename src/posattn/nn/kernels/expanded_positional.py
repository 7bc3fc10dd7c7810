"""Triton kernels of the expanded positional layer: W = Σ_g A_gᵀ ⊗ M_g in one pass, its gradients in one, and b + ReLU.

W is (nodes·into) × (nodes·out), n² blocks of into × out; block (j, i) is Σ_g A_g[i, j]·M_g.
"""

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

#: Rows of M that one program of the backward pass sums up.
ROWS = 16


@triton.jit
def _block(nodes: tl.constexpr, into: tl.constexpr, out, start, j, i, ROWS: tl.constexpr, OUT: tl.constexpr):
    """Where rows start … of block (j, i) lie in W, and where in M; which of them exist."""
    k, f = start + tl.arange(0, ROWS), tl.arange(0, OUT)
    in_w = (j * into + k[:, None]) * (nodes * out) + i * out + f[None, :]
    return in_w, k[:, None] * out + f[None, :], (k[:, None] < into) & (f[None, :] < out)


@triton.jit
def _expand(
    a_pointer, m_pointer, w_pointer, out,
    NODES: tl.constexpr, INTO: tl.constexpr, MIXED: tl.constexpr, ROWS: tl.constexpr, OUT: tl.constexpr,
):  # fmt: skip
    pair, replica = tl.program_id(0), tl.program_id(1).to(tl.int64)
    j, i = pair // NODES, pair % NODES
    for start in range(0, INTO, ROWS):
        in_w, in_m, exists = _block(NODES, INTO, out, start, j, i, ROWS, OUT)
        total = tl.zeros((ROWS, OUT), dtype=tl.float32)
        for g in tl.static_range(MIXED):
            scale = tl.load(a_pointer + ((replica * MIXED + g) * NODES + i) * NODES + j)
            total += scale * tl.load(m_pointer + (replica * MIXED + g) * INTO * out + in_m, mask=exists, other=0.0)
        tl.store(w_pointer + replica * NODES * INTO * NODES * out + in_w, total, mask=exists)


@triton.jit
def _collect(
    a_pointer, m_pointer, dw_pointer, da_pointer, dm_pointer, out,
    NODES: tl.constexpr, INTO: tl.constexpr, MIXED: tl.constexpr, ROWS: tl.constexpr, OUT: tl.constexpr,
):  # fmt: skip
    """dM_g = Σ_ij A_g[i, j]·dW(j, i) for some rows, and those rows' part of dA_g[i, j] = ⟨M_g, dW(j, i)⟩."""
    part, g, replica = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    first, in_m, exists = _block(NODES, INTO, out, part * ROWS, 0, 0, ROWS, OUT)
    at = (replica * MIXED + g) * INTO * out
    m = tl.load(m_pointer + at + in_m, mask=exists, other=0.0)
    dm = tl.zeros((ROWS, OUT), dtype=tl.float32)
    for pair in range(NODES * NODES):
        j, i = pair // NODES, pair % NODES
        in_w = first + j * INTO * NODES * out + i * out
        dw = tl.load(dw_pointer + replica * NODES * INTO * NODES * out + in_w, mask=exists, other=0.0)
        dm += tl.load(a_pointer + ((replica * MIXED + g) * NODES + i) * NODES + j) * dw
        to = ((replica * tl.num_programs(0) + part) * MIXED + g) * NODES * NODES + i * NODES + j
        tl.store(da_pointer + to, tl.sum(m * dw))
    tl.store(dm_pointer + at + in_m, dm, mask=exists)


@triton.jit
def _bias_relu(z_pointer, bias_pointer, columns, total, BLOCK: tl.constexpr):
    replica = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    bias = tl.load(bias_pointer + replica * columns + at % columns, mask=inside)
    z = tl.load(z_pointer + replica * total + at, mask=inside)
    tl.store(z_pointer + replica * total + at, tl.maximum(z + bias.to(z.dtype), 0.0, tl.PropagateNan.ALL), mask=inside)


def bias_relu_(
    z: Float[Tensor, "replicas batch columns"], bias: Float[Tensor, "replicas columns"]
) -> Float[Tensor, "replicas batch columns"]:
    """relu(z + bias) in the place of z: one pass instead of three."""
    replicas, batch, columns = z.shape
    block = 2048
    grid = (triton.cdiv(batch * columns, block), replicas)
    _bias_relu[grid](z, bias.contiguous(), columns, batch * columns, BLOCK=block, num_warps=4)
    return z


def expand(
    attention: Float[Tensor, "replicas mixed nodes nodes"], matrices: Float[Tensor, "replicas mixed into out"]
) -> Float[Tensor, "replicas nodes_into nodes_out"]:
    """W = Σ_g A_gᵀ ⊗ M_g."""
    replicas, mixed, into, out = matrices.shape
    nodes = attention.shape[-1]
    w = matrices.new_empty(replicas, nodes * into, nodes * out)
    width = triton.next_power_of_2(out)
    _expand[(nodes * nodes, replicas)](
        attention.contiguous(), matrices.contiguous(), w, out,
        NODES=nodes, INTO=into, MIXED=mixed, ROWS=ROWS, OUT=width, num_warps=4,
    )  # fmt: skip
    return w


def collect(
    attention: Float[Tensor, "replicas mixed nodes nodes"],
    matrices: Float[Tensor, "replicas mixed into out"],
    dw: Float[Tensor, "replicas nodes_into nodes_out"],
) -> tuple[Tensor, Tensor]:
    """The gradients of A and M from that of W, which is read once for every g."""
    replicas, mixed, into, out = matrices.shape
    nodes = attention.shape[-1]
    parts = triton.cdiv(into, ROWS)
    da = attention.new_empty(replicas, parts, mixed, nodes, nodes)
    dm = torch.empty_like(matrices, memory_format=torch.contiguous_format)
    width = triton.next_power_of_2(out)
    _collect[(parts, mixed, replicas)](
        attention.contiguous(), matrices.contiguous(), dw.contiguous(), da, dm, out,
        NODES=nodes, INTO=into, MIXED=mixed, ROWS=ROWS, OUT=width, num_warps=4,
    )  # fmt: skip
    return da.sum(1), dm
