"""A few rows times a very wide matrix, as a Triton kernel: what mixing the nodes of a whole batch comes to.

cuBLAS tiles its output in both directions and leaves most of a tile empty when there are 9 rows; here a program owns
all rows of some columns, so that every number of the wide matrix is read once. Exact float32.
"""

import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor


@triton.jit
def _kernel(
    a_pointer, y_pointer, bias_pointer, out_pointer, columns, rows,
    DEPTH: tl.constexpr, BIAS: tl.constexpr, RELU: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    replica = tl.program_id(1).to(tl.int64)
    row = tl.arange(0, ROWS)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < columns
    a_pointer += replica * rows * DEPTH + row * DEPTH
    y_pointer += replica * DEPTH * columns + column
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    if BIAS:
        total += tl.load(bias_pointer + replica * columns + column, mask=inside, other=0.0)[None, :]
    for q in range(DEPTH):
        a = tl.load(a_pointer + q, mask=row < rows, other=0.0)
        y = tl.load(y_pointer + q * columns, mask=inside, other=0.0)
        total += a[:, None] * y[None, :]
    if RELU:
        total = tl.maximum(total, 0.0)
    tl.store(
        out_pointer + replica * rows * columns + row[:, None] * columns + column[None, :],
        total, mask=(row[:, None] < rows) & inside[None, :],
    )  # fmt: skip


def wide_product(
    a: Float[Tensor, "replicas rows depth"],
    y: Float[Tensor, "replicas depth columns"],
    bias: Float[Tensor, "replicas 1 columns"] | None = None,
    *,
    relu: bool = False,
) -> Float[Tensor, "replicas rows columns"]:
    """a·y, plus a bias row, through a ReLU; float32."""
    replicas, rows, depth = a.shape
    columns = y.shape[2]
    out = y.new_empty(replicas, rows, columns)
    block = triton.next_power_of_2(rows)
    width = 8192 // block  # 32 sums for each of 256 threads
    a, y = a.contiguous(), y.contiguous()
    held = a if bias is None else bias.contiguous()
    _kernel[(triton.cdiv(columns, width), replicas)](
        a, y, held, out, columns, rows,
        DEPTH=depth, BIAS=bias is not None, RELU=relu, ROWS=block, COLUMNS=width, num_warps=8,
    )  # fmt: skip
    return out
