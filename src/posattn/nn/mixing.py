"""The positional layer between two ReLUs, relu(u·M₀ + b + Σ_h A_h·u·M_h), written for speed.

Two forms of the same function; which is faster depends on what multiplies matrices.

`mixed_layer` multiplies first, then mixes the nodes. The state lies as (replicas, nodes, features, batch), so that
    u·M_g for all g       is one batched product, and its result is, without a copy, the 3n × (features·batch) matrix in
    Σ_g A_g·(u·M_g)       one small-by-huge product, with A₀ = 1.

`expanded_layer` writes M and A into one (nodes·into) × (nodes·out) matrix W = Σ_g A_gᵀ ⊗ M_g. That is n/(1 + H) times
as much arithmetic, in one large product: what tensor cores like.

Both can be differentiated once; for higher derivatives use a model's plain form.
"""

# pyright: reportIncompatibleMethodOverride=false
# (torch types the context of a backward pass as one that may be passed by name, and its own decorator does not.)

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

#: Largest side of a mixing matrix that the kernel of `posattn.nn.wide` takes.
MOST_ROWS = 64


def with_identity(
    attention: Float[Tensor, "replicas layers heads nodes nodes"],
) -> Float[Tensor, "replicas layers mixed nodes nodes"]:
    """[1, A_1, …, A_H]: what the matrices [M₀, M_1, …, M_H] are mixed with."""
    eye = torch.eye(attention.shape[-1], dtype=attention.dtype, device=attention.device)
    return torch.cat([eye.expand(*attention.shape[:2], 1, *eye.shape), attention], dim=2)


def _suits_kernel(a: Tensor, y: Tensor) -> bool:
    """Whether the kernel for few rows and many columns applies, and is meant: float32 on CUDA, without rounding."""
    exact = torch.backends.cuda.matmul.fp32_precision != "tf32"
    return y.is_cuda and y.dtype == torch.float32 and exact and max(a.shape[1:]) <= MOST_ROWS


def product(a: Tensor, y: Tensor) -> Tensor:
    """a·y where a is small and y is wide."""
    if _suits_kernel(a, y):
        from posattn.nn.wide import wide_product

        return wide_product(a, y)
    return torch.bmm(a, y)


def product_relu(a: Tensor, y: Tensor, bias: Tensor | None) -> Tensor:
    """relu(a·y + bias) where a is small and y is wide."""
    if _suits_kernel(a, y):
        from posattn.nn.wide import wide_product

        return wide_product(a, y, bias, relu=True)
    return (torch.bmm(a, y) if bias is None else torch.baddbmm(bias, a, y)).relu_()


class _Mixed(torch.autograd.Function):
    """relu(b + Σ_g A_g·u·M_g) with a backward pass that keeps no more than it needs."""

    @staticmethod
    def forward(ctx, state, attention, matrices, bias):
        replicas, nodes, into, batch = state.shape
        mixed, out = matrices.shape[1], matrices.shape[3]
        stacked = matrices.transpose(2, 3).reshape(replicas, 1, mixed * out, into)
        stacked = stacked.expand(-1, nodes, -1, -1).reshape(replicas * nodes, mixed * out, into)
        moved = torch.bmm(stacked, state.reshape(replicas * nodes, into, batch))
        moved = moved.view(replicas, nodes * mixed, out * batch)
        pairs = attention.permute(0, 2, 3, 1).reshape(replicas, nodes, nodes * mixed)
        row = None if bias is None else bias[:, None, :, None].expand(-1, 1, -1, batch).reshape(replicas, 1, -1)
        z = product_relu(pairs, moved, row).view(replicas, nodes, out, batch)
        ctx.save_for_backward(state, stacked, pairs, moved, z)
        ctx.has_bias = bias is not None
        return z

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        state, stacked, pairs, moved, z = ctx.saved_tensors
        replicas, nodes, into, batch = state.shape
        out = z.shape[2]
        mixed = stacked.shape[1] // out
        g = torch.ops.aten.threshold_backward(grads[0], z, 0)
        rows = g.view(replicas, nodes, out * batch)
        dpairs = torch.bmm(rows, moved.mT)
        dmoved = product(pairs.mT, rows).view(replicas * nodes, mixed * out, batch)
        columns = state.reshape(replicas * nodes, into, batch)
        dstate = torch.bmm(stacked.mT, dmoved).view_as(state) if ctx.needs_input_grad[0] else None
        dstacked = torch.bmm(dmoved, columns.mT).view(replicas, nodes, mixed, out, into).sum(1)
        dattention = dpairs.view(replicas, nodes, nodes, mixed).permute(0, 3, 1, 2)
        return dstate, dattention, dstacked.mT, g.sum((1, 3)) if ctx.has_bias else None


