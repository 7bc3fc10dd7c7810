"""What multiplies together between two ReLUs, where a layer is linear in its state."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from posattn.nn.initial_weights import Params


def middle_maps(p: Params, index: int) -> list[tuple[Tensor, Tensor | None]]:
    """The MLP's inner linear maps, each followed by a ReLU; none when the MLP has two layers."""
    if "mlp_middle_weight" not in p:
        return []
    weights = p["mlp_middle_weight"][:, index].unbind(1)
    biases = p["mlp_middle_bias"][:, index].unbind(1) if "mlp_middle_bias" in p else [None] * len(weights)
    return list(zip(weights, biases, strict=True))


class FoldedLayer(NamedTuple):
    """Between two ReLUs a layer is linear in what the ReLU before it gave: u ↦ u·M₀ + Σ_h A_h·u·M_h + b."""

    entry: Float[Tensor, "replicas into embed"]  # x = u·entry + entry_bias is the layer's own input
    entry_bias: Float[Tensor, "replicas 1 embed"] | None
    matrices: Float[Tensor, "replicas mixed into hidden"]  # M₀, then M_h for every head
    bias: Float[Tensor, "replicas hidden"] | None


def fold(p: Params, heads: int) -> list[FoldedLayer]:
    """Multiply the matrices between two ReLUs together.

    With x = u·E + e (E, e: the last map of the MLP before, or the encoder), T₀ = W₁'s upper half and
    T_h = W_V,h·W_O,h·W₁'s lower half, the layer's first pre-activation is
        x·T₀ + Σ_h A_h·x·T_h + (b_V·W_O + b_O)·W₁'s lower half + b₁,
    and rows of A_h sum to 1, so M = E·T and b gains e·(T₀ + Σ_h T_h).
    """
    embed = p["value_weight"].shape[2]
    upper, lower = p["mlp_in_weight"].split(embed, dim=2)
    out = p["output_weight"] @ lower
    per_head = p["value_weight"].unflatten(3, (heads, -1)).transpose(2, 3) @ out.unflatten(2, (heads, -1))
    own = torch.cat([upper.unsqueeze(2), per_head], dim=2)  # T: (replicas, layers, 1 + heads, embed, hidden)
    folded = []
    for index in range(own.shape[1]):
        name, at = ("mlp_out", (slice(None), index - 1)) if index else ("encoder", (slice(None),))
        entry = p[f"{name}_weight"][at]
        matrices = entry.unsqueeze(1) @ own[:, index]
        entry_bias = bias = None
        if "mlp_in_bias" in p:
            entry_bias = p[f"{name}_bias"][at].unsqueeze(1)
            bias = (
                p["mlp_in_bias"][:, index]
                + (p["value_bias"][:, index].unsqueeze(1) @ out[:, index]).squeeze(1)
                + (p["output_bias"][:, index].unsqueeze(1) @ lower[:, index]).squeeze(1)
                + (entry_bias @ own[:, index].sum(1)).squeeze(1)
            )
        folded.append(FoldedLayer(entry, entry_bias, matrices, bias))
    return folded


def folded_decoder(p: Params) -> tuple[Tensor, Tensor | None]:
    """The last MLP's last map and the decoder as one linear map."""
    weight = p["mlp_out_weight"][:, -1] @ p["decoder_weight"]
    if "decoder_bias" not in p:
        return weight, None
    bias = p["mlp_out_bias"][:, -1].unsqueeze(1) @ p["decoder_weight"]
    return weight, bias.squeeze(1) + p["decoder_bias"]
