"""The positional layer between two ReLUs, relu(u·M₀ + b + Σ_h A_h·u·M_h), written for speed.

Two forms of the same function; which is faster depends on what multiplies matrices.

`mixed_layer` multiplies first, then mixes the nodes. The state lies as (replicas, nodes, features, batch), so that
    u·M_g for all g       is one batched product, and its result is, without a copy, the 3n × (features·batch) matrix in
    Σ_g A_g·(u·M_g)       one small-by-huge product, with A₀ = 1.

`expanded_layer` writes M and A into one (nodes·into) × (nodes·out) matrix W = Σ_g A_gᵀ ⊗ M_g. That is n/(1 + H) times
as much arithmetic, in one large product: what tensor cores like.

Both can be differentiated once; for higher derivatives use the model itself.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from posattn.nn.fast.products import BUSY, by_hand, is_exact, only_once

#: Largest side of a mixing matrix that the kernels of `posattn.nn.kernels.wide_products` take.
MOST_ROWS = 128
#: Columns of the pieces that a sum over columns is cut into, where those kernels do not apply.
PIECE = 1000


def _suits_kernels(a: Tensor, y: Tensor) -> bool:
    """Whether the kernels for few rows and many columns apply, and are meant: float32 on CUDA, without rounding."""
    return y.is_cuda and y.dtype == torch.float32 and is_exact() and max(*a.shape[1:], y.shape[1]) <= MOST_ROWS


def product(a: Tensor, y: Tensor, bias: Tensor | None = None, *, relu: bool = False) -> Tensor:
    """a·y, plus a bias row, through a ReLU, where a is small and y is wide."""
    if _suits_kernels(a, y):
        from posattn.nn.kernels.wide_products import wide_product

        return wide_product(a, y, bias, relu=relu)
    out = torch.bmm(a, y) if bias is None else torch.baddbmm(bias, a, y)
    return out.relu_() if relu else out


def product_backward(a: Tensor, y: Tensor, z: Tensor, dz: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of a, y and the bias row from that of z = relu(a·y + bias)."""
    if _suits_kernels(a, y):
        from posattn.nn.kernels.wide_products import wide_backward

        return wide_backward(a, y, z, dz)
    g = torch.ops.aten.threshold_backward(dz, z, 0)
    return _gram(g, y) if g.is_cuda else torch.bmm(g, y.mT), torch.bmm(a.mT, g), g.sum(1)


def _gram(x: Tensor, y: Tensor) -> Tensor:
    """x·yᵀ.

    Of few long sums, cuBLAS gives each to a small part of a GPU: in pieces, replica by replica, all of it has work.
    """
    columns = x.shape[2]
    if columns % PIECE or x.shape[0] > BUSY // 8:
        return torch.bmm(x, y.mT)
    pairs = zip(x.unflatten(2, (-1, PIECE)), y.unflatten(2, (-1, PIECE)), strict=True)
    return torch.stack([torch.bmm(a.transpose(0, 1), b.permute(1, 2, 0)).sum(0) for a, b in pairs])


class _Mixed(torch.autograd.Function):
    """relu(b + Σ_g A_g·u·M_g) with a backward pass that keeps no more than it needs."""

    @staticmethod
    def forward(ctx, state, attention, matrices, bias):
        replicas, nodes, into, batch = state.shape
        mixed, out = matrices.shape[1], matrices.shape[3]
        stacked = matrices.transpose(2, 3).reshape(replicas, 1, mixed * out, into)
        stacked = stacked.expand(-1, nodes, -1, -1).reshape(replicas * nodes, mixed * out, into)
        multiplied = torch.bmm(stacked, state.reshape(replicas * nodes, into, batch))
        multiplied = multiplied.view(replicas, nodes * mixed, out * batch)
        pairs = attention.permute(0, 2, 3, 1).reshape(replicas, nodes, nodes * mixed)
        row = None if bias is None else bias[:, None, :, None].expand(-1, 1, -1, batch).reshape(replicas, 1, -1)
        z = product(pairs, multiplied, row, relu=True).view(replicas, nodes, out, batch)
        ctx.save_for_backward(state, stacked, pairs, multiplied, z)
        ctx.has_bias = bias is not None
        return z

    @staticmethod
    def backward(ctx, *grads):
        only_once()
        state, stacked, pairs, multiplied, z = ctx.saved_tensors
        replicas, nodes, into, batch = state.shape
        out = z.shape[2]
        mixed = stacked.shape[1] // out
        dz, z = (x.reshape(replicas, nodes, out * batch) for x in (grads[0], z))
        dpairs, dmoved, sums = product_backward(pairs, multiplied, z, dz)
        dmoved = dmoved.view(replicas * nodes, mixed * out, batch)
        columns = state.reshape(replicas * nodes, into, batch)
        dstate = torch.bmm(stacked.mT, dmoved).view_as(state) if ctx.needs_input_grad[0] else None
        dstacked = torch.bmm(dmoved, columns.mT).view(replicas, nodes, mixed, out, into).sum(1)
        dattention = dpairs.view(replicas, nodes, nodes, mixed).permute(0, 3, 1, 2)
        return dstate, dattention, dstacked.mT, sums.view(replicas, out, batch).sum(2) if ctx.has_bias else None


