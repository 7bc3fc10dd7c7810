"""The positional Transformer with random places, folded: its attention is looked up in tables of pairs of places.

Attention differs from sample to sample, but a logit depends on two places alone. So the logits of all pairs are one
small table per head, made of the weights, and samples take theirs from it: no node has queries and keys of its own.
What remains is the folded form of `positional`, with an attention for every sample. On a CPU a step of the paper's size
(32 places, 512 samples) takes two fifths of the time that it takes layer by layer.
"""

import math
from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posattn.nn.fast import layer_by_layer
from posattn.nn.fast.folding import FoldedLayer, fold, folded_decoder, middle_maps
from posattn.nn.fast.nodes import inputs
from posattn.nn.fast.products import beside, linear, split_heads
from posattn.nn.initial_weights import Params
from posattn.nn.random_places import RandomPlaces


def form(sizes: RandomPlaces, *, device: torch.device, precision: str) -> Callable[..., Tensor]:
    """Layer by layer on a GPU, where tables have not been measured, and in bfloat16, which would round them twice."""
    if device.type == "cuda" or precision == "bf16":
        return layer_by_layer.form(sizes, device=device, precision=precision)
    return partial(folded, sizes)


def folded(
    sizes: RandomPlaces,
    p: Params,
    x: Float[Tensor, "replicas batch length in_dim"],
    places: Int[Tensor, "replicas batch length"],
) -> Float[Tensor, "replicas batch length out_dim"]:
    """The same function with half the multiplications, unless samples ask for fewer pairs than the tables have."""
    if sizes.nodes**2 > x.shape[1] * (x.shape[2] + sizes.scratchpad) ** 2:
        return layer_by_layer.numeric(sizes, p, x, places)
    reading = attention(sizes, p, places)
    state = inputs(sizes, p, x)
    for index, layer in enumerate(fold(p, sizes.heads)):
        state = read(state, reading[index], layer)
        for weight, bias in middle_maps(p, index):
            state = linear(state, weight, bias).relu()
    return linear(state, *folded_decoder(p))[:, :, : x.shape[2]]


def attention(
    sizes: RandomPlaces, p: Params, places: Int[Tensor, "replicas batch length"]
) -> list[Float[Tensor, "samples readers pairs"]]:
    """Attention of every layer at once: a sample's row has a weight for every node that is read, by every head."""
    tables = logits(p, sizes.heads).permute(0, 3, 4, 1, 2)  # (replicas, reader, read, layers, heads)
    replicas, rows = tables.shape[:2]
    scratchpad = torch.arange(sizes.length, rows, device=places.device).expand(*places.shape[:2], -1)
    nodes = torch.cat([places, scratchpad], dim=2)
    readers = nodes + rows * torch.arange(replicas, device=places.device)[:, None, None]
    pairs = rows * readers.unsqueeze(3) + nodes.unsqueeze(2)
    found = torch.nn.functional.embedding(pairs, tables.flatten(0, 2).flatten(1)).softmax(3)
    by_layer = found.unflatten(4, tables.shape[3:]).flatten(0, 1).permute(3, 0, 1, 2, 4)
    return [*by_layer.flatten(3).unbind(0)]


def logits(p: Params, heads: int) -> Float[Tensor, "replicas layers heads places places"]:
    """Q·Kᵀ/√d_k of every place, and of the scratchpad, with every other."""
    position = p["encoding"].unsqueeze(1)
    query, key = (
        split_heads(position @ p[f"{name}_weight"] + p[f"{name}_bias"].unsqueeze(2), heads) for name in ("query", "key")
    )
    return query @ key.mT / math.sqrt(query.shape[-1])


def read(
    state: Float[Tensor, "replicas batch nodes into"],
    reading: Float[Tensor, "samples readers pairs"],
    layer: FoldedLayer,
) -> Float[Tensor, "replicas batch nodes hidden"]:
    """relu(u·M₀ + b + Σ_h A_h·u·M_h), every sample with its own A_h."""
    own = linear(state, layer.matrices[:, 0], layer.bias)
    values = linear(state, beside(layer.matrices[:, 1:]), None)
    found = torch.baddbmm(own.flatten(0, 1), reading, values.view(*reading.shape[::2], -1))
    return found.relu().view_as(own)
