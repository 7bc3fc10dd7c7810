"""Positional Transformers that commute with shifts, in fleets: between two ReLUs, a layer as every positional one has.

A state [s ‖ z] is linear in what the last ReLU gave once two more units hold relu(s) and relu(−s). So a layer is again
u ↦ relu(u·M₀ + Σ_h A_h·u·M_h + b), with two columns more, and runs in the kernels of `positional_layer`.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from posattn.nn.fast.folding import middle_maps
from posattn.nn.fast.positional_layer import mixed_layer, moved
from posattn.nn.initial_weights import Params
from posattn.nn.positional import Positional
from posattn.nn.shifted_layer import entered, left


def folded(
    sizes: Positional,
    p: Params,
    x: Float[Tensor, "replicas batch length 1"],
    mixing: Float[Tensor, "replicas layers mixed nodes nodes"],
) -> Float[Tensor, "replicas batch length 1"]:
    """The model's answers; `mixing`: [1, A_1, …, A_H] of every layer."""
    own, bias = _own(p, sizes.heads)
    state = entered(x, scratchpad=sizes.scratchpad, channels=0).permute(0, 2, 3, 1).contiguous()
    entry, entry_bias = own.new_zeros(own.shape[0], 1, own.shape[3]), None
    entry[:, 0, 0] = 1
    for index in range(sizes.depth):
        at = bias if bias is None else bias[:, index]
        if at is not None and entry_bias is not None:
            at = at + (entry_bias.unsqueeze(1) @ own[:, index].sum(1)).squeeze(1)
        state = mixed_layer(state, mixing[:, index], entry.unsqueeze(1) @ own[:, index], at)
        for weight, inner in middle_maps(p, index):
            state = moved(state, _beside(weight), None if inner is None else _padded(inner)).relu()
        entry, entry_bias = _exit(p, index)
    answer = moved(state, entry[:, :, :1], None if entry_bias is None else entry_bias[:, :1])
    return left(answer.permute(0, 3, 1, 2), x)


def _own(p: Params, heads: int) -> tuple[Tensor, Tensor | None]:
    """T, whose columns are the MLP's first layer and then s and −s, and its bias, for all layers.

    (replicas, layers, 1 + heads, 1 + embed, hidden + 2): what is multiplied with the state, then with A_h·state.
    """
    embed = p["value_weight"].shape[2]
    upper, lower, read = p["mlp_in_weight"].split((embed, embed, heads), dim=2)
    out = p["output_weight"] @ lower
    per_head = p["value_weight"].unflatten(3, (heads, -1)).transpose(2, 3) @ out.unflatten(2, (heads, -1))
    heads_ = torch.cat([read.unsqueeze(3), per_head], dim=3)
    self_ = torch.cat([-read.sum(2, keepdim=True), upper], dim=2).unsqueeze(2)
    own = _padded(torch.cat([self_, heads_], dim=2))
    own[:, :, 0, 0, -2], own[:, :, 0, 0, -1] = 1, -1
    if "mlp_in_bias" not in p:
        return own, None
    read_bias = (p["value_bias"].unsqueeze(2) @ out + p["output_bias"].unsqueeze(2) @ lower).squeeze(2)
    return own, _padded(p["mlp_in_bias"] + read_bias)


def _exit(p: Params, index: int) -> tuple[Tensor, Tensor | None]:
    """The map from what the last ReLU of a layer gave to the next state, the carrier first."""
    weight = torch.nn.functional.pad(p["mlp_out_weight"][:, index], (0, 0, 0, 2))
    weight[:, -2, 0], weight[:, -1, 0] = 1, -1
    return weight, p["mlp_out_bias"][:, index] if "mlp_out_bias" in p else None


def _padded(columns: Tensor) -> Tensor:
    """Two columns of zeros more."""
    return torch.nn.functional.pad(columns, (0, 2))


def _beside(weight: Tensor) -> Tensor:
    """A map that leaves two more units as they are."""
    wider = torch.nn.functional.pad(weight, (0, 2, 0, 2))
    wider[:, -2, -2], wider[:, -1, -1] = 1, 1
    return wider
