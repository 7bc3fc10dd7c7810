"""The standard Transformer of the same comparison: attention weights depend on the nodes' values.

    A_h = softmax(x·W_Q,h·(x·W_K,h)ᵀ/√d_k),  d_k = embed_dim

The rest is the positional Transformer's (`posattn.nn.numeric`). Its input is [x ‖ P], unless `append_encoding=False`.
`rotary=True` rotates queries and keys by their node's place (`posattn.nn.rotary`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from posattn.checks import keep_switches
from posattn.errors import require
from posattn.nn.fast.standard_layer import attending_layer
from posattn.nn.functional import Params, affine, attention_weights, linear, split_heads
from posattn.nn.module import NumericModel
from posattn.nn.numeric import FoldedLayer, Numeric, fold, folded_decoder, layer, middle_maps
from posattn.nn.rotary import rotate

#: Most nodes, and widest state, that the Triton kernel takes; in 16 bits it came out wrong on an H200 beyond 32 nodes.
TILE, HALF_NODES = 64, 32


@dataclass(frozen=True, kw_only=True)
class Standard(Numeric):
    """Sizes of a standard Transformer, and its forward pass."""

    kind = "standard"

    append_encoding: bool = True
    rotary: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_switches(self, "append_encoding", "rotary")
        require(
            not self.rotary or self.embed_dim % 2 == 0,
            f"embed_dim={self.embed_dim}: rotary turns pairs of dimensions, so it must be even.",
        )

    @property
    def input_width(self) -> int:
        return super().input_width + (self.encoding_width if self.append_encoding else 0)

    @property
    def query_width(self) -> int:
        return self.embed_dim

    def inputs(
        self, p: Params, x: Float[Tensor, "replicas batch length in_dim"]
    ) -> Float[Tensor, "replicas batch nodes input_width"]:
        nodes = super().inputs(p, x)
        return self.beside(nodes, p["encoding"]) if self.append_encoding else nodes

    def layer_attention(
        self, p: Params, index: int, x: Float[Tensor, "replicas batch nodes embed"]
    ) -> Float[Tensor, "replicas batch heads nodes nodes"]:
        query = split_heads(affine(p, "query", x, index), self.heads)
        key = split_heads(affine(p, "key", x, index), self.heads)
        return attention_weights(rotate(query), rotate(key)) if self.rotary else attention_weights(query, key)

    def attention(self, p: Params, x: Tensor) -> Float[Tensor, "replicas batch layers heads nodes nodes"]:
        """The attention weights that this input leads to."""
        return torch.stack(self._layers(p, x)[1], dim=2)

    def plain(self, p: Params, *inputs: Tensor) -> Float[Tensor, "replicas batch length out_dim"]:
        """The model as its formula says."""
        (x,) = inputs
        return affine(p, "decoder", self._layers(p, x)[0])[:, :, : x.shape[2]]

    def _layers(self, p: Params, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The last layer's state, and the attention of each layer on the way."""
        state = affine(p, "encoder", self.inputs(p, x))
        seen = []
        for index in range(self.depth):
            seen.append(self.layer_attention(p, index, state))
            state = layer(p, index, state, seen[-1])
        return state, seen

    def folded(self, p: Params, *inputs: Tensor) -> Float[Tensor, "replicas batch length out_dim"]:
        """The same function with half the multiplications: the state is only ever what the last ReLU gave."""
        return self._between_relus(p, attending_layer, self.inputs(p, *inputs))[:, :, : inputs[0].shape[2]]

    def fused(
        self, p: Params, *inputs: Tensor, dtype: torch.dtype | None = None
    ) -> Float[Tensor, "replicas batch length out_dim"]:
        """The folded form with one Triton kernel a layer; products in TF32, or in `dtype`."""
        from posattn.nn.kernels.standard_layer import standard_layer

        (x,) = inputs
        state = self.inputs(p, x).to(dtype or x.dtype)
        return self._between_relus(p, standard_layer, state)[:, :, : x.shape[2]]

    def _between_relus(self, p: Params, between: Callable[..., Tensor], state: Tensor) -> Tensor:
        dtype = p["decoder_weight"].dtype
        for index, folded in enumerate(fold(p, self.heads)):
            state = between(state, *self._fold_logits(p, index, folded), folded.matrices, folded.bias)
            for weight, bias in middle_maps(p, index):
                state = linear(state.to(dtype), weight, bias).relu()
        return linear(state.to(dtype), *folded_decoder(p))

    def _fold_logits(
        self, p: Params, index: int, folded: FoldedLayer
    ) -> tuple[Float[Tensor, "replicas heads into into"], Float[Tensor, "replicas heads into"]]:
        """N_h = E·W_Q,h·W_K,hᵀ·Eᵀ/√d_k and c_h = (e·W_Q,h + b_Q,h)·W_K,hᵀ·Eᵀ/√d_k, so that logits are (u·N + c)·uᵀ.

        With x = u·E + e, what is left out (terms with b_K, and e on the key's side) is the same for all keys, and
        softmax over the keys does not see it.
        """
        query = p["query_weight"][:, index].unflatten(2, (self.heads, -1)).transpose(1, 2)
        key = p["key_weight"][:, index].unflatten(2, (self.heads, -1)).transpose(1, 2)
        entry = folded.entry.unsqueeze(1)
        back = (entry @ key).mT / math.sqrt(query.shape[-1])  # W_K,hᵀ·Eᵀ/√d_k: (replicas, heads, d_k, into)
        bias = p["query_bias"][:, index].unflatten(1, (self.heads, 1, -1))
        if folded.entry_bias is not None:
            bias = bias + folded.entry_bias.unsqueeze(1) @ query
        return entry @ query @ back, (bias @ back).squeeze(2)

    def forward(self, p: Params, *inputs: Tensor) -> Float[Tensor, "replicas batch length out_dim"]:
        """Folded, but for a rotary model: the rotation stands between W_Q and W_K, and they cannot be multiplied."""
        return self.plain(p, *inputs) if self.rotary else self.folded(p, *inputs)

    def form(self, *, device: torch.device, precision: str) -> Callable[..., Tensor]:
        most = HALF_NODES if precision == "bf16" else TILE
        fits = self.nodes <= most and max(self.input_width, self.hidden_dim) <= TILE and self.mlp_layers == 2
        if device.type == "cuda" and precision in ("tf32", "bf16") and fits and not self.rotary:
            return partial(self.fused, dtype=torch.bfloat16 if precision == "bf16" else None)
        return super().form(device=device, precision=precision)


class StandardTransformer(NumericModel[Standard]):
    """(batch, length, in_dim) → (batch, length, out_dim). Options are the fields of `Standard`, by name."""

    describes = Standard

    def attention(self, x: Float[Tensor, "batch length in_dim"]) -> Float[Tensor, "batch layers heads nodes nodes"]:
        """The attention weights on this input; each row sums to 1."""
        self.check(x)
        self._check_length(x)
        return self.architecture.attention(self.replica(), x.unsqueeze(0))[0]
