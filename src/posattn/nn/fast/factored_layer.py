"""The positional layer between two ReLUs, relu(u·M₀ + b + [A_1·u·V_1 | …]·W), with values as narrow as the heads.

In `positional_layer` a head's values are u·M_h, as wide as the result, with M_h = V_h·W_h. With the two factors kept
apart, what the nodes read of each other, u·V_h, is H times narrower, and in the paper's models, with two heads that
together are as wide as the layer, the products cost as many multiplications as before. Mixing few nodes is the slowest
product of a CPU.

The state lies as (replicas, features, nodes, batch), so every map is one large product for all nodes and samples.

It can be differentiated once, and a backward pass uses up the layer's value, whose place gradients take; for more use
the model itself.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from posattn.nn.fast.large_products import plus_product, product
from posattn.nn.fast.products import by_hand, only_once


class _Factored(torch.autograd.Function):
    @staticmethod
    def forward(ctx, state, attention, maps, output, bias):
        (nodes, batch), readers, hidden = state.shape[2:], attention.shape[2], output.shape[2]
        moved = product(maps.mT, state.flatten(2))  # [u·M₀ | u·V_1 | …]
        per_feature = attention.repeat_interleave(output.shape[1] // attention.shape[1], dim=1)
        read = moved.new_empty(*output.shape[:2], readers, batch)
        for weights, value, into in zip(per_feature, moved[:, hidden:].unflatten(2, (nodes, batch)), read, strict=True):
            torch.bmm(weights, value, out=into)
        z = plus_product(moved[:, :hidden, : readers * batch], output.mT, read.flatten(2))
        if bias is not None:
            z.add_(bias.unsqueeze(2))
        z.relu_()
        ctx.save_for_backward(state, per_feature, maps, output, moved, read, z)
        ctx.heads, ctx.has_bias = attention.shape[1], bias is not None
        return z.unflatten(2, (readers, batch))

    @staticmethod
    def backward(ctx, *grads):
        """Gradients of [u·M₀ | u·V_1 | …] take the place of these, and of the value where it lies there too."""
        only_once()
        state, per_feature, maps, output, moved, read, z = ctx.saved_tensors
        (nodes, batch), hidden, wide = state.shape[2:], output.shape[2], z.shape[2]
        g = moved[:, :hidden, :wide]
        torch.ops.aten.threshold_backward.grad_input(grads[0].flatten(2), z, 0, grad_input=g)
        moved[:, :hidden, wide:] = 0  # of nodes that do not read
        dread = product(output, g).view_as(read)
        dweights = torch.empty_like(per_feature)
        values = moved[:, hidden:].unflatten(2, (nodes, batch))
        for weights, of, value, into in zip(per_feature, dread, values, dweights, strict=True):
            torch.bmm(of, value.mT, out=into)
            torch.bmm(weights.mT, of, out=value)
        return (
            product(maps, moved).view_as(state) if ctx.needs_input_grad[0] else None,
            dweights.unflatten(1, (ctx.heads, -1)).sum(2),
            product(state.flatten(2), moved.mT),
            product(read.flatten(2), g.mT),
            g.sum(2) if ctx.has_bias else None,
        )


def factored_layer(
    state: Float[Tensor, "replicas into nodes batch"],
    attention: Float[Tensor, "replicas heads readers nodes"],
    maps: Float[Tensor, "replicas into columns"],
    output: Float[Tensor, "replicas values hidden"],
    bias: Float[Tensor, "replicas hidden"] | None,
) -> Float[Tensor, "replicas hidden readers batch"]:
    """relu(u·M₀ + b + [A_1·u·V_1 | …]·W) for the first nodes, the readers; `maps`: [M₀ | V_1 | …]."""
    return by_hand(_Factored.apply, state, attention, maps, output, bias)


def mapped(
    state: Float[Tensor, "replicas into nodes batch"],
    weight: Float[Tensor, "replicas into out"],
    bias: Float[Tensor, "replicas out"] | None,
) -> Float[Tensor, "replicas out nodes batch"]:
    """u·W + b where the state lies as in `factored_layer`."""
    result = product(weight.mT, state.flatten(2))
    return (result if bias is None else result + bias.unsqueeze(2)).unflatten(2, state.shape[2:])
