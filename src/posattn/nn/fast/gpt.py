"""The GPT-style pair in fleets: one map for all that is read from a state, one product for what all samples share."""

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional
from torch.nn.functional import scaled_dot_product_attention

from posattn.nn.fast.products import (
    affine,
    attention_weights,
    cut,
    half,
    linear,
    look_up,
    merge_heads,
    pieces_of,
    split_heads,
    uncut,
)
from posattn.nn.gpt import GELUS, GPTArchitecture
from posattn.nn.initial_weights import Params

#: What the kernels of `fused` hold at once: width of the state, nodes, width of a head.
WIDEST, MOST_NODES, WIDEST_HEAD = 64, 128, 32

#: Maps that follow attention.
MAPS = tuple(f"{name}_{part}" for name in ("output", "mlp_in", "mlp_out") for part in ("weight", "bias"))


def form(sizes: GPTArchitecture, *, device: torch.device, precision: str) -> Callable[..., Tensor]:
    """Kernels where they hold the model and TF32 is asked for."""
    fits = sizes.embed_dim <= WIDEST and sizes.length <= MOST_NODES and sizes.embed_dim <= sizes.heads * WIDEST_HEAD
    if device.type == "cuda" and precision == "tf32" and fits:
        return partial(fused, sizes)
    return partial(joined, sizes) if precision != "bf16" else half(partial(joined, sizes), device)


def joined(sizes: GPTArchitecture, p: Params, *inputs: Tensor) -> Float[Tensor, "replicas batch nodes vocabulary"]:
    """Ordinary operations. Can be differentiated once, as PyTorch's fused attention."""
    return _through(sizes, p, *inputs, attend=joined_attention, follow=joined_residual)


def fused(sizes: GPTArchitecture, p: Params, *inputs: Tensor) -> Float[Tensor, "replicas batch nodes vocabulary"]:
    """The same with what costs most as Triton kernels, rounded to TF32 on a GPU. Can be differentiated once."""
    from posattn.nn.kernels.causal_attention import causal_attention
    from posattn.nn.kernels.gpt_mlp import residual

    def follow(layer: Params, state: Tensor, attended: Tensor, gelu: str) -> Tensor:
        return residual(state, attended, *(layer[name] for name in MAPS), tanh=gelu == "tanh")

    return _through(sizes, p, *inputs, attend=causal_attention, follow=follow)


def _through(
    sizes: GPTArchitecture, p: Params, tokens: Tensor, *, attend: Callable[..., Tensor], follow: Callable[..., Tensor]
) -> Float[Tensor, "replicas batch nodes vocabulary"]:
    replicas, _, nodes = tokens.shape
    position = p["position_embedding"][:, :nodes]
    state = look_up(p["token_embedding"], tokens)
    if not sizes.positional:
        state = state + position.unsqueeze(1)
    pieces = pieces_of(state.flatten(1, 2), whole=nodes)
    shared = attention(sizes, p, position).unbind(1) if sizes.positional else ()
    for index, layer in enumerate(layered(sizes, p, pieces)):
        read = uncut(affine(layer, "read", cut(state, pieces)), replicas)
        attended = mix(shared[index], read) if sizes.positional else attend(read, sizes.heads)
        state = follow(layer, state, attended, sizes.gelu)
    return affine(p, "decoder", state)


def layered(sizes: GPTArchitecture, p: Params, pieces: int) -> list[Params]:
    """Each layer's maps: `read`, all that is read from the state (once a piece), then output, mlp_in, mlp_out."""
    names = ("value",) if sizes.positional else ("query", "key", "value")
    stacks = {name: p[name] for name in MAPS}
    for part in ("weight", "bias"):
        joined = torch.cat([p[f"{name}_{part}"] for name in names], dim=-1)
        stacks[f"read_{part}"] = joined.repeat_interleave(pieces, dim=0)
    parts = {name: stack.unbind(1) for name, stack in stacks.items()}  # one gradient for all layers together
    return [{name: part[index] for name, part in parts.items()} for index in range(sizes.layers)]


def attention(
    sizes: GPTArchitecture, p: Params, position: Float[Tensor, "replicas nodes width"]
) -> Float[Tensor, "replicas layers heads nodes nodes"]:
    """How strongly positions attend to positions, in all layers at once: no layer waits for the one before it."""
    seen = position.unsqueeze(1).expand(-1, sizes.layers, -1, -1).flatten(0, 1)
    query, key = (
        linear(seen, p[f"{name}_weight"].flatten(0, 1), p[f"{name}_bias"].flatten(0, 1)) for name in ("query", "key")
    )
    weights = attention_weights(split_heads(query, sizes.heads), split_heads(key, sizes.heads), causal=True)
    return weights.unflatten(0, (-1, sizes.layers))


def joined_attention(
    read: Float[Tensor, "replicas batch nodes thrice"], heads: int
) -> Float[Tensor, "replicas batch nodes width"]:
    """Every head's causal attention, from queries, keys and values that lie side by side."""
    query, key, values = (split_heads(x, heads).flatten(0, 1) for x in read.chunk(3, dim=-1))  # kernels take four axes
    attended = merge_heads(scaled_dot_product_attention(query, key, values, is_causal=True))
    return attended.unflatten(0, read.shape[:2])


def joined_residual(
    layer: Params,
    state: Float[Tensor, "replicas batch nodes width"],
    attended: Float[Tensor, "replicas batch nodes width"],
    gelu: str,
) -> Float[Tensor, "replicas batch nodes width"]:
    """What follows attention in a layer."""
    state = state + affine(layer, "output", attended)
    hidden = functional.gelu(affine(layer, "mlp_in", state), approximate=GELUS[gelu])
    return state + affine(layer, "mlp_out", hidden)


def mix(
    weights: Float[Tensor, "replicas heads nodes nodes"], read: Float[Tensor, "replicas batch nodes width"]
) -> Float[Tensor, "replicas batch nodes width"]:
    """A·V with the weights that all samples share: one product with the samples side by side, no copies of A."""
    replicas, batch, nodes, _ = read.shape
    values = split_heads(read, weights.shape[1])
    beside = values.permute(0, 2, 3, 1, 4).reshape(replicas, -1, nodes, batch * values.shape[4])
    mixed = (weights @ beside).unflatten(3, (batch, -1))
    return merge_heads(mixed.permute(0, 3, 1, 2, 4))
