"""A linear map to one number, x·w + b, as Triton kernels that read the state once in each direction."""

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from posattn.nn.fast.products import only_once

#: Rows that are on the way at once, and rows whose gradients one program of the backward pass sums up.
ROWS, SPAN = 32, 512


@triton.jit
def _forward(x_pointer, w_pointer, b_pointer, y_pointer, rows, into, ROWS: tl.constexpr, INTO: tl.constexpr):
    replica = tl.program_id(1).to(tl.int64)
    row, i = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, INTO)
    inside = (row[:, None] < rows) & (i[None, :] < into)
    x = tl.load(x_pointer + replica * rows * into + row[:, None] * into + i[None, :], mask=inside, other=0.0)
    w = tl.load(w_pointer + replica * into + i, mask=i < into, other=0.0)
    y = tl.sum(x * w[None, :], axis=1) + tl.load(b_pointer + replica)
    tl.store(y_pointer + replica * rows + row, y, mask=row < rows)


@triton.jit
def _backward(
    x_pointer, w_pointer, dy_pointer, dx_pointer, parts_pointer, rows, into,
    SPAN: tl.constexpr, ROWS: tl.constexpr, INTO: tl.constexpr,
):  # fmt: skip
    """dx of a span of rows, and what they add to the gradients of w and, beside it, of b."""
    part, replica = tl.program_id(0), tl.program_id(1).to(tl.int64)
    i = tl.arange(0, INTO)
    w = tl.load(w_pointer + replica * into + i, mask=i < into, other=0.0)
    dw = tl.zeros((ROWS, INTO), tl.float32)
    db = tl.zeros((ROWS,), tl.float32)
    for start in range(0, SPAN, ROWS):
        row = part * SPAN + start + tl.arange(0, ROWS)
        inside = (row[:, None] < rows) & (i[None, :] < into)
        at = replica * rows * into + row[:, None] * into + i[None, :]
        dy = tl.load(dy_pointer + replica * rows + row, mask=row < rows, other=0.0)
        tl.store(dx_pointer + at, dy[:, None] * w[None, :], mask=inside)
        dw += tl.load(x_pointer + at, mask=inside, other=0.0) * dy[:, None]
        db += dy
    parts_pointer += (replica * tl.num_programs(0) + part) * (into + 1)
    tl.store(parts_pointer + i, tl.sum(dw, axis=0), mask=i < into)
    tl.store(parts_pointer + into, tl.sum(db, axis=0))


class _OneNumber(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, b):
        (replicas, rows, into), x, w = x.shape, x.contiguous(), w.contiguous()
        y = x.new_empty(replicas, rows)
        block = triton.next_power_of_2(into)
        _forward[(triton.cdiv(rows, ROWS), replicas)](x, w, b.contiguous(), y, rows, into, ROWS=ROWS, INTO=block)
        ctx.save_for_backward(x, w)
        return y

    @staticmethod
    def backward(ctx, *grads):
        only_once()
        x, w = ctx.saved_tensors
        replicas, rows, into = x.shape
        parts = triton.cdiv(rows, SPAN)
        dx, sums = torch.empty_like(x), x.new_empty(replicas, parts, into + 1)
        _backward[(parts, replicas)](
            x, w, grads[0].contiguous(), dx, sums, rows, into,
            SPAN=SPAN, ROWS=ROWS, INTO=triton.next_power_of_2(into),
        )  # fmt: skip
        dw, db = sums.sum(1).split((into, 1), dim=1)
        return dx, dw, db.squeeze(1)


def one_number(
    x: Float[Tensor, "replicas *nodes into"],
    weight: Float[Tensor, "replicas into 1"],
    bias: Float[Tensor, "replicas 1"] | None,
) -> Float[Tensor, "replicas *nodes 1"]:
    """x·w + b, each replica with its own."""
    b = x.new_zeros(x.shape[0]) if bias is None else bias.squeeze(1)
    return _OneNumber.apply(x.flatten(1, -2), weight.squeeze(2), b).view(*x.shape[:-1], 1)
