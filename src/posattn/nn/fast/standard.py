"""The standard Transformer in fleets: the matrices between two ReLUs, and those of the logits, multiply first."""

import math
from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from posattn.nn.fast import layer_by_layer
from posattn.nn.fast.folding import decoded, entries, factor_each, fold, folded_decoder, middle_maps
from posattn.nn.fast.kernel_limits import kernels_hold, samples_fit
from posattn.nn.fast.nodes import inputs
from posattn.nn.fast.products import beside, linear, split_heads
from posattn.nn.fast.standard_layer import attending_layer
from posattn.nn.fast.two_stages import TwoStages
from posattn.nn.initial_weights import Params
from posattn.nn.rotary import turning
from posattn.nn.standard import Standard

#: A layer's N, c, M and b.
MAPS = ("logits", "logits_bias", "maps", "bias")


def form(sizes: Standard, *, device: torch.device, precision: str) -> Callable[..., Tensor] | None:
    """A rotary model goes layer by layer where there are no kernels: W_Q and W_K cannot be multiplied."""
    kernels = device.type == "cuda" and kernels_hold(device, precision, nodes=sizes.nodes, widest=widest(sizes))
    if sizes.rotary:
        return partial(turned, sizes) if kernels else layer_by_layer.form(sizes, device=device, precision=precision)
    # Autocast rounds the model's own products one by one; folded matrices would be rounded once more.
    if precision == "bf16":
        return None
    return partial(by_rows, sizes) if kernels else folded(sizes)


def widest(sizes: Standard) -> int:
    """The widest state that a layer reads or gives."""
    return max(sizes.input_width, sizes.embed_dim, sizes.hidden_dim)


def folded(sizes: Standard) -> TwoStages:
    """The same function with half the multiplications: the state is only ever what the last ReLU gave."""
    hidden, heads = sizes.hidden_dim, sizes.heads
    kept = sizes.nodes * (2 * (1 + heads) * hidden + 3 * heads * sizes.nodes)
    return TwoStages(partial(folded_maps, sizes), partial(folded_pass, sizes), kept)


def folded_maps(sizes: Standard, p: Params, x: Float[Tensor, "replicas batch length in_dim"]) -> Params:
    """All that `folded_pass` needs of the weights."""
    maps: dict[str, Tensor | None] = {}
    for index, (layer, logits) in enumerate(zip(fold(p, sizes.heads), fold_logits(p, sizes.heads), strict=True)):
        maps |= {f"{name} {index}": tensor for name, tensor in zip(MAPS, (*logits, *layer), strict=True)}
    maps["decoder"], maps["decoder_bias"] = folded_decoder(p)
    maps |= {name: p[name] for name in ("mlp_middle_weight", "mlp_middle_bias", "constants", "encoding") if name in p}
    return {name: tensor for name, tensor in maps.items() if tensor is not None}


def folded_pass(
    sizes: Standard, maps: Params, x: Float[Tensor, "replicas batch length in_dim"]
) -> Float[Tensor, "replicas batch length out_dim"]:
    """What the model answers, from its maps."""
    state = inputs(sizes, maps, x)
    for index in range(sizes.depth):
        logits, shift, matrices = (maps[f"{name} {index}"] for name in MAPS[:3])
        state = attending_layer(state, logits, shift, matrices, maps.get(f"bias {index}"))
        for weight, bias in middle_maps(maps, index):
            state = linear(state, weight, bias).relu()
    return decoded(state, maps["decoder"], maps.get("decoder_bias"))[:, :, : x.shape[2]]


def by_rows(
    sizes: Standard, p: Params, x: Float[Tensor, "replicas batch length in_dim"]
) -> Float[Tensor, "replicas batch length out_dim"]:
    """The folded form in the kernels of `posattn.nn.kernels`, with values as narrow as their heads."""
    if not samples_fit(x, nodes=x.shape[2] + sizes.scratchpad, widest=widest(sizes), heads=sizes.heads):
        return folded(sizes)(p, x)
    from posattn.nn.kernels.reading_layer import attending_layer, mapped

    state = inputs(sizes, p, x)
    for index, (layer, (n, c)) in enumerate(zip(factor_each(p), fold_logits(p, sizes.heads), strict=True)):
        maps = torch.cat([beside(n), layer.maps], dim=2)
        state = attending_layer(state, maps, c.flatten(1), layer.output, layer.bias, heads=sizes.heads)
        for weight, bias in middle_maps(p, index):
            state = mapped(state, weight, bias)
    return decoded(state, *folded_decoder(p))[:, :, : x.shape[2]]


