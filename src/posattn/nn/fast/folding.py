"""What multiplies together between two ReLUs, where a layer is linear in its state.

All layers that are alike are folded at once, and taken apart at the end: a layer's map taken out of a stack would be
free by itself, but its gradient is a stack of zeros, a copy and a sum for every layer and map.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from posattn.nn.fast.products import linear, split_heads
from posattn.nn.initial_weights import Params

#: Widest state that the kernel of `posattn.nn.kernels.decoder` takes.
WIDEST_DECODED = 256


def middle_maps(p: Params, index: int) -> list[tuple[Tensor, Tensor | None]]:
    """The MLP's inner linear maps, each followed by a ReLU; none when the MLP has two layers."""
    if "mlp_middle_weight" not in p:
        return []
    weights = p["mlp_middle_weight"][:, index].unbind(1)
    biases = p["mlp_middle_bias"][:, index].unbind(1) if "mlp_middle_bias" in p else [None] * len(weights)
    return list(zip(weights, biases, strict=True))


class Entry(NamedTuple):
    """x = u·weight + bias: the state before some layers, from what the ReLU before each of them gave."""

    weight: Float[Tensor, "replicas layers into embed"]
    bias: Float[Tensor, "replicas layers 1 embed"] | None


class FoldedLayer(NamedTuple):
    """Between two ReLUs a layer is linear in what the ReLU before it gave: u ↦ u·M₀ + Σ_h A_h·u·M_h + b."""

    matrices: Float[Tensor, "replicas mixed into hidden"]  # M₀, then M_h for every head
    bias: Float[Tensor, "replicas hidden"] | None


def entries(p: Params, *, embedded: bool = False) -> tuple[list[Entry | None], list[int]]:
    """Of the first layer, then of all others at once, and how many layers each stands for.

    An `embedded` input is the first state itself: None.
    """
    first = None
    if not embedded:
        bias = p["encoder_bias"][:, None, None] if "encoder_bias" in p else None
        first = Entry(p["encoder_weight"].unsqueeze(1), bias)
    others = p["mlp_out_weight"].shape[1] - 1
    if not others:
        return [first], [1]
    bias = p["mlp_out_bias"][:, :-1].unsqueeze(2) if "mlp_out_bias" in p else None
    return [first, Entry(p["mlp_out_weight"][:, :-1], bias)], [1, others]


class FactoredLayers(NamedTuple):
    """Layers with M_h = V_h·W_h kept apart: u ↦ u·M₀ + [A_1·u·V_1 | …]·W + b."""

    maps: Float[Tensor, "replicas layers into columns"]  # [M₀ | V_1 | …]
    output: Float[Tensor, "replicas layers values hidden"]
    bias: Float[Tensor, "replicas layers hidden"] | None

    def each(self) -> "list[FactoredLayer]":
        """Taken apart by one operation each."""
        maps, output = self.maps.unbind(1), self.output.unbind(1)
        biases = [None] * len(maps) if self.bias is None else self.bias.unbind(1)
        return [FactoredLayer(*layer) for layer in zip(maps, output, biases, strict=True)]


class FactoredLayer(NamedTuple):
    """One of them."""

    maps: Float[Tensor, "replicas into columns"]
    output: Float[Tensor, "replicas values hidden"]
    bias: Float[Tensor, "replicas hidden"] | None

    def matrices(self, heads: int) -> Float[Tensor, "replicas mixed into hidden"]:
        """[M₀, M_1, …]: those of a `FoldedLayer`."""
        own, values = self.maps.split((self.output.shape[2], self.output.shape[1]), dim=2)
        per_head = split_heads(values, heads) @ self.output.unflatten(1, (heads, -1))
        return torch.cat([own.unsqueeze(1), per_head], dim=1)


