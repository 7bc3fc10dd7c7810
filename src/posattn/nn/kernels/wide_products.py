"""Products of small matrices with very wide ones, as Triton kernels: what mixing the nodes of a whole batch comes to.

cuBLAS tiles its output in both directions and leaves most of a tile empty when there are 9 rows. Here a program owns
all rows of some columns, so that every number of the wide matrix is read once. The arithmetic is that of float32:
tensor cores multiply three TF32 parts of each number and add them up.
"""

import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

#: Columns that one program of `_gram` goes through: enough to keep it busy, few enough to fill the device.
SLICE = 4096
#: Columns that are on the way at once.
COLUMNS = 128


@triton.jit
def _tile(pointer, rows, columns, column, ROWS: tl.constexpr):
    """Some columns of a rows × columns matrix, zero-padded to ROWS rows."""
    row = tl.arange(0, ROWS)
    mask = (row[:, None] < rows) & (column[None, :] < columns)
    return tl.load(pointer + row[:, None] * columns + column[None, :], mask=mask, other=0.0)


@triton.jit
def _product(
    a_pointer, y_pointer, bias_pointer, out_pointer, columns, rows, depth,
    BIAS: tl.constexpr, RELU: tl.constexpr, ROWS: tl.constexpr, DEPTH: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    replica = tl.program_id(1).to(tl.int64)
    row = tl.arange(0, ROWS)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    a = _tile(a_pointer + replica * rows * depth, rows, depth, tl.arange(0, DEPTH), ROWS)
    y = _tile(y_pointer + replica * depth * columns, depth, columns, column, DEPTH)
    total = tl.dot(a, y, input_precision="tf32x3")
    if BIAS:
        total += tl.load(bias_pointer + replica * columns + column, mask=column < columns, other=0.0)[None, :]
    if RELU:
        total = tl.maximum(total, 0.0, tl.PropagateNan.ALL)
    tl.store(
        out_pointer + replica * rows * columns + row[:, None] * columns + column[None, :],
        total, mask=(row[:, None] < rows) & (column[None, :] < columns),
    )  # fmt: skip


@triton.jit
def _gram(
    x_pointer, y_pointer, out_pointer, columns, rows, others,
    ROWS: tl.constexpr, OTHERS: tl.constexpr, COLUMNS: tl.constexpr, SLICE: tl.constexpr,
):  # fmt: skip
    part, replica = tl.program_id(0), tl.program_id(1).to(tl.int64)
    row, other = tl.arange(0, ROWS), tl.arange(0, OTHERS)
    total = tl.zeros((ROWS, OTHERS), dtype=tl.float32)
    for start in range(0, SLICE, COLUMNS):
        column = part * SLICE + start + tl.arange(0, COLUMNS)
        x = _tile(x_pointer + replica * rows * columns, rows, columns, column, ROWS)
        y = _tile(y_pointer + replica * others * columns, others, columns, column, OTHERS)
        total += tl.dot(x, tl.trans(y), input_precision="tf32x3")
    out_pointer += (replica * tl.num_programs(0) + part) * rows * others
    tl.store(
        out_pointer + row[:, None] * others + other[None, :],
        total, mask=(row[:, None] < rows) & (other[None, :] < others),
    )  # fmt: skip


def _block(size: int) -> int:
    return max(16, triton.next_power_of_2(size))


def wide_product(
    a: Float[Tensor, "replicas rows depth"],
    y: Float[Tensor, "replicas depth columns"],
    bias: Float[Tensor, "replicas 1 columns"] | None = None,
    *,
    relu: bool = False,
) -> Float[Tensor, "replicas rows columns"]:
    """a·y, plus a bias row, through a ReLU."""
    replicas, rows, depth = a.shape
    columns = y.shape[2]
    out = y.new_empty(replicas, rows, columns)
    a, y = a.contiguous(), y.contiguous()
    held = a if bias is None else bias.contiguous()
    _product[(triton.cdiv(columns, COLUMNS), replicas)](
        a, y, held, out, columns, rows, depth,
        BIAS=bias is not None, RELU=relu, ROWS=_block(rows), DEPTH=_block(depth), COLUMNS=COLUMNS, num_warps=4,
    )  # fmt: skip
    return out


def wide_gram(
    x: Float[Tensor, "replicas rows columns"], y: Float[Tensor, "replicas others columns"]
) -> Float[Tensor, "replicas rows others"]:
    """x·yᵀ, summed slice by slice and then over the slices: the same numbers every time."""
    replicas, rows, columns = x.shape
    others = y.shape[1]
    parts = triton.cdiv(columns, SLICE)
    out = x.new_empty(replicas, parts, rows, others)
    _gram[(parts, replicas)](
        x.contiguous(), y.contiguous(), out, columns, rows, others,
        ROWS=_block(rows), OTHERS=_block(others), COLUMNS=COLUMNS, SLICE=SLICE, num_warps=4,
    )  # fmt: skip
    return out.sum(1)
