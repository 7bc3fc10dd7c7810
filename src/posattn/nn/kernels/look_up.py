"""The gradient of a table that is looked up, as a Triton kernel: for an entry, the sum over the places that chose it.

    dT[e] = Σ_place [code = e]·dy[place]

That is a product with the codes' indicator, which is made where it is multiplied, and not written to memory first.
"""

import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

from posattn.nn.kernels.tf32 import nearest, rounded, side

#: Places that a program adds up at once, and its warps.
ROWS, WARPS = 32, 8
#: Programs that keep a large GPU busy.
PROGRAMS = 528


@triton.jit
def _gradient(
    codes_pointer, dy_pointer, out_pointer, samples, entries, width, dy_replica, dy_sample, dy_node,
    NODES: tl.constexpr, SLICE: tl.constexpr, EXACT: tl.constexpr,
    ROWS: tl.constexpr, ENTRIES: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    part, replica = tl.program_id(0), tl.program_id(1).to(tl.int64)
    entry, i = tl.arange(0, ENTRIES), tl.arange(0, WIDTH)
    codes_pointer += replica * samples * NODES
    dy_pointer += replica * dy_replica
    total = tl.zeros((ENTRIES, WIDTH), tl.float32)
    for start in range(0, SLICE, ROWS):
        row = part * SLICE + start + tl.arange(0, ROWS)
        real = row < samples * NODES
        code = tl.load(codes_pointer + row, mask=real, other=-1)
        at = (row // NODES)[:, None] * dy_sample + (row % NODES)[:, None] * dy_node + i[None, :]
        dy = tl.load(dy_pointer + at, mask=real[:, None] & (i[None, :] < width), other=0.0)
        chosen = tl.where(entry[:, None] == code[None, :], 1.0, 0.0)  # 1 is a TF32 number
        if EXACT:
            first = nearest(dy)
            total = tl.dot(chosen, dy - first, total, input_precision="tf32")
            total = tl.dot(chosen, first, total, input_precision="tf32")
        else:
            total = tl.dot(chosen, rounded(dy, True), total, input_precision="tf32")
    to = ((replica * tl.num_programs(0) + part) * entries + entry[:, None]) * width + i[None, :]
    tl.store(out_pointer + to, total, mask=(entry[:, None] < entries) & (i[None, :] < width))


def look_up_gradient(
    codes: Int[Tensor, "replicas batch nodes"],
    dy: Float[Tensor, "replicas batch nodes width"],
    entries: int,
    *,
    exact: bool,
) -> Float[Tensor, "replicas entries width"]:
    """In the order of the places, slice by slice and then over the slices: the same numbers every time."""
    (replicas, batch, nodes), width = codes.shape, dy.shape[3]
    dy = dy if dy.stride(3) == 1 else dy.contiguous()
    slice_ = max(ROWS, triton.next_power_of_2(triton.cdiv(replicas * batch * nodes, PROGRAMS)))
    parts = triton.cdiv(batch * nodes, slice_)
    out = dy.new_empty(replicas, parts, entries, width)
    _gradient[(parts, replicas)](
        codes.contiguous(), dy, out, batch, entries, width, *dy.stride()[:3], NODES=nodes, SLICE=slice_,
        EXACT=exact, ROWS=ROWS, ENTRIES=max(64, side(entries)), WIDTH=side(width),
        num_warps=WARPS, num_stages=1,
    )  # fmt: skip
    return out.sum(1)