def mixed_layer(
    state: Float[Tensor, "replicas nodes into batch"],
    attention: Float[Tensor, "replicas mixed nodes nodes"],
    matrices: Float[Tensor, "replicas mixed into out"],
    bias: Float[Tensor, "replicas out"] | None,
) -> Float[Tensor, "replicas nodes out batch"]:
    """relu(b + Σ_g A_g·u·M_g): multiply, then mix."""
    return _Mixed.apply(state, attention, matrices, bias)


def columns(
    state: Float[Tensor, "replicas nodes into batch"],
    weight: Float[Tensor, "replicas into out"],
    bias: Float[Tensor, "replicas out"] | None,
) -> Float[Tensor, "replicas nodes out batch"]:
    """u·W + b where the state lies as (replicas, nodes, features, batch)."""
    product = weight.mT.unsqueeze(1) @ state
    return product if bias is None else product + bias[:, None, :, None]


class _Expand(torch.autograd.Function):
    """W[j·k, i·f] = Σ_g A_g[i, j]·M_g[k, f], one pass over W for every g."""

    @staticmethod
    def forward(ctx, attention, matrices):
        replicas, mixed, nodes, _ = attention.shape
        into, out = matrices.shape[2:]
        scales = attention.transpose(2, 3)[:, :, :, None, :, None]  # (replicas, mixed, j, 1, i, 1)
        blocks = matrices[:, :, None, :, None, :]  # (replicas, mixed, 1, into, 1, out)
        w = attention.new_empty(replicas, nodes, into, nodes, out)
        torch.mul(scales[:, 0], blocks[:, 0], out=w)
        for g in range(1, mixed):
            w.addcmul_(scales[:, g], blocks[:, g])
        ctx.save_for_backward(attention, matrices)
        return w.view(replicas, nodes * into, nodes * out)

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        attention, matrices = ctx.saved_tensors
        replicas, mixed, nodes, _ = attention.shape
        into, out = matrices.shape[2:]
        blocks = grads[0].view(replicas, nodes, into, nodes, out).permute(0, 3, 1, 2, 4)
        blocks = blocks.reshape(replicas, nodes * nodes, into * out)  # rows (i, j)
        dattention = torch.bmm(matrices.reshape(replicas, mixed, into * out), blocks.mT).view_as(attention)
        dmatrices = torch.bmm(attention.reshape(replicas, mixed, nodes * nodes), blocks).view_as(matrices)
        return dattention, dmatrices


def expanded_layer(
    state: Float[Tensor, "replicas batch nodes_into"],
    attention: Float[Tensor, "replicas mixed nodes nodes"],
    matrices: Float[Tensor, "replicas mixed into out"],
    bias: Float[Tensor, "replicas out"] | None,
) -> Float[Tensor, "replicas batch nodes_out"]:
    """relu(b + Σ_g A_g·u·M_g) as one product with the expanded matrix."""
    w = _Expand.apply(attention, matrices)
    if bias is None:
        return torch.bmm(state, w).relu()
    return torch.baddbmm(bias.repeat(1, attention.shape[-1]).unsqueeze(1), state, w).relu()
