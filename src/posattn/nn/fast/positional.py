"""The positional Transformer in fleets: between two ReLUs it is linear in its state, so matrices multiply first."""

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from posattn.nn.fast import shifted
from posattn.nn.fast.factored_layer import factored_layer, mapped
from posattn.nn.fast.folding import decoded, factor, factor_each, fold, folded_decoder, middle_maps
from posattn.nn.fast.kernel_limits import kernels_hold, samples_fit
from posattn.nn.fast.nodes import inputs, rows
from posattn.nn.fast.positional_layer import expanded_layer, mixed_layer, moved
from posattn.nn.fast.products import attention_weights, linear, split_heads, with_identity
from posattn.nn.fast.two_stages import TwoStages
from posattn.nn.initial_weights import Params
from posattn.nn.positional import Positional


def form(sizes: Positional, *, device: torch.device, precision: str) -> Callable[..., Tensor] | None:
    """Tensor cores do far more arithmetic than it takes to feed them: there, expanded is faster."""
    if sizes.carried:
        return None if precision == "bf16" else partial(shifted_form, sizes)
    if device.type == "cuda" and precision in ("tf32", "bf16") and sizes.nodes <= 8 * (1 + sizes.heads):
        return partial(expanded, sizes, dtype=torch.bfloat16 if precision == "bf16" else None)
    # Autocast rounds the model's own products one by one; folded matrices would be rounded once more.
    if precision == "bf16":
        return None
    if device.type == "cuda":
        widest = max(sizes.embed_dim, sizes.hidden_dim)
        suits = has_narrow_heads(sizes) and kernels_hold(device, precision, nodes=sizes.nodes, widest=widest)
        return partial(by_rows, sizes) if suits else partial(folded, sizes)
    return factored(sizes) if has_narrow_heads(sizes) else partial(folded, sizes)


def has_narrow_heads(sizes: Positional) -> bool:
    """Whether `factored` multiplies less than `folded`, for one node in a layer that reads what another gave."""
    heads, nodes, embed, hidden = sizes.heads, sizes.nodes, sizes.embed_dim, sizes.hidden_dim
    folded = (1 + heads) * hidden * hidden + heads * nodes * hidden
    return hidden * (hidden + embed) + embed * hidden + nodes * embed < folded


def attention(sizes: Positional, p: Params, length: int) -> Float[Tensor, "replicas layers heads nodes nodes"]:
    """Attention of every layer at once: it needs P and no input."""
    layers = p["query_weight"].shape[1]
    position = rows(sizes, p, "encoding", length).unsqueeze(1).expand(-1, layers, -1, -1)
    query = position @ p["query_weight"] + p["query_bias"].unsqueeze(2)
    key = position @ p["key_weight"] + p["key_bias"].unsqueeze(2)
    return attention_weights(split_heads(query, sizes.heads), split_heads(key, sizes.heads))


def shifted_form(
    sizes: Positional, p: Params, x: Float[Tensor, "replicas batch length 1"]
) -> Float[Tensor, "replicas batch length 1"]:
    """Under a shift, layers have a carrier beside their channels."""
    return shifted.folded(sizes, p, x, with_identity(attention(sizes, p, x.shape[2])))


def folded(
    sizes: Positional, p: Params, x: Float[Tensor, "replicas batch length in_dim"]
) -> Float[Tensor, "replicas batch length out_dim"]:
    """The same function with fewer than half the multiplications: the state is what the last ReLU gave."""
    length = x.shape[2]
    mixing = with_identity(attention(sizes, p, length)).unbind(1)
    state = inputs(sizes, p, x).permute(0, 2, 3, 1).contiguous()  # (replicas, nodes, features, batch)
    for index, layer in enumerate(fold(p, sizes.heads)):
        state = mixed_layer(state, mixing[index], *layer)
        for weight, bias in middle_maps(p, index):
            state = moved(state, weight, bias).relu()
    return moved(state, *folded_decoder(p))[:, :length].permute(0, 3, 1, 2)


def factored(sizes: Positional) -> TwoStages:
    """The folded form with less to mix: values stay as narrow as their heads. The first layer mixes numbers."""
    kept = 2 * sizes.nodes * (sizes.hidden_dim + sizes.embed_dim)
    return TwoStages(partial(factored_maps, sizes), partial(factored_pass, sizes), kept)


