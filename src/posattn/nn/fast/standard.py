"""The standard Transformer in fleets: the matrices between two ReLUs, and those of the logits, multiply first."""

import math
from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from posattn.nn.fast import layer_by_layer
from posattn.nn.fast.folding import FoldedLayer, fold, folded_decoder, middle_maps
from posattn.nn.fast.nodes import inputs
from posattn.nn.fast.products import linear
from posattn.nn.fast.standard_layer import attending_layer
from posattn.nn.initial_weights import Params
from posattn.nn.standard import Standard

#: Most nodes, and widest state, that the Triton kernel takes; in 16 bits it came out wrong on an H200 beyond 32 nodes.
TILE, HALF_NODES = 64, 32


def form(sizes: Standard, *, device: torch.device, precision: str) -> Callable[..., Tensor] | None:
    """A rotary model goes layer by layer: the rotation stands between W_Q and W_K, which cannot be multiplied."""
    most = HALF_NODES if precision == "bf16" else TILE
    fits = sizes.nodes <= most and max(sizes.input_width, sizes.hidden_dim) <= TILE and sizes.mlp_layers == 2
    if sizes.rotary:
        return layer_by_layer.form(sizes, device=device, precision=precision)
    if device.type == "cuda" and precision in ("tf32", "bf16") and fits:
        return partial(fused, sizes, dtype=torch.bfloat16 if precision == "bf16" else None)
    # Autocast rounds the model's own products one by one; folded matrices would be rounded once more.
    return None if precision == "bf16" else partial(folded, sizes)


def folded(
    sizes: Standard, p: Params, x: Float[Tensor, "replicas batch length in_dim"]
) -> Float[Tensor, "replicas batch length out_dim"]:
    """The same function with half the multiplications: the state is only ever what the last ReLU gave."""
    return _between_relus(sizes, p, attending_layer, _nodes(sizes, p, x))[:, :, : x.shape[2]]


def fused(
    sizes: Standard, p: Params, x: Float[Tensor, "replicas batch length in_dim"], *, dtype: torch.dtype | None = None
) -> Float[Tensor, "replicas batch length out_dim"]:
    """The folded form with one Triton kernel per layer; products in TF32, or in `dtype`."""
    from posattn.nn.kernels.standard_layer import standard_layer

    state = _nodes(sizes, p, x).to(dtype or x.dtype)
    return _between_relus(sizes, p, standard_layer, state)[:, :, : x.shape[2]]


def _nodes(sizes: Standard, p: Params, x: Tensor) -> Tensor:
    return inputs(sizes, p, x, *(("encoding",) if sizes.append_encoding else ()))


def _between_relus(sizes: Standard, p: Params, between: Callable[..., Tensor], state: Tensor) -> Tensor:
    dtype = p["decoder_weight"].dtype
    for index, folded in enumerate(fold(p, sizes.heads)):
        state = between(state, *fold_logits(sizes, p, index, folded), folded.matrices, folded.bias)
        for weight, bias in middle_maps(p, index):
            state = linear(state.to(dtype), weight, bias).relu()
    return linear(state.to(dtype), *folded_decoder(p))


def fold_logits(
    sizes: Standard, p: Params, index: int, folded: FoldedLayer
) -> tuple[Float[Tensor, "replicas heads into into"], Float[Tensor, "replicas heads into"]]:
    """N_h = E·W_Q,h·W_K,hᵀ·Eᵀ/√d_k and c_h = (e·W_Q,h + b_Q,h)·W_K,hᵀ·Eᵀ/√d_k, so that logits are (u·N + c)·uᵀ.

    With x = u·E + e, what is left out (terms with b_K, and e on the key's side) is the same for all keys, and
    softmax over the keys does not see it.
    """
    query = p["query_weight"][:, index].unflatten(2, (sizes.heads, -1)).transpose(1, 2)
    key = p["key_weight"][:, index].unflatten(2, (sizes.heads, -1)).transpose(1, 2)
    entry = folded.entry.unsqueeze(1)
    back = (entry @ key).mT / math.sqrt(query.shape[-1])  # W_K,hᵀ·Eᵀ/√d_k: (replicas, heads, d_k, into)
    bias = p["query_bias"][:, index].unflatten(1, (sizes.heads, 1, -1))
    if folded.entry_bias is not None:
        bias = bias + folded.entry_bias.unsqueeze(1) @ query
    return entry @ query @ back, (bias @ back).squeeze(2)
