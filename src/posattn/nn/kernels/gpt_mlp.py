"""What follows attention in a GPT-style layer, as three Triton kernels for NVIDIA GPUs.

    x = state + attended·O + o,     y = x + gelu(x·W₁ + b₁)·W₂ + b₂

GELU is z·s(z), where s is Φ ("erf") or, as ½(1 + tanh u) = σ(2u), a sigmoid of a cubic ("tanh").

The hidden state is four times as wide as the state, and as eleven separate operations it is written and read again and
again. Here a program holds some rows of x and meets the hidden units in blocks, which never leave it; the backward
kernels compute them again. One gives the gradients of `state` and `attended`, the other, in which a program owns a
block of units and a part of the rows, those of the maps.
"""

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from posattn.nn.fast.products import BUSY, only_once
from posattn.nn.kernels.tf32 import rounded, side

#: Rows that a program holds, hidden units in a block, warps that share the program, and blocks that are on the way: the
#: fastest of six on an H200. Forward, smaller programs leave fewer multiprocessors idle at the end.
FORWARD = {"ROWS": 32, "UNITS": 32, "num_warps": 4, "num_stages": 2}
BACKWARD = {"ROWS": 64, "UNITS": 64, "num_warps": 4, "num_stages": 1}


@triton.jit
def _matrix(pointer, first_row, first_column, rows, columns: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A block of a rows × columns matrix; what lies outside is 0."""
    i, j = first_row + tl.arange(0, ROWS), first_column + tl.arange(0, COLUMNS)
    return tl.load(
        pointer + i[:, None] * columns + j[None, :], mask=(i[:, None] < rows) & (j[None, :] < columns), other=0.0
    )


@triton.jit
def _put(
    pointer, block, first_row, first_column, rows, columns: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    i, j = first_row + tl.arange(0, ROWS), first_column + tl.arange(0, COLUMNS)
    tl.store(pointer + i[:, None] * columns + j[None, :], block, mask=(i[:, None] < rows) & (j[None, :] < columns))


@triton.jit
def _vector(pointer, first, count, SIZE: tl.constexpr):
    i = first + tl.arange(0, SIZE)
    return tl.load(pointer + i, mask=i < count, other=0.0)


@triton.jit
def _share(z, TANH: tl.constexpr):
    """s(z): the share of a normal variable that lies below z, or what stands for it; 2√(2/π) = 1.5957691…"""
    if TANH:
        twice = 1.5957691216057308 * (z + 0.044715 * z * z * z)
        small = tl.exp(-tl.abs(twice))  # at most 1, however large z is
        share = tl.where(twice > 0, 1.0, small) / (1.0 + small)
    else:
        share = 0.5 * (1.0 + tl.erf(z * 0.7071067811865476))
    return share


@triton.jit
def _growth(z, share, TANH: tl.constexpr):
    """s'(z): the normal density, or σ' = σ(1 − σ) times the cubic's slope."""
    if TANH:
        growth = share * (1.0 - share) * 1.5957691216057308 * (1.0 + 0.134145 * z * z)
    else:
        growth = tl.exp(-0.5 * z * z) * 0.3989422804014327
    return growth


@triton.jit
def _forward(
    state_pointer, attended_pointer, o_pointer, ob_pointer, w1_pointer, b1_pointer, w2_pointer, b2_pointer,
    x_pointer, y_pointer,
    rows, o_stride, ob_stride, w1_stride, b1_stride, w2_stride, b2_stride,
    WIDTH: tl.constexpr, HIDDEN: tl.constexpr,
    ROWS: tl.constexpr, UNITS: tl.constexpr, BLOCK: tl.constexpr, ROUND: tl.constexpr, TANH: tl.constexpr,
):  # fmt: skip
    first, replica = tl.program_id(0) * ROWS, tl.program_id(1).to(tl.int64)
    own = replica * rows * WIDTH
    attended = rounded(_matrix(attended_pointer + own, first, 0, rows, WIDTH, ROWS, BLOCK), ROUND)
    o = rounded(_matrix(o_pointer + replica * o_stride, 0, 0, WIDTH, WIDTH, BLOCK, BLOCK), ROUND)
    x = _matrix(state_pointer + own, first, 0, rows, WIDTH, ROWS, BLOCK) + tl.dot(attended, o)
    x += _vector(ob_pointer + replica * ob_stride, 0, WIDTH, BLOCK)[None, :]
    _put(x_pointer + own, x, first, 0, rows, WIDTH, ROWS, BLOCK)
    y = x + _vector(b2_pointer + replica * b2_stride, 0, WIDTH, BLOCK)[None, :]
    x = rounded(x, ROUND)
    for unit in range(0, HIDDEN, UNITS):
        w1 = rounded(_matrix(w1_pointer + replica * w1_stride, 0, unit, WIDTH, HIDDEN, BLOCK, UNITS), ROUND)
        w2 = rounded(_matrix(w2_pointer + replica * w2_stride, unit, 0, HIDDEN, WIDTH, UNITS, BLOCK), ROUND)
        z = tl.dot(x, w1) + _vector(b1_pointer + replica * b1_stride, unit, HIDDEN, UNITS)[None, :]
        y += tl.dot(rounded(z * _share(z, TANH), ROUND), w2)
    _put(y_pointer + own, y, first, 0, rows, WIDTH, ROWS, BLOCK)


@triton.jit
def _slopes(x, dy, w1, w2, b1, ROUND: tl.constexpr, TANH: tl.constexpr):
    """The hidden units of some rows, and the gradient of what goes into them."""
    z = tl.dot(x, w1) + b1[None, :]
    share = _share(z, TANH)
    slope = share + z * _growth(z, share, TANH)
    return z * share, tl.dot(dy, tl.trans(w2)) * slope


@triton.jit
def _backward_states(
    x_pointer, dy_pointer, o_pointer, w1_pointer, b1_pointer, w2_pointer, dx_pointer, dattended_pointer,
    rows, o_stride, w1_stride, b1_stride, w2_stride,
    WIDTH: tl.constexpr, HIDDEN: tl.constexpr,
    ROWS: tl.constexpr, UNITS: tl.constexpr, BLOCK: tl.constexpr, ROUND: tl.constexpr, TANH: tl.constexpr,
):  # fmt: skip
    first, replica = tl.program_id(0) * ROWS, tl.program_id(1).to(tl.int64)
    own = replica * rows * WIDTH
    x = rounded(_matrix(x_pointer + own, first, 0, rows, WIDTH, ROWS, BLOCK), ROUND)
    dx = _matrix(dy_pointer + own, first, 0, rows, WIDTH, ROWS, BLOCK)
    dy = rounded(dx, ROUND)
    for unit in range(0, HIDDEN, UNITS):
        w1 = rounded(_matrix(w1_pointer + replica * w1_stride, 0, unit, WIDTH, HIDDEN, BLOCK, UNITS), ROUND)
        w2 = rounded(_matrix(w2_pointer + replica * w2_stride, unit, 0, HIDDEN, WIDTH, UNITS, BLOCK), ROUND)
        b1 = _vector(b1_pointer + replica * b1_stride, unit, HIDDEN, UNITS)
        _, dz = _slopes(x, dy, w1, w2, b1, ROUND, TANH)
        dx += tl.dot(rounded(dz, ROUND), tl.trans(w1))
    _put(dx_pointer + own, dx, first, 0, rows, WIDTH, ROWS, BLOCK)
    o = rounded(_matrix(o_pointer + replica * o_stride, 0, 0, WIDTH, WIDTH, BLOCK, BLOCK), ROUND)
    dattended = tl.dot(rounded(dx, ROUND), tl.trans(o))
    _put(dattended_pointer + own, dattended, first, 0, rows, WIDTH, ROWS, BLOCK)


@triton.jit
def _backward_maps(
    x_pointer, attended_pointer, dx_pointer, dy_pointer, w1_pointer, b1_pointer, w2_pointer, parts_pointer,
    rows, w1_stride, b1_stride, w2_stride,
    SPAN: tl.constexpr, WIDTH: tl.constexpr, HIDDEN: tl.constexpr, TOTAL: tl.constexpr,
    ROWS: tl.constexpr, UNITS: tl.constexpr, BLOCK: tl.constexpr, ROUND: tl.constexpr, TANH: tl.constexpr,
):  # fmt: skip
    """One part of the rows: what it adds to the gradients of a block of units, or, after the last one, of O, o and b₂.

    A part's gradients lie side by side in the order O, o, W₁, b₁, W₂, b₂.
    """
    part, replica = tl.program_id(0), tl.program_id(1).to(tl.int64)
    unit = tl.program_id(2) * UNITS
    own = replica * rows * WIDTH
    parts_pointer += (replica * tl.num_programs(0) + part) * TOTAL
    ob_at: tl.constexpr = WIDTH * WIDTH
    w1_at: tl.constexpr = ob_at + WIDTH
    b1_at: tl.constexpr = w1_at + WIDTH * HIDDEN
    w2_at: tl.constexpr = b1_at + HIDDEN
    b2_at: tl.constexpr = w2_at + HIDDEN * WIDTH
    end = tl.minimum((part + 1) * SPAN, rows)
    i, j = tl.arange(0, BLOCK), unit + tl.arange(0, UNITS)
    if unit < HIDDEN:
        w1 = rounded(_matrix(w1_pointer + replica * w1_stride, 0, unit, WIDTH, HIDDEN, BLOCK, UNITS), ROUND)
        w2 = rounded(_matrix(w2_pointer + replica * w2_stride, unit, 0, HIDDEN, WIDTH, UNITS, BLOCK), ROUND)
        b1 = _vector(b1_pointer + replica * b1_stride, unit, HIDDEN, UNITS)
        dw1 = tl.zeros((BLOCK, UNITS), tl.float32)
        dw2 = tl.zeros((UNITS, BLOCK), tl.float32)
        db1 = tl.zeros((UNITS,), tl.float32)
        for done in range(0, SPAN, ROWS):
            first = part * SPAN + done
            x = rounded(_matrix(x_pointer + own, first, 0, end, WIDTH, ROWS, BLOCK), ROUND)
            dy = rounded(_matrix(dy_pointer + own, first, 0, end, WIDTH, ROWS, BLOCK), ROUND)
            h, dz = _slopes(x, dy, w1, w2, b1, ROUND, TANH)
            dw1 += tl.dot(tl.trans(x), rounded(dz, ROUND))
            dw2 += tl.dot(tl.trans(rounded(h, ROUND)), dy)
            db1 += tl.sum(dz, axis=0)
        _put(parts_pointer + w1_at, dw1, 0, unit, WIDTH, HIDDEN, BLOCK, UNITS)
        _put(parts_pointer + w2_at, dw2, unit, 0, HIDDEN, WIDTH, UNITS, BLOCK)
        tl.store(parts_pointer + b1_at + j, db1, mask=j < HIDDEN)
    else:
        do = tl.zeros((BLOCK, BLOCK), tl.float32)
        dob = tl.zeros((BLOCK,), tl.float32)
        db2 = tl.zeros((BLOCK,), tl.float32)
        for done in range(0, SPAN, ROWS):
            first = part * SPAN + done
            attended = rounded(_matrix(attended_pointer + own, first, 0, end, WIDTH, ROWS, BLOCK), ROUND)
            dx = _matrix(dx_pointer + own, first, 0, end, WIDTH, ROWS, BLOCK)
            do += tl.dot(tl.trans(attended), rounded(dx, ROUND))
            dob += tl.sum(dx, axis=0)
            db2 += tl.sum(_matrix(dy_pointer + own, first, 0, end, WIDTH, ROWS, BLOCK), axis=0)
        _put(parts_pointer, do, 0, 0, WIDTH, WIDTH, BLOCK, BLOCK)
        tl.store(parts_pointer + ob_at + i, dob, mask=i < WIDTH)
        tl.store(parts_pointer + b2_at + i, db2, mask=i < WIDTH)


class _Residual(torch.autograd.Function):
    @staticmethod
    def forward(ctx, state, attended, tanh, *maps):
        maps = [_rows_together(tensor) for tensor in maps]
        o, _, w1, b1, w2, _ = maps
        state, attended = state.contiguous(), attended.contiguous()
        replicas, rows, width = state.shape
        x, y = torch.empty_like(state), torch.empty_like(state)
        sizes = {"WIDTH": width, "HIDDEN": w1.shape[2], "BLOCK": side(width)}
        sizes |= {"ROUND": state.is_cuda, "TANH": tanh}
        strides = [tensor.stride(0) for tensor in maps]
        grid = (triton.cdiv(rows, FORWARD["ROWS"]), replicas)
        _forward[grid](state, attended, *maps, x, y, rows, *strides, **sizes, **FORWARD)
        ctx.save_for_backward(x, attended, o, w1, b1, w2)
        ctx.sizes, ctx.shapes = sizes, [tensor.shape for tensor in maps]
        return y

    @staticmethod
    def backward(ctx, *grads):
        only_once()
        x, attended, o, w1, b1, w2 = ctx.saved_tensors
        dy = grads[0].contiguous()
        replicas, rows, _ = x.shape
        sizes, shapes, held = ctx.sizes | BACKWARD, ctx.shapes, BACKWARD["ROWS"]
        dx, dattended = torch.empty_like(x), torch.empty_like(x)
        strides = [tensor.stride(0) for tensor in (w1, b1, w2)]
        _backward_states[(triton.cdiv(rows, held), replicas)](
            x, dy, o, w1, b1, w2, dx, dattended, rows, o.stride(0), *strides, **sizes
        )
        blocks = triton.cdiv(sizes["HIDDEN"], sizes["UNITS"]) + 1
        wanted = triton.cdiv(BUSY, replicas * blocks)
        span = triton.cdiv(triton.cdiv(rows, wanted), held) * held
        parts = triton.cdiv(rows, span)
        counts = [shape[1:].numel() for shape in shapes]
        gradients = x.new_empty(replicas, parts, sum(counts))
        _backward_maps[(parts, replicas, blocks)](
            x, attended, dx, dy, w1, b1, w2, gradients, rows, *strides, SPAN=span, TOTAL=sum(counts), **sizes
        )
        each = gradients.sum(1).split(counts, dim=1)
        return dx, dattended, None, *(gradient.view(shape) for gradient, shape in zip(each, shapes, strict=True))


def _rows_together(tensor: Tensor) -> Tensor:
    """Replicas may lie anywhere in memory, what one of them has lies together."""
    return tensor if tensor[0].is_contiguous() else tensor.contiguous()


def residual(
    state: Float[Tensor, "replicas *rows width"],
    attended: Float[Tensor, "replicas *rows width"],
    *maps: Tensor,
    tanh: bool,
) -> Float[Tensor, "replicas *rows width"]:
    """y, from the maps O, o, W₁, b₁, W₂, b₂.

    Factors are rounded to TF32 on a GPU; sums, and what is added, are float32.
    """
    flat = (tensor.flatten(1, -2) for tensor in (state, attended))
    return _Residual.apply(*flat, tanh, *maps).view_as(state)