def factored_maps(sizes: Positional, p: Params, x: Float[Tensor, "replicas batch length in_dim"]) -> Params:
    """All that `factored_pass` needs of the weights."""
    mixing = attention(sizes, p, x.shape[2])
    first, *others = factor(p)
    (entry,) = first.each()
    maps: dict[str, Tensor | None] = {
        "first_mixing": with_identity(mixing[:, :1]).squeeze(1),
        "first_maps": entry.matrices(sizes.heads).transpose(1, 2).flatten(1, 2),
        "first_bias": entry.bias,
        "mixing": mixing[:, 1:],
    }
    for layers in others:
        maps |= {"maps": layers.maps, "output": layers.output, "bias": layers.bias}
    maps["decoder"], maps["decoder_bias"] = folded_decoder(p)
    maps |= {name: p[name] for name in ("mlp_middle_weight", "mlp_middle_bias", "constants") if name in p}
    return {name: tensor for name, tensor in maps.items() if tensor is not None}


def factored_pass(
    sizes: Positional, maps: Params, x: Float[Tensor, "replicas batch length in_dim"]
) -> Float[Tensor, "replicas batch length out_dim"]:
    """What the model answers, from its maps; nobody reads the scratchpad after the last layer."""
    length = x.shape[2]
    numbers = inputs(sizes, maps, x).permute(0, 3, 2, 1)  # (replicas, features, nodes, batch)
    beside = maps["first_mixing"].flatten(1, 2).unsqueeze(1) @ numbers
    beside = beside.unflatten(2, (-1, numbers.shape[2])).flatten(1, 2)  # every node's numbers, and those it reads
    state = mapped(beside, maps["first_maps"], maps.get("first_bias")).relu()
    names = ("mixing", "maps", "output", "bias")
    stacks = [maps[name].unbind(1) if name in maps else [None] * (sizes.depth - 1) for name in names]
    others = [*zip(*stacks, strict=True)]
    for index in range(sizes.depth):
        if index:
            mixing, *layer = others[index - 1]
            readers = length if index == sizes.depth - 1 else mixing.shape[2]
            state = factored_layer(state, mixing[:, :, :readers], *layer)
        for weight, bias in middle_maps(maps, index):
            state = mapped(state, weight, bias).relu()
    return mapped(state[:, :, :length], maps["decoder"], maps.get("decoder_bias")).permute(0, 3, 2, 1)


def by_rows(
    sizes: Positional, p: Params, x: Float[Tensor, "replicas batch length in_dim"]
) -> Float[Tensor, "replicas batch length out_dim"]:
    """The factored form in the kernels of `posattn.nn.kernels`, in which a sample's nodes are neighbouring rows."""
    length, nodes = x.shape[2], x.shape[2] + sizes.scratchpad
    widest = max(sizes.input_width, sizes.embed_dim, sizes.hidden_dim)
    if not samples_fit(x, nodes=nodes, widest=widest, heads=sizes.heads):
        return folded(sizes, p, x)
    from posattn.nn.kernels.reading_layer import mapped, mixing_layer

    mixing, (first, *others) = attention(sizes, p, length).unbind(1), factor_each(p)
    numbers = inputs(sizes, p, x)
    read = with_identity(mixing[0].unsqueeze(1)).flatten(1, 3) @ numbers.permute(0, 2, 3, 1).flatten(2)
    read = read.unflatten(2, (numbers.shape[3], -1)).unflatten(1, (-1, nodes))
    beside = read.permute(0, 4, 2, 1, 3).flatten(3)  # every node's numbers, then those that each head reads
    state = mapped(beside, first.matrices(sizes.heads).flatten(1, 2), first.bias)
    for index in range(sizes.depth):
        if index:
            state = mixing_layer(state, mixing[index], *others[index - 1])
        for weight, bias in middle_maps(p, index):
            state = mapped(state, weight, bias)
    return decoded(state, *folded_decoder(p))[:, :, :length]


def expanded(
    sizes: Positional,
    p: Params,
    x: Float[Tensor, "replicas batch length in_dim"],
    *,
    dtype: torch.dtype | None = None,
) -> Float[Tensor, "replicas batch length out_dim"]:
    """The folded form with nodes and features in one axis: more arithmetic, in few large products of `dtype`."""
    length, nodes = x.shape[2], x.shape[2] + sizes.scratchpad
    mixing = with_identity(attention(sizes, p, length)).unbind(1)
    state = inputs(sizes, p, x).flatten(2).to(dtype or x.dtype)
    for index, layer in enumerate(fold(p, sizes.heads)):
        state = expanded_layer(state, mixing[index], *layer)
        for weight, bias in middle_maps(p, index):
            state = linear(state.unflatten(2, (nodes, -1)).to(x.dtype), weight, bias).relu().flatten(2)
    return decoded(state.unflatten(2, (nodes, -1)).to(x.dtype), *folded_decoder(p))[:, :, :length]