def turned(
    sizes: Standard, p: Params, x: Float[Tensor, "replicas batch length in_dim"]
) -> Float[Tensor, "replicas batch length out_dim"]:
    """A rotary model by the same kernels: W_Q and W_K multiply with the map before them alone."""
    if not samples_fit(x, nodes=x.shape[2] + sizes.scratchpad, widest=widest(sizes), heads=sizes.heads):
        return layer_by_layer.numeric(sizes, p, x)
    from posattn.nn.kernels.reading_layer import attending_layer, mapped

    state = inputs(sizes, p, x)
    scaled = p["query_weight"] / math.sqrt(sizes.query_width), p["query_bias"] / math.sqrt(sizes.query_width)
    query, key = through(p, *scaled), through(p, p["key_weight"], p["key_bias"])
    turns = turning(state.shape[2], sizes.query_width, device=state.device).to(state.dtype)
    for index, layer in enumerate(factor_each(p)):
        (q, q_shift), (k, k_shift) = query[index], key[index]
        maps, shift = torch.cat([q, k, layer.maps], dim=2), torch.cat([q_shift, k_shift], dim=1)
        state = attending_layer(state, maps, shift, layer.output, layer.bias, heads=sizes.heads, turns=turns)
        for weight, bias in middle_maps(p, index):
            state = mapped(state, weight, bias)
    return decoded(state, *folded_decoder(p))[:, :, : x.shape[2]]


def through(
    p: Params, weight: Float[Tensor, "replicas layers embed out"], bias: Float[Tensor, "replicas layers out"]
) -> list[tuple[Float[Tensor, "replicas into out"], Float[Tensor, "replicas out"]]]:
    """A map of every layer's state x = u·E + e as one of u: E·W and e·W + b."""
    found: list[tuple[Tensor, Tensor]] = []
    before, counts = entries(p)
    for entry, maps, shift in zip(before, weight.split(counts, dim=1), bias.split(counts, dim=1), strict=True):
        assert entry is not None
        shift = shift if entry.bias is None else shift + (entry.bias @ maps).squeeze(2)
        found += zip((entry.weight @ maps).unbind(1), shift.unbind(1), strict=True)
    return found


def fold_logits(
    p: Params, heads: int, *, embedded: bool = False
) -> list[tuple[Float[Tensor, "replicas heads into into"], Float[Tensor, "replicas heads into"]]]:
    """N_h = E·W_Q,h·W_K,hᵀ·Eᵀ/√d_k and c_h = (e·W_Q,h + b_Q,h)·W_K,hᵀ·Eᵀ/√d_k, so that logits are (u·N + c)·uᵀ.

    With x = u·E + e, what is left out (terms with b_K, and e on the key's side) is the same for all keys, and
    softmax over the keys does not see it.
    """
    found: list[tuple[Tensor, Tensor]] = []
    before, counts = entries(p, embedded=embedded)
    stacks = (p[name].split(counts, dim=1) for name in ("query_weight", "key_weight", "query_bias"))
    for entry, query, key, shift in zip(before, *stacks, strict=True):
        bias = shift.unsqueeze(2)
        if entry is not None:
            bias = bias if entry.bias is None else bias + entry.bias @ query
            query, key = entry.weight @ query, entry.weight @ key
        query, key, bias = (split_heads(x, heads) for x in (query, key, bias))
        back = key.mT / math.sqrt(key.shape[-1])  # W_K,hᵀ·Eᵀ/√d_k: (replicas, layers, heads, d_k, into)
        found += zip((query @ back).unbind(1), (bias @ back).squeeze(3).unbind(1), strict=True)
    return found