def mixed_layer(
    state: Float[Tensor, "replicas nodes into batch"],
    attention: Float[Tensor, "replicas mixed readers nodes"],
    matrices: Float[Tensor, "replicas mixed into out"],
    bias: Float[Tensor, "replicas out"] | None,
) -> Float[Tensor, "replicas readers out batch"]:
    """relu(b + Σ_g A_g·u·M_g): multiply, then mix; or mix first where that leaves less to multiply."""
    replicas, nodes, into, batch = state.shape
    mixed, readers = attention.shape[1:3]
    if mixed * into > matrices.shape[3] and readers == nodes:
        return by_hand(_Mixed.apply, state, attention, matrices, bias)
    beside = torch.bmm(attention.flatten(1, 2), state.flatten(2)).view(replicas, mixed, readers, into, batch)
    return moved(beside.transpose(1, 2).flatten(2, 3), matrices.flatten(1, 2), bias).relu_()


def moved(
    state: Float[Tensor, "replicas nodes into batch"],
    weight: Float[Tensor, "replicas into out"],
    bias: Float[Tensor, "replicas out"] | None,
) -> Float[Tensor, "replicas nodes out batch"]:
    """u·W + b where the state lies as (replicas, nodes, features, batch)."""
    product = weight.mT.unsqueeze(1) @ state
    return product if bias is None else product + bias[:, None, :, None]


class _Expand(torch.autograd.Function):
    """W[j·k, i·f] = Σ_g A_g[i, j]·M_g[k, f]."""

    @staticmethod
    def forward(ctx, attention, matrices):
        ctx.save_for_backward(attention, matrices)
        if matrices.is_cuda:
            from posattn.nn.kernels.expanded_positional import expand

            return expand(attention, matrices)
        return torch.einsum("rgij,rgkf->rjkif", attention, matrices).flatten(3).flatten(1, 2)

    @staticmethod
    def backward(ctx, *grads):
        only_once()
        attention, matrices = ctx.saved_tensors
        if matrices.is_cuda:
            from posattn.nn.kernels.expanded_positional import collect

            return collect(attention, matrices, grads[0])
        nodes, (into, out) = attention.shape[-1], matrices.shape[2:]
        blocks = grads[0].unflatten(2, (nodes, out)).unflatten(1, (nodes, into))
        return (
            torch.einsum("rjkif,rgkf->rgij", blocks, matrices),
            torch.einsum("rjkif,rgij->rgkf", blocks, attention),
        )


class _Dense(torch.autograd.Function):
    """relu(u·W + b), b being the same for every node; the product is rounded to the state's dtype."""

    @staticmethod
    def forward(ctx, state, w, bias):
        w = w.to(state.dtype)
        z = torch.bmm(state, w)
        if z.is_cuda and bias is not None:
            from posattn.nn.kernels.expanded_positional import bias_relu_

            z = bias_relu_(z, bias)
        else:
            nodes = 1 if bias is None else z.shape[2] // bias.shape[1]
            z = (z if bias is None else z.add_(bias.repeat(1, nodes).unsqueeze(1))).relu_()
        ctx.save_for_backward(state, w, z)
        ctx.out = 0 if bias is None else bias.shape[1]
        return z

    @staticmethod
    def backward(ctx, *grads):
        only_once()
        state, w, z = ctx.saved_tensors
        full = torch.promote_types(z.dtype, torch.float32)
        if z.is_cuda:
            from posattn.nn.kernels.expanded_positional import relu_slope

            g, sums = relu_slope(grads[0], z)
        else:
            g = torch.ops.aten.threshold_backward(grads[0], z, 0)
            sums = g.sum(1, dtype=full)
        dstate = torch.bmm(g, w.mT) if ctx.needs_input_grad[0] else None
        dbias = sums.unflatten(1, (-1, ctx.out)).sum(1) if ctx.out else None
        return dstate, torch.bmm(state.mT, g).to(full), dbias


def expanded_layer(
    state: Float[Tensor, "replicas batch nodes_into"],
    attention: Float[Tensor, "replicas mixed nodes nodes"],
    matrices: Float[Tensor, "replicas mixed into out"],
    bias: Float[Tensor, "replicas out"] | None,
) -> Float[Tensor, "replicas batch nodes_out"]:
    """relu(b + Σ_g A_g·u·M_g) as one product with the expanded matrix."""
    w = _Expand.apply(attention, matrices)
    return _Dense.apply(state, w, bias)
