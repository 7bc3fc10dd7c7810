"""Linear maps of many rows on tensor cores, as Triton kernels, with what comes before and after them in a layer.

    relu(x·W + own + b)        what a layer's nodes have read, beside what they know themselves
    (dz where z > 0)·W         the gradient of what went into z = relu(…), on its way through a map

cuBLAS needs passes of their own for all but the products, and multiplies float32 on ordinary cores. Here the maps are
small and the rows are many, so memory is near: a program keeps its columns of W and goes through rows. The gradient of
a map, xᵀ·y over all rows, stays cuBLAS's: what tensor cores want side by side lies far apart in both factors.
"""

from typing import NamedTuple

import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from posattn.nn.kernels.tf32 import dot, side


class Launch(NamedTuple):
    """Rows, depth and columns that a program takes at once, the warps that share them, and loads under way."""

    rows: int
    depth: int
    columns: int
    warps: int
    stages: int


#: The fastest of those tried on an H200, for maps that are no deeper than the first takes at once, and for others.
SHALLOW, DEEP = Launch(64, 64, 64, 4, 1), Launch(128, 32, 64, 8, 3)
#: Programs that keep a large GPU busy: where there are more tiles, each takes several, a power of two.
PROGRAMS, MOST_TILES = 1056, 16


@triton.jit
def _map(
    x_pointer, z_pointer, w_pointer, own_pointer, bias_pointer, y_pointer, g_pointer, sums_pointer,
    rows, columns, x_stride, own_stride, y_stride, g_stride, w_replica, w_deep, w_across,
    depth: tl.constexpr, OWN: tl.constexpr, BIAS: tl.constexpr, RELU: tl.constexpr, SLOPE: tl.constexpr,
    TILES: tl.constexpr, EXACT: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """y = x·W, plus OWN blocks. With SLOPE, x is first masked by z, written to g, and summed tile by tile."""
    across = tl.cdiv(columns, COLUMNS)
    replica = tl.program_id(1).to(tl.int64)
    part = tl.program_id(0) % across
    column, k = part * COLUMNS + tl.arange(0, COLUMNS), tl.arange(0, DEPTH)
    first = tl.program_id(0) // across * TILES
    every = tl.cdiv(rows, ROWS)
    x_pointer += replica * rows * x_stride
    z_pointer += replica * rows * depth
    g_pointer += replica * rows * g_stride
    w_pointer += replica * w_replica + column[None, :] * w_across
    if depth <= DEPTH:
        held = (k[:, None] < depth) & (column[None, :] < columns)
        w = tl.load(w_pointer + k[:, None] * w_deep, mask=held, other=0.0)
    for following in tl.range(0, TILES, num_stages=STAGES):
        tile = first + following
        row = tile * ROWS + tl.arange(0, ROWS)
        total = tl.zeros((ROWS, COLUMNS), tl.float32)
        for start in tl.range(0, depth, DEPTH, num_stages=STAGES):
            d = start + k
            inside = (row[:, None] < rows) & (d[None, :] < depth)
            x = tl.load(x_pointer + row[:, None] * x_stride + d[None, :], mask=inside, other=0.0)
            if SLOPE:
                z = tl.load(z_pointer + row[:, None] * depth + d[None, :], mask=inside, other=0.0)
                x = tl.where(z <= 0, 0.0, x)  # NaN goes through
                if part == 0:
                    tl.store(g_pointer + row[:, None] * g_stride + d[None, :], x, mask=inside)
                    to = sums_pointer + (replica * every + tile) * depth + d
                    tl.store(to, tl.sum(x, axis=0), mask=(d < depth) & (tile < every))
            if depth > DEPTH:
                held = (d[:, None] < depth) & (column[None, :] < columns)
                w = tl.load(w_pointer + d[:, None] * w_deep, mask=held, other=0.0)
            total = dot(x, w, total, EXACT)
        real = (row[:, None] < rows) & (column[None, :] < columns)
        for block in tl.static_range(OWN):
            at = replica * rows * own_stride + row[:, None] * own_stride + block * columns + column[None, :]
            total += tl.load(own_pointer + at, mask=real, other=0.0)
        if BIAS:
            total += tl.load(bias_pointer + replica * columns + column, mask=column < columns, other=0.0)[None, :]
        if RELU:
            total = tl.maximum(total, 0.0, tl.PropagateNan.ALL)
        tl.store(y_pointer + replica * rows * y_stride + row[:, None] * y_stride + column[None, :], total, mask=real)


def map_rows(
    x: Float[Tensor, "replicas rows depth"],
    w: Float[Tensor, "replicas depth columns"],
    *,
    exact: bool,
    own: Float[Tensor, "replicas rows blocks_of_columns"] | None = None,
    bias: Float[Tensor, "replicas columns"] | None = None,
    relu: bool = False,
) -> Float[Tensor, "replicas rows columns"]:
    """x·W, plus every block of columns of `own`, plus a bias, through a ReLU."""
    y = x.new_empty(*x.shape[:2], w.shape[2])
    _launch(x, w, y, exact=exact, own=own, bias=bias, relu=relu)
    return y


def slope_rows(
    dz: Float[Tensor, "replicas rows depth"],
    z: Float[Tensor, "replicas rows depth"],
    w: Float[Tensor, "replicas depth columns"],
    g: Float[Tensor, "replicas rows depth"],
    *,
    exact: bool,
) -> tuple[Float[Tensor, "replicas rows columns"], Float[Tensor, "replicas depth"]]:
    """g·W and the sum of g over all rows, where g, which is written, is dz where z > 0 and 0 elsewhere."""
    y = dz.new_empty(*dz.shape[:2], w.shape[2])
    sums = _launch(dz.contiguous(), w, y, exact=exact, slope=(z.contiguous(), g))
    return y, sums.sum(1)


def _launch(
    x: Tensor,
    w: Tensor,
    y: Tensor,
    *,
    exact: bool,
    own: Tensor | None = None,
    bias: Tensor | None = None,
    relu: bool = False,
    slope: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """Fill y; the sums of every tile of rows where `slope` (z and g) is given."""
    (replicas, rows, depth), columns = x.shape, w.shape[2]
    how = SHALLOW if depth <= SHALLOW.depth else DEEP
    every, across = triton.cdiv(rows, how.rows), triton.cdiv(columns, how.columns)
    tiles = min(MOST_TILES, 1 << max(0, (every * across * replicas // PROGRAMS).bit_length() - 1))
    z, g = (x, x) if slope is None else slope
    sums = x.new_empty(replicas, every, depth) if slope is not None else x
    given = x if own is None else own
    _map[(triton.cdiv(every, tiles) * across, replicas)](
        x, z, w, given, x if bias is None else bias.contiguous(), y, g, sums,
        rows, columns, _row_stride(x), _row_stride(given), _row_stride(y), _row_stride(g), *w.stride(),
        TILES=tiles, depth=depth, OWN=0 if own is None else own.shape[2] // columns, BIAS=bias is not None, RELU=relu,
        SLOPE=slope is not None, EXACT=exact, ROWS=how.rows, COLUMNS=how.columns,
        DEPTH=min(how.depth, side(depth)), STAGES=how.stages, num_warps=how.warps,
    )  # fmt: skip
    return sums


def _row_stride(x: Tensor) -> int:
    """From row to row, where a replica's rows follow each other and a row's numbers lie side by side."""
    replicas, rows, columns = x.shape
    stride = x.stride(1) if rows > 1 else x.stride(0)  # a single row's own stride may be anything
    assert columns == 1 or x.stride(2) == 1, x.stride()
    assert replicas == 1 or x.stride(0) == rows * stride, x.stride()
    return stride
