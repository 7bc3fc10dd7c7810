"""Triton kernels of the expanded positional layer: W = Σ_g A_gᵀ ⊗ M_g in one pass, its gradients in one, and
the ReLU, forward with its bias and backward with its sums.

W is (nodes·into) × (nodes·out), n² blocks of into × out; block (j, i) is Σ_g A_g[i, j]·M_g.
"""

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

#: Rows of M that one program of the backward pass sums up.
ROWS = 16
#: Samples whose gradients one program of `relu_slope` sums up.
SPAN = 128


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
def _bias_relu(z_pointer, bias_pointer, out, total, BLOCK: tl.constexpr):
    replica = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    bias = tl.load(bias_pointer + replica * out + at % out, mask=inside)
    z = tl.load(z_pointer + replica * total + at, mask=inside)
    tl.store(z_pointer + replica * total + at, tl.maximum(z + bias.to(z.dtype), 0.0, tl.PropagateNan.ALL), mask=inside)


@triton.jit
def _relu_slope(
    dz_pointer, z_pointer, g_pointer, sums_pointer, rows, columns,
    SPAN: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The gradient before a ReLU, for some columns and a span of rows, and its sum over these rows."""
    replica = tl.program_id(2).to(tl.int64)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    own = replica * rows * columns
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, SPAN, ROWS):
        row = tl.program_id(1) * SPAN + start + tl.arange(0, ROWS)
        inside = (row[:, None] < rows) & (column[None, :] < columns)
        at = own + row[:, None] * columns + column[None, :]
        z = tl.load(z_pointer + at, mask=inside, other=0.0)
        g = tl.where(z > 0, tl.load(dz_pointer + at, mask=inside, other=0.0), 0.0)
        tl.store(g_pointer + at, g, mask=inside)
        total += g.to(tl.float32)
    to = (replica * tl.num_programs(1) + tl.program_id(1)) * columns + column
    tl.store(sums_pointer + to, tl.sum(total, axis=0), mask=column < columns)


def bias_relu_(
    z: Float[Tensor, "replicas batch columns"], bias: Float[Tensor, "replicas out"]
) -> Float[Tensor, "replicas batch columns"]:
    """relu(z + bias) in the place of z, the bias repeated over the columns: one pass instead of three."""
    replicas, batch, columns = z.shape
    block = 2048
    grid = (triton.cdiv(batch * columns, block), replicas)
    _bias_relu[grid](z, bias.contiguous(), bias.shape[1], batch * columns, BLOCK=block, num_warps=4)
    return z


def relu_slope(
    dz: Float[Tensor, "replicas batch columns"], z: Float[Tensor, "replicas batch columns"]
) -> tuple[Float[Tensor, "replicas batch columns"], Float[Tensor, "replicas columns"]]:
    """The gradient of what went into z = relu(…), and its sum over the batch in float32: one pass instead of two."""
    replicas, batch, columns = z.shape
    g = torch.empty_like(z, memory_format=torch.contiguous_format)
    parts = triton.cdiv(batch, SPAN)
    sums = z.new_empty(replicas, parts, columns, dtype=torch.float32)
    _relu_slope[(triton.cdiv(columns, 128), parts, replicas)](
        dz.contiguous(), z.contiguous(), g, sums, batch, columns, SPAN=SPAN, ROWS=16, COLUMNS=128, num_warps=4
    )
    return g, sums.sum(1)


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
