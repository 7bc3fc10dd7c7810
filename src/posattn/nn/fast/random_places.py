"""The positional Transformer with random places, folded: its attention is looked up in tables of pairs of places.

Attention differs from sample to sample, but a logit depends on two places alone. So the logits of all pairs are one
small table per head, made of the weights, and samples take theirs from it: no node has queries and keys of its own.
What remains is the folded form of `positional`, with an attention for every sample. `benchmarks/random_places.py`
measures it beside the layer-by-layer form.
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

#: How many times a table's entries are looked up by a batch, at least. With as many as there are, 512 numbers at 1,024
#: places took 1.5 to 1.75 times as long as layer by layer.
LOOKED_UP = 4
#: Nodes from which on PyTorch's softmax is faster along the last axis: those that fill a register of AVX-512. With six
#: nodes of 512 samples it takes ten times as long there as along the first, and so it does with AVX2.
MANY_NODES = 16


def form(sizes: RandomPlaces, *, device: torch.device, precision: str) -> Callable[..., Tensor]:
    """Layer by layer on a GPU, where tables have not been measured; in bfloat16, since folding rounds once more; and
    where MLPs are wider than the state, since folded values are as wide (64 to 256: 1.6 times as long)."""
    if device.type == "cuda" or precision == "bf16" or sizes.hidden_dim > sizes.embed_dim:
        return layer_by_layer.form(sizes, device=device, precision=precision)
    return partial(folded, sizes)


def folded(
    sizes: RandomPlaces,
    p: Params,
    x: Float[Tensor, "replicas batch length in_dim"],
    places: Int[Tensor, "replicas batch length"],
) -> Float[Tensor, "replicas batch length out_dim"]:
    """The same function, by tables where a batch looks up enough of them."""
    if x.shape[1] * (x.shape[2] + sizes.scratchpad) ** 2 < LOOKED_UP * sizes.nodes**2:
        return layer_by_layer.numeric(sizes, p, x, places)
    nodes = x.shape[2] + sizes.scratchpad
    axis = 4 if nodes >= MANY_NODES else 1
    asked, tables = entries_of(sizes, places).movedim(4, axis).contiguous(), logits(p, sizes.heads).unbind(1)
    state = inputs(sizes, p, x)
    for index, layer in enumerate(fold(p, sizes.heads)):
        state = read(state, attention(tables[index], asked, axis), layer)
        for weight, bias in middle_maps(p, index):
            state = linear(state, weight, bias).relu()
    return linear(state, *folded_decoder(p))[:, :, : x.shape[2]]


def entries_of(
    sizes: RandomPlaces, places: Int[Tensor, "replicas batch length"]
) -> Int[Tensor, "replicas batch readers heads nodes"]:
    """Where a layer's table, laid end to end, holds what each node makes of each: by its place and the other's.

    A place that no node of the model has is a pair outside the table for the node that stands there. The rows after
    the last place are the scratchpad's; only the model itself tells them from places.
    """
    scratchpad = torch.arange(sizes.length, sizes.nodes, device=places.device).expand(*places.shape[:2], -1)
    nodes = torch.cat([places, scratchpad], dim=2)
    pairs = sizes.nodes * nodes.unsqueeze(3) + nodes.unsqueeze(2)
    return sizes.heads * pairs.unsqueeze(3) + torch.arange(sizes.heads, device=places.device).unsqueeze(1)


def logits(p: Params, heads: int) -> Float[Tensor, "replicas layers places places heads"]:
    """Q·Kᵀ/√d_k of every two places; the scratchpad's are the last."""
    position = p["encoding"].unsqueeze(1)
    query, key = (
        split_heads(position @ p[f"{name}_weight"] + p[f"{name}_bias"].unsqueeze(2), heads) for name in ("query", "key")
    )
    return (query @ key.mT / math.sqrt(query.shape[-1])).movedim(2, -1)


def attention(
    table: Float[Tensor, "replicas places places heads"], asked: Int[Tensor, "replicas ..."], axis: int
) -> Float[Tensor, "samples readers weights"]:
    """One layer's attention: a sample's row has a weight for every node by the first head, then by the next.

    `asked` is what `entries_of` gives, with the nodes that are read along `axis`.
    """
    chosen = table.flatten(1).gather(1, asked.flatten(1)).view_as(asked)
    return chosen.softmax(axis).movedim(axis, 4).flatten(3).flatten(0, 1)


def read(
    state: Float[Tensor, "replicas batch nodes into"],
    weights: Float[Tensor, "samples readers weights"],
    layer: FoldedLayer,
) -> Float[Tensor, "replicas batch nodes hidden"]:
    """relu(u·M₀ + b + Σ_h A_h·u·M_h), every sample with its own A_h."""
    heads = layer.matrices.shape[1] - 1
    own = linear(state, layer.matrices[:, 0], layer.bias)
    values = linear(state, beside(layer.matrices[:, 1:]), None).unflatten(3, (heads, -1))
    found = torch.baddbmm(own.flatten(0, 1), weights, values.transpose(2, 3).flatten(0, 1).flatten(1, 2))
    return found.relu().view_as(own)
