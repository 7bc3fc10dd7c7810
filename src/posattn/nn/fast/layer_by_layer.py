"""Models whose layers cannot be folded, in fleets: the formula itself, in products that keep a GPU busy.

Mapped over replicas (`any_model`) they would be right too, but the gradient of a weight, a sum over all nodes of all
samples, would be left to a small part of the GPU (`products.pieces_of`): 1.3 times slower for 15 hybrid models on an
H200.
"""

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posattn.nn.fast.folding import middle_maps
from posattn.nn.fast.nodes import inputs, rows
from posattn.nn.fast.products import affine, attention_weights, half, linear, look_up, merge_heads, split_heads
from posattn.nn.hybrid import Hybrid
from posattn.nn.initial_weights import Params
from posattn.nn.mixed_type import Mixed, MixedStandard
from posattn.nn.numeric_sizes import Numeric
from posattn.nn.random_places import RandomPlaces
from posattn.nn.rotary import rotate
from posattn.nn.standard import Standard

#: What attention sees of a state: (replicas, batch or 1, nodes, width).
See = Callable[[Tensor], Tensor]


def form(sizes: Numeric, *, device: torch.device, precision: str) -> Callable[..., Tensor]:
    """The same at every precision; bfloat16 by autocast."""
    run = partial(mixed if isinstance(sizes, Mixed) else numeric, sizes)
    return half(run, device) if precision == "bf16" else run


def numeric(
    sizes: Numeric, p: Params, x: Float[Tensor, "replicas batch length in_dim"], *places: Tensor
) -> Float[Tensor, "replicas batch length out_dim"]:
    """A hybrid or a rotary standard Transformer, or one whose nodes have places."""
    length = x.shape[2]
    state = affine(p, "encoder", inputs(sizes, p, x))
    if isinstance(sizes, RandomPlaces):
        position = placed(sizes, p, *places)
        state = layers(sizes, p, state, lambda state: position)
    elif isinstance(sizes, Hybrid):
        position = rows(sizes, p, "encoding", length).unsqueeze(1).expand(-1, x.shape[1], -1, -1)
        state = layers(sizes, p, state, lambda state: torch.cat([state, position], dim=-1))
    else:
        state = layers(sizes, p, state, lambda state: state)
    return affine(p, "decoder", state)[:, :, :length]


def mixed(
    sizes: Mixed,
    p: Params,
    characters: Int[Tensor, "replicas batch characters"],
    numbers: Float[Tensor, "replicas batch numbers"],
) -> Float[Tensor, "replicas batch out_dim"]:
    """The mixed-type pair."""
    state = embedded(sizes, p, characters, numbers)
    if isinstance(sizes, MixedStandard):
        state = layers(sizes, p, state + p["position_embedding"].unsqueeze(1), lambda state: state)
    else:
        position = p["encoding"].unsqueeze(1)
        state = layers(sizes, p, state, lambda state: position)
    return affine(p, "decoder", state[:, :, 0])


def embedded(
    sizes: Mixed,
    p: Params,
    characters: Int[Tensor, "replicas batch characters"],
    numbers: Float[Tensor, "replicas batch numbers"],
) -> Float[Tensor, "replicas batch nodes embed"]:
    """Characters through the embedding, numbers and the scratchpad's zeros through the encoder."""
    text = look_up(p["character_embedding"], characters)
    padded = torch.nn.functional.pad(numbers, (0, sizes.scratchpad)).unsqueeze(-1)
    return torch.cat([text, affine(p, "encoder", padded)], dim=2)


def placed(
    sizes: RandomPlaces, p: Params, places: Int[Tensor, "replicas batch length"]
) -> Float[Tensor, "replicas batch nodes width"]:
    """The rows of P at every sample's places, then the scratchpad's."""
    table = p["encoding"]
    found = table.gather(1, places.flatten(1).unsqueeze(-1).expand(-1, -1, table.shape[2]))
    scratchpad = table[:, None, sizes.length :].expand(-1, places.shape[1], -1, -1)
    return torch.cat([found.unflatten(1, places.shape[1:]), scratchpad], dim=2)


def layers(
    sizes: Numeric, p: Params, state: Float[Tensor, "replicas batch nodes embed"], see: See
) -> Float[Tensor, "replicas batch nodes embed"]:
    """x ← MLP([x ‖ W_O·concat_h(A_h·x·W_V,h)]), once per layer."""
    turned = rotate if isinstance(sizes, Standard) and sizes.rotary else lambda x: x
    for index in range(sizes.depth):
        seen = see(state)
        query = split_heads(affine(p, "query", seen, index), sizes.heads)
        key = split_heads(affine(p, "key", seen, index), sizes.heads)
        values = split_heads(affine(p, "value", state, index), sizes.heads)
        read = merge_heads(attention_weights(turned(query), turned(key)) @ values)
        attended = affine(p, "output", read, index)
        hidden = affine(p, "mlp_in", torch.cat([state, attended], dim=-1), index).relu()
        for weight, bias in middle_maps(p, index):
            hidden = linear(hidden, weight, bias).relu()
        state = affine(p, "mlp_out", hidden, index)
    return state