def fold(p: Params, heads: int, *, embedded: bool = False) -> list[FoldedLayer]:
    """Multiply the matrices between two ReLUs together.

    With x = u·E + e, T₀ = W₁'s upper half and T_h = W_V,h·W_O,h·W₁'s lower half, the layer's first pre-activation is
        x·T₀ + Σ_h A_h·x·T_h + (b_V·W_O + b_O)·W₁'s lower half + b₁,
    and rows of A_h sum to 1, so M = E·T and b gains e·(T₀ + Σ_h T_h).
    """
    embed, hidden = p["value_weight"].shape[2], p["mlp_in_weight"].shape[3]
    upper, lower = p["mlp_in_weight"].split(embed, dim=2)
    out = p["output_weight"] @ lower
    per_head = p["value_weight"].unflatten(3, (heads, -1)).transpose(2, 3) @ out.unflatten(2, (heads, -1))
    own = torch.cat([upper, *per_head.unbind(2)], dim=3)  # [T₀ | T_1 | …]: (replicas, layers, embed, mixed·hidden)
    before, counts = entries(p, embedded=embedded)
    folded = []
    for entry, maps, shift in zip(before, own.split(counts, dim=1), _biases(p, out, lower, counts), strict=True):
        columns = maps if entry is None else entry.weight @ maps
        if entry is not None and entry.bias is not None and shift is not None:
            shift = shift + (entry.bias @ maps).unflatten(3, (-1, hidden)).sum(3).squeeze(2)
        matrices = columns.unflatten(3, (-1, hidden)).transpose(2, 3).unbind(1)
        shifts = [None] * len(matrices) if shift is None else shift.unbind(1)
        folded += [FoldedLayer(*pair) for pair in zip(matrices, shifts, strict=True)]
    return folded


def factor(p: Params, *, embedded: bool = False) -> list[FactoredLayers]:
    """Multiply the matrices between two ReLUs together, but for a head's two factors: of the first layer, then others.

    With x = u·E + e as in `fold`, M₀ = E·T₀, V_h = E·W_V,h, W = W_O·W₁'s lower half, and b gains e·T₀ + e·W_V·W.
    """
    upper, lower = p["mlp_in_weight"].split(p["value_weight"].shape[2], dim=2)
    output = p["output_weight"] @ lower
    own = torch.cat([upper, p["value_weight"]], dim=3)
    before, counts = entries(p, embedded=embedded)
    stacks = own.split(counts, dim=1), output.split(counts, dim=1), _biases(p, output, lower, counts)
    layers = []
    for entry, maps, outputs, shift in zip(before, *stacks, strict=True):
        if entry is not None and entry.bias is not None and shift is not None:
            kept, read = (entry.bias @ maps).split((upper.shape[3], output.shape[2]), dim=3)
            shift = shift + (kept + read @ outputs).squeeze(2)
        layers.append(FactoredLayers(maps if entry is None else entry.weight @ maps, outputs, shift))
    return layers


def factor_each(p: Params, *, embedded: bool = False) -> list[FactoredLayer]:
    """The same, layer by layer."""
    return [layer for layers in factor(p, embedded=embedded) for layer in layers.each()]


def _biases(p: Params, out: Tensor, lower: Tensor, counts: list[int]) -> list[Tensor | None]:
    """(b_V·W_O + b_O)·W₁'s lower half + b₁, of the first layer and of all others."""
    if "mlp_in_bias" not in p:
        return [None] * len(counts)
    read = p["value_bias"].unsqueeze(2) @ out + p["output_bias"].unsqueeze(2) @ lower
    return [*(p["mlp_in_bias"] + read.squeeze(2)).split(counts, dim=1)]


def decoded(
    state: Float[Tensor, "replicas *nodes hidden"],
    weight: Float[Tensor, "replicas hidden out_dim"],
    bias: Float[Tensor, "replicas out_dim"] | None,
) -> Float[Tensor, "replicas *nodes out_dim"]:
    """The answers, from what the last ReLU gave: often one number a node, which cuBLAS takes four times as long for."""
    fits = weight.shape[1] <= WIDEST_DECODED and weight.shape[2] == 1
    if state.is_cuda and state.dtype == weight.dtype == torch.float32 and fits:
        from posattn.nn.kernels.decoder import one_number

        return one_number(state, weight, bias)
    return linear(state, weight, bias)


def folded_decoder(p: Params) -> tuple[Tensor, Tensor | None]:
    """The last MLP's last map and the decoder as one linear map."""
    weight = p["mlp_out_weight"][:, -1] @ p["decoder_weight"]
    if "decoder_bias" not in p:
        return weight, None
    bias = p["mlp_out_bias"][:, -1].unsqueeze(1) @ p["decoder_weight"]
    return weight, bias.squeeze(1) + p["decoder_bias"]
