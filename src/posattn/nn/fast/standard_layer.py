"""The standard layer between two ReLUs, relu(u·M₀ + b + Σ_h softmax((u·N_h + c_h)·uᵀ)·u·M_h), written for speed.

Two things cost most on a CPU when a sample has few nodes: softmax over a short last axis, and products with a
transposed right side. So the weights are kept with the node that is read first and the readers, of every head, last
(softmax then runs along the axis before the last), and what must be transposed is copied once.

It can be differentiated once; for higher derivatives use the model itself.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from posattn.nn.fast.products import by_hand, only_once, row_products


class _Attending(torch.autograd.Function):
    @staticmethod
    def forward(ctx, u, n, c, m, b):
        replicas, batch, nodes, into = u.shape
        heads, out = n.shape[1], m.shape[3]
        samples = replicas * batch
        rows = u.reshape(replicas, batch * nodes, into).contiguous()
        by_sample = rows.view(samples, nodes, into)
        query = n.transpose(1, 2).reshape(replicas, into, heads * into)  # [N_1 | … | N_H]
        value = m[:, 1:].transpose(1, 2).reshape(replicas, into, heads * out)  # [M_1 | … | M_H]
        moved = torch.baddbmm(c.flatten(1).unsqueeze(1), rows, query).view(samples, nodes * heads, into)
        logits = torch.bmm(moved, by_sample.mT.contiguous())  # rows (reader, head), columns read
        weights = logits.mT.contiguous().softmax(1)  # rows read, columns (reader, head)
        pairs = _turned(weights, nodes, heads)
        values = torch.bmm(rows, value).view(samples, nodes * heads, out)
        z = torch.bmm(rows, m[:, 0]) if b is None else torch.baddbmm(b.unsqueeze(1), rows, m[:, 0])
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
        dweights = _turned(torch.bmm(g, values.mT.contiguous()), nodes, heads)
        dlogits = weights * dweights
        dlogits = dlogits.addcmul_(weights, dlogits.sum(1, keepdim=True), value=-1)
        dmoved = torch.bmm(dlogits.mT, rows.view(-1, nodes, into)).view(replicas, -1, heads * into)
        g = g.view(replicas, -1, out)
        du = None
        if ctx.needs_input_grad[0]:
            du = torch.bmm(dlogits, moved).view(replicas, -1, into)
            du = du.baddbmm_(dmoved, query.mT).baddbmm_(dvalues, value.mT).baddbmm_(g, m[:, 0].mT)
            du = du.view(replicas, batch, nodes, into)
        dn = row_products(rows, dmoved).unflatten(2, (heads, into)).transpose(1, 2)
        dm = row_products(rows, dvalues).unflatten(2, (heads, out)).transpose(1, 2)
        dm = torch.cat([row_products(rows, g).unsqueeze(1), dm], dim=1)
        return du, dn, dmoved.sum(1).unflatten(1, (heads, into)), dm, g.sum(1) if has_bias else None


def _turned(weights: Tensor, nodes: int, heads: int) -> Tensor:
    """From (node, (node', head)) to (node', (node, head)): the two nodes change places."""
    return weights.unflatten(2, (nodes, heads)).transpose(1, 2).flatten(2)


def attending_layer(
    u: Float[Tensor, "replicas batch nodes into"],
    n: Float[Tensor, "replicas heads into into"],
    c: Float[Tensor, "replicas heads into"],
    m: Float[Tensor, "replicas mixed into out"],
    b: Float[Tensor, "replicas out"] | None,
) -> Float[Tensor, "replicas batch nodes out"]:
    """relu(u·M₀ + b + Σ_h softmax((u·N_h + c_h)·uᵀ)·u·M_h), sample by sample."""
    return by_hand(_Attending.apply, u, n, c, m, b)
