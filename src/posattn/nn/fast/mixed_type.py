"""The mixed-type pair in fleets: folded as the models for numbers, and the last layer for node 0 alone.

The answer is read at node 0. So of 99 nodes the last layer needs the state of one, and what that one reads: a third of
the work of three layers is not done at all.
"""

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posattn.nn.fast import layer_by_layer
from posattn.nn.fast.folding import decoded, factor_each, fold, folded_decoder, middle_maps
from posattn.nn.fast.kernel_limits import kernels_hold, samples_fit
from posattn.nn.fast.positional import attention
from posattn.nn.fast.positional_layer import mixed_layer, moved
from posattn.nn.fast.products import beside, linear, with_identity
from posattn.nn.fast.standard import fold_logits
from posattn.nn.fast.standard_layer import attending_layer, attending_node, reading_node
from posattn.nn.initial_weights import Params
from posattn.nn.mixed_type import Mixed, MixedPositional, MixedStandard


def form(sizes: Mixed, *, device: torch.device, precision: str) -> Callable[..., Tensor]:
    """Layer by layer where the matrices of the logits do not multiply, or every product is to be rounded."""
    if precision == "bf16" or (isinstance(sizes, MixedStandard) and sizes.rotary):
        return layer_by_layer.form(sizes, device=device, precision=precision)
    widest = max(sizes.embed_dim, sizes.hidden_dim)
    if device.type == "cuda" and kernels_hold(device, precision, nodes=sizes.nodes, widest=widest):
        return partial(by_rows, sizes)
    return partial(plain(sizes), sizes)


def plain(sizes: Mixed) -> Callable[..., Tensor]:
    """The model's own form in PyTorch's products."""
    return standard if isinstance(sizes, MixedStandard) else positional


def by_rows(
    sizes: Mixed,
    p: Params,
    characters: Int[Tensor, "replicas batch characters"],
    numbers: Float[Tensor, "replicas batch numbers"],
) -> Float[Tensor, "replicas batch out_dim"]:
    """Both models in the kernels of `posattn.nn.kernels`, with values as narrow as their heads."""
    widest = max(sizes.embed_dim, sizes.hidden_dim)
    if not samples_fit(numbers, nodes=sizes.nodes, widest=widest, heads=sizes.heads):
        return plain(sizes)(sizes, p, characters, numbers)
    from posattn.nn.kernels.reading_layer import attending_layer, mapped, mixing_layer

    state = layer_by_layer.embedded(sizes, p, characters, numbers)
    *layers, last = factor_each(p, embedded=True)
    matrices = last.matrices(sizes.heads), last.bias
    if isinstance(sizes, MixedStandard):
        state = state + p["position_embedding"].unsqueeze(1)
        *logits, last_logits = fold_logits(p, sizes.heads, embedded=True)
        for index, (layer, (n, c)) in enumerate(zip(layers, logits, strict=True)):
            maps = torch.cat([beside(n), layer.maps], dim=2)
            state = attending_layer(state, maps, c.flatten(1), layer.output, layer.bias, heads=sizes.heads)
            for weight, bias in middle_maps(p, index):
                state = mapped(state, weight, bias)
        state = attending_node(state, *last_logits, *matrices)
    else:
        assert isinstance(sizes, MixedPositional)
        *mixing, last_mixing = attention(sizes, p, sizes.length).unbind(1)
        for index, (layer, weights) in enumerate(zip(layers, mixing, strict=True)):
            state = mixing_layer(state, weights, *layer)
            for weight, bias in middle_maps(p, index):
                state = mapped(state, weight, bias)
        state = reading_node(last_mixing[:, None, :, 0], state, *matrices)
    for weight, bias in middle_maps(p, sizes.depth - 1):
        state = linear(state, weight, bias).relu()
    return decoded(state, *folded_decoder(p))


def positional(
    sizes: MixedPositional,
    p: Params,
    characters: Int[Tensor, "replicas batch characters"],
    numbers: Float[Tensor, "replicas batch numbers"],
) -> Float[Tensor, "replicas batch out_dim"]:
    """Attention sees positions: one matrix for the nodes of all samples, which lie side by side."""
    mixing = [*with_identity(attention(sizes, p, sizes.length)).unbind(1)]
    mixing[-1] = mixing[-1][:, :, :1]
    state = layer_by_layer.embedded(sizes, p, characters, numbers).permute(0, 2, 3, 1).contiguous()
    for index, layer in enumerate(fold(p, sizes.heads, embedded=True)):
        state = mixed_layer(state, mixing[index], *layer)
        for weight, bias in middle_maps(p, index):
            state = moved(state, weight, bias).relu()
    return moved(state, *folded_decoder(p)).squeeze(1).mT


def standard(
    sizes: MixedStandard,
    p: Params,
    characters: Int[Tensor, "replicas batch characters"],
    numbers: Float[Tensor, "replicas batch numbers"],
) -> Float[Tensor, "replicas batch out_dim"]:
    """Attention sees values, which start with their position's embedding."""
    state = layer_by_layer.embedded(sizes, p, characters, numbers) + p["position_embedding"].unsqueeze(1)
    folded = zip(fold(p, sizes.heads, embedded=True), fold_logits(p, sizes.heads, embedded=True), strict=True)
    for index, (layer, logits) in enumerate(folded):
        layer_of = attending_node if index == sizes.depth - 1 else attending_layer
        state = layer_of(state, *logits, *layer)
        for weight, bias in middle_maps(p, index):
            state = linear(state, weight, bias).relu()
    return decoded(state, *folded_decoder(p))
