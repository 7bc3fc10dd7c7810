"""The standard layer between two ReLUs, relu(u·M₀ + b + Σ_h softmax((u·N_h + c_h)·uᵀ)·u·M_h), written for speed.

Two things cost most on a CPU when a sample has few nodes: softmax over a short last axis, and products whose result is
narrow. So the weights are kept with the node that is read first and the readers, of every head, last: softmax then runs
along the axis before the last, and logits of two heads are twice as wide.

It can be differentiated once; for higher derivatives use the model itself.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from posattn.nn.fast.large_products import is_large, plus_product, product
from posattn.nn.fast.products import beside, by_hand, linear, only_once, row_products

#: Most nodes of samples that have few.
FEW_NODES = 16
#: What copies so many bytes as one number.
AS_ONE = {2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}


class _Few(torch.autograd.Function):
    """Samples of few nodes."""

    @staticmethod
    def forward(ctx, u, n, c, m, b):
        replicas, batch, nodes, into = u.shape
        heads, out = n.shape[1], m.shape[3]
        samples = replicas * batch
        rows = u.reshape(replicas, batch * nodes, into).contiguous()
        by_sample = rows.view(samples, nodes, into)
        query = n.transpose(1, 2).reshape(replicas, into, heads * into)  # [N_1 | … | N_H]
        value = m[:, 1:].transpose(1, 2).reshape(replicas, into, heads * out)  # [M_1 | … | M_H]
        moved = product(rows, query, c.flatten(1).unsqueeze(1)).view(samples, nodes * heads, into)
        weights = torch.bmm(by_sample, moved.mT).softmax(1)  # rows read, columns (reader, head)
        pairs = _turned(weights, nodes, heads)
        values = product(rows, value).view(samples, nodes * heads, out)
        z = product(rows, m[:, 0], None if b is None else b.unsqueeze(1))
        z = z.view(samples, nodes, out).baddbmm_(pairs, values).relu_()
        ctx.save_for_backward(rows, query, value, m, moved, weights, pairs, values, z)
        ctx.sizes = replicas, batch, nodes, heads, b is not None
        return z.view(replicas, batch, nodes, out)

    @staticmethod
    def backward(ctx, *grads):
        only_once()
        rows, query, value, m, moved, weights, pairs, values, z = ctx.saved_tensors
        replicas, batch, nodes, heads, has_bias = ctx.sizes
        into, out = rows.shape[2], z.shape[2]
        g = torch.ops.aten.threshold_backward(grads[0].reshape(z.shape), z, 0)
        dvalues = torch.bmm(pairs.mT, g).view(replicas, -1, heads * out)
        dweights = _turned(torch.bmm(g, values.mT), nodes, heads)
        dlogits = torch.ops.aten._softmax_backward_data(dweights, weights, 1, weights.dtype)
        dmoved = torch.bmm(dlogits.mT, rows.view(-1, nodes, into)).view(replicas, -1, heads * into)
        g = g.view(replicas, -1, out)
        du = None
        if ctx.needs_input_grad[0]:
            du = torch.bmm(dlogits, moved).view(replicas, -1, into)
            for left, right in ((dmoved, query), (dvalues, value), (g, m[:, 0])):
                du = plus_product(du, left, right.mT)
            du = du.view(replicas, batch, nodes, into)
        if is_large(rows.mT, g):  # then transposed once for all three sums over rows
            rows = rows.mT.contiguous().mT
        dn = row_products(rows, dmoved).unflatten(2, (heads, into)).transpose(1, 2)
        dm = row_products(rows, dvalues).unflatten(2, (heads, out)).transpose(1, 2)
        dm = torch.cat([row_products(rows, g).unsqueeze(1), dm], dim=1)
        return du, dn, dmoved.sum(1).unflatten(1, (heads, into)), dm, g.sum(1) if has_bias else None


class _Many(torch.autograd.Function):
    """Samples of many nodes: products head by head, in place within one matrix [s | y₀ | y], and nothing is copied."""

    @staticmethod
    def forward(ctx, u, n, c, m, b):
        replicas, batch, nodes, into = u.shape
        heads, out = n.shape[1], m.shape[3]
        rows = u.reshape(replicas, batch * nodes, into).contiguous()
        by_sample = rows.view(-1, nodes, into)
        joined = torch.cat([beside(n), beside(m)], dim=2)
        moved = product(rows, joined)
        moved[:, :, : heads * into].add_(c.flatten(1).unsqueeze(1))
        queries, own, values = _parts(moved.view(-1, nodes, joined.shape[2]), heads, into, out)
        weights = u.new_empty(replicas * batch, heads, nodes, nodes)
        for head in range(heads):
            torch.bmm(queries[head], by_sample.mT, out=weights[:, head])
        weights = weights.softmax(-1)
        z = own.clone() if b is None else (own.unflatten(0, (replicas, batch)) + b[:, None, None]).flatten(0, 1)
        for head in range(heads):
            z.baddbmm_(weights[:, head], values[head])
        ctx.save_for_backward(rows, joined, moved, weights, z.relu_())
        ctx.sizes = batch, nodes, heads, out, b is not None
        return z.view(replicas, batch, nodes, out)

    @staticmethod
    def backward(ctx, *grads):
        only_once()
        rows, joined, moved, weights, z = ctx.saved_tensors
        batch, nodes, heads, out, has_bias = ctx.sizes
        into, width = rows.shape[2], joined.shape[2]
        by_sample = rows.view(-1, nodes, into)
        right = torch.empty_like(moved)
        queries, _, values = _parts(moved.view(-1, nodes, width), heads, into, out)
        dqueries, g, dvalues = _parts(right.view(-1, nodes, width), heads, into, out)
        g.copy_(torch.ops.aten.threshold_backward(grads[0].reshape(z.shape), z, 0))
        dweights = torch.empty_like(weights)
        for head in range(heads):
            torch.bmm(weights[:, head].mT, g, out=dvalues[head])
            torch.bmm(g, values[head].mT, out=dweights[:, head])
        dlogits = torch.ops.aten._softmax_backward_data(dweights, weights, -1, weights.dtype)
        for head in range(heads):
            torch.bmm(dlogits[:, head], by_sample, out=dqueries[head])
        du = None
        if ctx.needs_input_grad[0]:
            du = torch.bmm(dlogits[:, 0].mT, queries[0])
            for head in range(1, heads):
                du.baddbmm_(dlogits[:, head].mT, queries[head])
            du = plus_product(du.view_as(rows), right, joined.mT).unflatten(1, (batch, nodes))
        sums = right[:, :, : heads * into + out].sum(1)
        dn, dm = row_products(rows, right).split((heads * into, (1 + heads) * out), dim=2)
        return (
            du,
            dn.unflatten(2, (heads, into)).transpose(1, 2),
            sums[:, : heads * into].unflatten(1, (heads, into)),
            dm.unflatten(2, (1 + heads, out)).transpose(1, 2),
            sums[:, heads * into :] if has_bias else None,
        )


def _parts(moved: Tensor, heads: int, into: int, out: int) -> tuple[tuple[Tensor, ...], Tensor, tuple[Tensor, ...]]:
    """Views of [s_1 | … | y₀ | y_1 | …]: each head's s, then y₀, then each head's y."""
    queries, own, values = moved.split((heads * into, out, heads * out), dim=2)
    return queries.split(into, dim=2), own, values.split(out, dim=2)


def _turned(weights: Tensor, nodes: int, heads: int) -> Tensor:
    """From (node, (node', head)) to (node', (node, head)): the two nodes change places, a reader's heads together."""
    together = AS_ONE.get(heads * weights.element_size())
    if together is not None and weights.numel():  # a fifth of the time of moving number by number
        return weights.view(together).transpose(1, 2).contiguous().view(weights.dtype)
    return weights.unflatten(2, (nodes, heads)).transpose(1, 2).flatten(2)


def attending_layer(
    u: Float[Tensor, "replicas batch nodes into"],
    n: Float[Tensor, "replicas heads into into"],
    c: Float[Tensor, "replicas heads into"],
    m: Float[Tensor, "replicas mixed into out"],
    b: Float[Tensor, "replicas out"] | None,
) -> Float[Tensor, "replicas batch nodes out"]:
    """relu(u·M₀ + b + Σ_h softmax((u·N_h + c_h)·uᵀ)·u·M_h), sample by sample."""
    return by_hand((_Few if u.shape[2] <= FEW_NODES else _Many).apply, u, n, c, m, b)


def attending_node(
    u: Float[Tensor, "replicas batch nodes into"],
    n: Float[Tensor, "replicas heads into into"],
    c: Float[Tensor, "replicas heads into"],
    m: Float[Tensor, "replicas mixed into out"],
    b: Float[Tensor, "replicas out"] | None,
) -> Float[Tensor, "replicas batch out"]:
    """What `attending_layer` gives for node 0 of every sample: it reads first, and multiplies what it has read."""
    query = linear(u[:, :, 0], beside(n), c.flatten(1)).unflatten(2, (n.shape[1], -1))
    return reading_node((query @ u.mT).softmax(-1), u, m, b)


def reading_node(
    weights: Float[Tensor, "replicas batch_or_1 heads nodes"],
    u: Float[Tensor, "replicas batch nodes into"],
    m: Float[Tensor, "replicas mixed into out"],
    b: Float[Tensor, "replicas out"] | None,
) -> Float[Tensor, "replicas batch out"]:
    """relu(u₀·M₀ + b + Σ_h w_h·u·M_h) for node 0 of every sample."""
    return linear(torch.cat([u[:, :, 0], (weights @ u).flatten(2)], dim=2), m.flatten(1, 2), b).relu()
