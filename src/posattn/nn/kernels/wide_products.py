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
#: Columns that are on the way at once in a product and in a sum over columns: the fastest on an H200, for the paper's
#: sizes and for more rows than those.
COLUMNS = {32: (256, 64), 128: (64, 64)}


@triton.jit
def _tile(pointer, rows, columns, column, ROWS: tl.constexpr):
    """Some columns of a rows × columns matrix, zero-padded to ROWS rows."""
    row = tl.arange(0, ROWS)
    mask = (row[:, None] < rows) & (column[None, :] < columns)
    return tl.load(pointer + row[:, None] * columns + column[None, :], mask=mask, other=0.0)


@triton.jit
def _slope(dz_pointer, z_pointer, rows, columns, column, ROWS: tl.constexpr, MASKED: tl.constexpr):
    """Some columns of a matrix; where it is the gradient of z = relu(…), of what went into that."""
    dz = _tile(dz_pointer, rows, columns, column, ROWS)
    if MASKED:
        dz = tl.where(_tile(z_pointer, rows, columns, column, ROWS) > 0, dz, 0.0)
    return dz


@triton.jit
def _product(
    a_pointer, y_pointer, bias_pointer, z_pointer, out_pointer, sums_pointer, columns, rows, depth,
    BIAS: tl.constexpr, RELU: tl.constexpr, MASKED: tl.constexpr,
    ROWS: tl.constexpr, DEPTH: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    replica = tl.program_id(1).to(tl.int64)
    row = tl.arange(0, ROWS)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    a = _tile(a_pointer + replica * rows * depth, rows, depth, tl.arange(0, DEPTH), ROWS)
    own = replica * depth * columns
    y = _slope(y_pointer + own, z_pointer + own, depth, columns, column, DEPTH, MASKED)
    if MASKED:
        tl.store(sums_pointer + replica * columns + column, tl.sum(y, axis=0), mask=column < columns)
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
    dz_pointer, z_pointer, y_pointer, out_pointer, columns, rows, others,
    ROWS: tl.constexpr, OTHERS: tl.constexpr, COLUMNS: tl.constexpr, SLICE: tl.constexpr,
):  # fmt: skip
    part, replica = tl.program_id(0), tl.program_id(1).to(tl.int64)
    row, other = tl.arange(0, ROWS), tl.arange(0, OTHERS)
    total = tl.zeros((ROWS, OTHERS), dtype=tl.float32)
    own = replica * rows * columns
    for start in range(0, SLICE, COLUMNS):
        column = part * SLICE + start + tl.arange(0, COLUMNS)
        x = _slope(dz_pointer + own, z_pointer + own, rows, columns, column, ROWS, True)
        y = _tile(y_pointer + replica * others * columns, others, columns, column, OTHERS)
        total += tl.dot(x, tl.trans(y), input_precision="tf32x3")
    out_pointer += (replica * tl.num_programs(0) + part) * rows * others
    tl.store(
        out_pointer + row[:, None] * others + other[None, :],
        total, mask=(row[:, None] < rows) & (other[None, :] < others),
    )  # fmt: skip


def _block(size: int) -> int:
    return max(16, triton.next_power_of_2(size))


def _columns(rows: int, depth: int) -> tuple[int, int]:
    return COLUMNS[min(most for most in COLUMNS if max(rows, depth) <= most)]


def wide_product(
    a: Float[Tensor, "replicas rows depth"],
    y: Float[Tensor, "replicas depth columns"],
    bias: Float[Tensor, "replicas 1 columns"] | None = None,
    *,
    relu: bool = False,
) -> Float[Tensor, "replicas rows columns"]:
    """a·y, plus a bias row, through a ReLU."""
    return _launch(a, y.contiguous(), None if bias is None else bias.contiguous(), relu=relu)


def wide_backward(
    a: Float[Tensor, "replicas rows depth"],
    y: Float[Tensor, "replicas depth columns"],
    z: Float[Tensor, "replicas rows columns"],
    dz: Float[Tensor, "replicas rows columns"],
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of a, y and the bias row from that of z = relu(a·y + bias).

    That of a is summed slice by slice and then over the slices: the same numbers every time.
    """
    replicas, rows, depth = a.shape
    columns = y.shape[2]
    parts = triton.cdiv(columns, SLICE)
    y, z, dz = y.contiguous(), z.contiguous(), dz.contiguous()
    da, sums = y.new_empty(replicas, parts, rows, depth), y.new_empty(replicas, columns)
    dy = _launch(a.mT, dz, z=z, sums=sums)
    _gram[(parts, replicas)](
        dz, z, y, da, columns, rows, depth,
        ROWS=_block(rows), OTHERS=_block(depth), COLUMNS=_columns(rows, depth)[1], SLICE=SLICE, num_warps=4,
    )  # fmt: skip
    return da.sum(1), dy, sums


def _launch(
    a: Tensor,
    y: Tensor,
    bias: Tensor | None = None,
    *,
    relu: bool = False,
    z: Tensor | None = None,
    sums: Tensor | None = None,
) -> Tensor:
    """a·y; with z, y is first made the gradient before the ReLU that gave z, and its column sums are written."""
    replicas, rows, depth = a.shape
    columns = y.shape[2]
    out, a = y.new_empty(replicas, rows, columns), a.contiguous()
    given = (a if tensor is None else tensor for tensor in (bias, z))
    together, _ = _columns(rows, depth)
    _product[(triton.cdiv(columns, together), replicas)](
        a, y, *given, out, out if sums is None else sums, columns, rows, depth,
        BIAS=bias is not None, RELU=relu, MASKED=z is not None,
        ROWS=_block(rows), DEPTH=_block(depth), COLUMNS=together, num_warps=4,
    )  # fmt: skip
    return out
