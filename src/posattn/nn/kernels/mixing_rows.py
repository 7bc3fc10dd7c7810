"""Reading by position, as Triton kernels: Σ_j A[i, j]·v_j within every sample, the same A for all samples of a replica.

The values of all samples and features are the columns of one wide matrix with a row for every node. cuBLAS tiles its
output in both directions and leaves most of a tile empty when there are 9 rows: here a program owns all rows of some
columns. A sample's nodes lie side by side, so columns are far apart in memory, but runs of a head's width are not.
"""

from typing import NamedTuple

import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from posattn.nn.kernels.tf32 import dot, side

#: Columns that one program of `_gram` goes through: enough to keep it busy, few enough to fill the device.
SLICE = 4096


class Launch(NamedTuple):
    """Columns at once, warps that share them and nodes read at once; columns and warps of a sum over columns."""

    columns: int
    warps: int
    depth: int
    summed: int
    summing: int


#: By the rows of a tile: the fastest of those tried on an H200.
LAUNCH = {
    16: Launch(128, 2, 16, 128, 1),
    32: Launch(64, 2, 16, 64, 1),
    64: Launch(64, 2, 16, 64, 4),
    128: Launch(64, 8, 16, 64, 8),
}


@triton.jit
def _mix(
    a_pointer, v_pointer, read_pointer, columns, v_stride, read_stride,
    READER: tl.constexpr, NODE: tl.constexpr, nodes: tl.constexpr, width: tl.constexpr, EXACT: tl.constexpr,
    NODES: tl.constexpr, DEPTH: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """READER and NODE are the strides of A: exchanged, nodes read by Aᵀ."""
    head, replica = tl.program_id(1), tl.program_id(2).to(tl.int64)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    sample, feature, inside = column // width, column % width, column < columns
    reader = tl.arange(0, NODES)
    rows = replica * (columns // width) * nodes
    a_pointer += (replica * tl.num_programs(1) + head) * nodes * nodes
    v_pointer += rows * v_stride + head * width
    read_pointer += rows * read_stride + head * width
    total = tl.zeros((NODES, COLUMNS), tl.float32)
    for start in range(0, nodes, DEPTH):
        node = start + tl.arange(0, DEPTH)
        real = (reader[:, None] < nodes) & (node[None, :] < nodes)
        a = tl.load(a_pointer + reader[:, None] * READER + node[None, :] * NODE, mask=real, other=0.0)
        at = (sample * nodes * v_stride + feature)[None, :] + node[:, None] * v_stride
        v = tl.load(v_pointer + at, mask=(node[:, None] < nodes) & inside[None, :], other=0.0)
        total = dot(a, v, total, EXACT)
    to = (sample * nodes * read_stride + feature)[None, :] + reader[:, None] * read_stride
    tl.store(read_pointer + to, total, mask=(reader[:, None] < nodes) & inside[None, :])


@triton.jit
def _gram(
    dread_pointer, v_pointer, out_pointer, columns, dread_stride, v_stride,
    nodes: tl.constexpr, width: tl.constexpr, EXACT: tl.constexpr,
    NODES: tl.constexpr, COLUMNS: tl.constexpr, SLICE: tl.constexpr,
):  # fmt: skip
    """Σ over some columns of dread·vᵀ: their part of A's gradient."""
    part, head, replica = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    node = tl.arange(0, NODES)
    rows = replica * (columns // width) * nodes
    dread_pointer += rows * dread_stride + head * width
    v_pointer += rows * v_stride + head * width
    total = tl.zeros((NODES, NODES), tl.float32)
    for start in range(0, SLICE, COLUMNS):
        column = part * SLICE + start + tl.arange(0, COLUMNS)
        real = (node[:, None] < nodes) & (column < columns)[None, :]
        sample, feature = (column // width * nodes)[None, :], (column % width)[None, :]
        x = tl.load(dread_pointer + (sample + node[:, None]) * dread_stride + feature, mask=real, other=0.0)
        v = tl.load(v_pointer + (sample + node[:, None]) * v_stride + feature, mask=real, other=0.0)
        total = dot(x, tl.trans(v), total, EXACT)
    out_pointer += ((replica * tl.num_programs(0) + part) * tl.num_programs(1) + head) * nodes * nodes
    real = (node[:, None] < nodes) & (node[None, :] < nodes)
    tl.store(out_pointer + node[:, None] * nodes + node[None, :], total, mask=real)


def mix(
    attention: Float[Tensor, "replicas heads nodes nodes"],
    values: Float[Tensor, "replicas rows heads_of_values"],
    read: Float[Tensor, "replicas rows heads_of_values"],
    *,
    exact: bool,
    backward: bool = False,
) -> None:
    """Fill `read` with A_h·v_h, or A_hᵀ·v_h; the rows are the nodes of sample after sample."""
    replicas, heads, nodes, _ = attention.shape
    width = values.shape[2] // heads
    columns = values.shape[1] // nodes * width
    tile = side(nodes)
    how = LAUNCH[tile]
    reader, node = (1, nodes) if backward else (nodes, 1)
    _mix[(triton.cdiv(columns, how.columns), heads, replicas)](
        attention.contiguous(), values, read, columns, values.stride(1), read.stride(1),
        READER=reader, NODE=node, nodes=nodes, width=width, EXACT=exact,
        NODES=tile, DEPTH=how.depth, COLUMNS=how.columns, num_warps=how.warps, num_stages=1,
    )  # fmt: skip


def mixing_gradient(
    dread: Float[Tensor, "replicas rows heads_of_values"],
    values: Float[Tensor, "replicas rows heads_of_values"],
    *,
    heads: int,
    nodes: int,
    exact: bool,
) -> Float[Tensor, "replicas heads nodes nodes"]:
    """The gradient of A. It is summed slice by slice and then over the slices: the same numbers every time."""
    replicas, rows, every = dread.shape
    width = every // heads
    columns = rows // nodes * width
    parts = triton.cdiv(columns, SLICE)
    tile = side(nodes)
    how = LAUNCH[tile]
    out = dread.new_empty(replicas, parts, heads, nodes, nodes)
    _gram[(parts, heads, replicas)](
        dread, values, out, columns, dread.stride(1), values.stride(1), nodes=nodes, width=width, EXACT=exact,
        NODES=tile, COLUMNS=how.summed, SLICE=SLICE, num_warps=how.summing, num_stages=1,
    )  # fmt: skip
    return out.sum(1)
