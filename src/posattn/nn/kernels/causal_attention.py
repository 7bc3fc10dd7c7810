"""Causal attention over few nodes as Triton kernels: query, key and value side by side, as one map gives them.

A program owns one head of one sample. All nodes it may read fit into it, so that a row of weights is never put together
from pieces, and the backward kernel computes the weights again instead of keeping anything about them.
"""

import math

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from posattn.nn.fast.products import only_once
from posattn.nn.kernels.tf32 import rounded, side

#: Readers that are on the way at once: what one tensor-core product wants.
READERS = 64
#: Warps that share a program, and blocks that are on the way: the fastest of 4, 8 and 1, 2, 3 on an H200.
LAUNCH = {"num_warps": 4, "num_stages": 1}


@triton.jit
def _place(first, offset, nodes, pitch: tl.constexpr, width: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """Where some nodes' part of a head lies within a sample, and what of it exists."""
    i, k = first + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    return i[:, None] * pitch + offset + k[None, :], (i[:, None] < nodes) & (k[None, :] < width)


@triton.jit
def _weights(query, key, first, scale, ROWS: tl.constexpr, NODES: tl.constexpr):
    """softmax over the nodes that are no later than the reader."""
    reader, node = first + tl.arange(0, ROWS), tl.arange(0, NODES)
    earlier = node[None, :] <= reader[:, None]
    logits = tl.where(earlier, tl.dot(query, tl.trans(key)) * scale, -float("inf"))
    weights = tl.exp(logits - tl.max(logits, axis=1)[:, None])
    return weights / tl.sum(weights, axis=1)[:, None]


@triton.jit
def _forward(
    read_pointer, attended_pointer, scale,
    HEADS: tl.constexpr, nodes: tl.constexpr, width: tl.constexpr,
    READERS: tl.constexpr, NODES: tl.constexpr, WIDTH: tl.constexpr, ROUND: tl.constexpr,
):  # fmt: skip
    sample, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    all: tl.constexpr = HEADS * width
    read_pointer += sample * nodes * 3 * all + head * width
    at, real = _place(0, 0, nodes, 3 * all, width, NODES, WIDTH)
    key = rounded(tl.load(read_pointer + all + at, mask=real, other=0.0), ROUND)
    value = rounded(tl.load(read_pointer + 2 * all + at, mask=real, other=0.0), ROUND)
    for first in range(0, nodes, READERS):
        at_query, real_query = _place(first, 0, nodes, 3 * all, width, READERS, WIDTH)
        query = rounded(tl.load(read_pointer + at_query, mask=real_query, other=0.0), ROUND)
        attended = tl.dot(rounded(_weights(query, key, first, scale, READERS, NODES), ROUND), value)
        at_out, real_out = _place(first, head * width, nodes, all, width, READERS, WIDTH)
        tl.store(attended_pointer + sample * nodes * all + at_out, attended, mask=real_out)


@triton.jit
def _backward(
    read_pointer, dattended_pointer, dread_pointer, scale,
    HEADS: tl.constexpr, nodes: tl.constexpr, width: tl.constexpr,
    READERS: tl.constexpr, NODES: tl.constexpr, WIDTH: tl.constexpr, ROUND: tl.constexpr,
):  # fmt: skip
    sample, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    all: tl.constexpr = HEADS * width
    read_pointer += sample * nodes * 3 * all + head * width
    dread_pointer += sample * nodes * 3 * all + head * width
    at, real = _place(0, 0, nodes, 3 * all, width, NODES, WIDTH)
    key = rounded(tl.load(read_pointer + all + at, mask=real, other=0.0), ROUND)
    value = rounded(tl.load(read_pointer + 2 * all + at, mask=real, other=0.0), ROUND)
    dkey = tl.zeros((NODES, WIDTH), tl.float32)
    dvalue = tl.zeros((NODES, WIDTH), tl.float32)
    for first in range(0, nodes, READERS):
        at_out, real_out = _place(first, head * width, nodes, all, width, READERS, WIDTH)
        g = tl.load(dattended_pointer + sample * nodes * all + at_out, mask=real_out, other=0.0)
        g = rounded(g, ROUND)
        at_query, real_query = _place(first, 0, nodes, 3 * all, width, READERS, WIDTH)
        query = rounded(tl.load(read_pointer + at_query, mask=real_query, other=0.0), ROUND)
        weights = _weights(query, key, first, scale, READERS, NODES)
        dvalue += tl.dot(tl.trans(rounded(weights, ROUND)), g)
        dweights = tl.dot(g, tl.trans(value))
        dlogits = weights * (dweights - tl.sum(weights * dweights, axis=1)[:, None]) * scale
        dlogits = rounded(dlogits, ROUND)
        dkey += tl.dot(tl.trans(dlogits), query)
        tl.store(dread_pointer + at_query, tl.dot(dlogits, key), mask=real_query)
    tl.store(dread_pointer + all + at, dkey, mask=real)
    tl.store(dread_pointer + 2 * all + at, dvalue, mask=real)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, read, heads):
        read = read.contiguous()
        samples, nodes, width = read.shape[0], read.shape[1], read.shape[2] // 3
        each = width // heads
        sizes = {
            "HEADS": heads,
            "nodes": nodes,
            "width": each,
            "READERS": READERS,
            "NODES": side(nodes),
        }
        sizes |= {"WIDTH": side(each), "ROUND": read.is_cuda, **LAUNCH}
        attended = read.new_empty(samples, nodes, width)
        _forward[(samples, heads)](read, attended, 1 / math.sqrt(each), **sizes)
        ctx.save_for_backward(read)
        ctx.sizes, ctx.scale = sizes, 1 / math.sqrt(each)
        return attended

    @staticmethod
    def backward(ctx, *grads):
        only_once()
        (read,) = ctx.saved_tensors
        dread = torch.empty_like(read)
        _backward[(read.shape[0], ctx.sizes["HEADS"])](read, grads[0].contiguous(), dread, ctx.scale, **ctx.sizes)
        return dread, None


def causal_attention(read: Float[Tensor, "*samples nodes thrice"], heads: int) -> Float[Tensor, "*samples nodes width"]:
    """Every head's softmax(Q·Kᵀ/√d_k)·V, heads side by side, each node reading from those that are not after it.

    `read` holds Q, K and V of all heads, side by side. Factors are rounded to TF32 on a GPU; sums and softmax are
    float32.
    """
    attended = _Attention.apply(read.flatten(0, -3), heads)
    return attended.view(*read.shape[:-1], -1)
