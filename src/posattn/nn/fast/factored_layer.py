"""The positional layer between two ReLUs, relu(u·M₀ + b + [A_1·u·V_1 | …]·W), with values as narrow as the heads.

In `positional_layer` a head's values are u·M_h, as wide as the result, with M_h = V_h·W_h. With the two factors kept
apart, what the nodes read of each other, u·V_h, is H times narrower, and in the paper's models, with two heads that
together are as wide as the layer, the products cost as many multiplications as before. Mixing few nodes is the slowest
product of a CPU.

The state lies as (replicas, nodes, features, batch). One product gives [u·M₀ | u·V_1 | …]; its first columns become the
result, in place, so the state that a layer gives is a view of what it computed.

It can be differentiated once; for higher derivatives use the model itself.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from posattn.nn.fast.products import by_hand, only_once


class _Factored(torch.autograd.Function):
    @staticmethod
    def forward(ctx, state, attention, maps, output, bias):
        (replicas, nodes, _, batch), hidden = state.shape, output.shape[2]
        state, maps, output = state.flatten(0, 1), _for_every_node(maps, nodes), _for_every_node(output, nodes)
        moved = torch.bmm(maps, state)  # [u·M₀ | u·V_1 | …]
        z, value = moved[:, :hidden], moved[:, hidden:]
        read = torch.empty_like(value)
        for each, of, into in zip(attention, _by_head(value, attention), _by_head(read, attention), strict=True):
            torch.bmm(each, of, out=into)
        z.baddbmm_(output, read)
        if bias is not None:
            z.view(replicas, nodes, hidden, batch).add_(bias[:, None, :, None])
        z.relu_()
        ctx.save_for_backward(state, attention, maps, output, moved, read)
        ctx.sizes = replicas, nodes, hidden, batch, bias is not None
        return z.view(replicas, nodes, hidden, batch)

    @staticmethod
    def backward(ctx, *grads):
        """Gradients of [u·M₀ | u·V_1 | …] take the place of these: whoever reads the result has had its turn."""
        only_once()
        state, attention, maps, output, moved, read = ctx.saved_tensors
        replicas, nodes, hidden, batch, has_bias = ctx.sizes
        g, value = moved[:, :hidden], moved[:, hidden:]
        torch.ops.aten.threshold_backward.grad_input(grads[0].flatten(0, 1), g, 0, grad_input=g)
        dread = torch.bmm(output.mT, g)
        dattention = torch.empty_like(attention)
        by_head = _by_head(dread, attention), _by_head(value, attention)
        for each, of, values, into in zip(attention, *by_head, dattention, strict=True):
            torch.bmm(of, values.mT, out=into)
            torch.bmm(each.mT, of, out=values)
        return (
            torch.bmm(maps.mT, moved).view(replicas, nodes, -1, batch) if ctx.needs_input_grad[0] else None,
            dattention,
            torch.bmm(state, moved.mT).view(replicas, nodes, *maps.mT.shape[1:]).sum(1),
            torch.bmm(read, g.mT).view(replicas, nodes, *output.mT.shape[1:]).sum(1),
            g.view(replicas, nodes, hidden, batch).sum((1, 3)) if has_bias else None,
        )


def _for_every_node(weight: Tensor, nodes: int) -> Tensor:
    """Wᵀ of every replica, once for each of its nodes."""
    return weight.mT.unsqueeze(1).expand(-1, nodes, -1, -1).flatten(0, 1)


def _by_head(x: Tensor, attention: Tensor) -> Tensor:
    """(replicas·nodes, values, batch) seen as (replicas, heads, nodes, width·batch)."""
    replicas, heads, nodes = attention.shape[:3]
    return x.view(replicas, nodes, heads, -1).transpose(1, 2)


def factored_layer(
    state: Float[Tensor, "replicas nodes into batch"],
    attention: Float[Tensor, "replicas heads nodes nodes"],
    maps: Float[Tensor, "replicas into columns"],
    output: Float[Tensor, "replicas values hidden"],
    bias: Float[Tensor, "replicas hidden"] | None,
) -> Float[Tensor, "replicas nodes hidden batch"]:
    """relu(u·M₀ + b + [A_1·u·V_1 | …]·W); `maps`: [M₀ | V_1 | …]."""
    return by_hand(_Factored.apply, state, attention, maps, output, bias)
