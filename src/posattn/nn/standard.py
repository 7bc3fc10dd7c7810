"""The standard Transformer of the same comparison: attention weights depend on the nodes' values.

    A_h = softmax(x·W_Q,h·(x·W_K,h)ᵀ/√d_k),  d_k = embed_dim

The rest is the positional Transformer's (`posattn.nn.numeric`). Its input is [x ‖ P], unless `append_encoding=False`.
`rotary=True` rotates queries and keys by their node's place (`posattn.nn.rotary`).
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from posattn.errors import require
from posattn.nn.model import NumericModel
from posattn.nn.numeric import FoldedLayer, Numeric, fold, folded_decoder, layer, middle
from posattn.nn.parts import Params, affine, attention_weights, linear, split_heads
from posattn.nn.rotary import rotate


@dataclass(frozen=True, kw_only=True)
class Standard(Numeric):
    """Sizes of a standard Transformer, and its forward pass."""

    kind = "standard"

    append_encoding: bool = True
    rotary: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
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
        (x,) = inputs
        state = self.inputs(p, x)
        for index, folded in enumerate(fold(p, self.heads)):
            attention = self._folded_attention(p, index, state, folded)
            hidden = linear(state, folded.matrices[:, 0], folded.bias)
            values = linear(state, folded.matrices[:, 1:].transpose(1, 2).flatten(2), None)
            # Σ_h A_h·(u·M_h) as one product: rows of `values` are (node, head), columns of `attention` likewise.
            pairs = attention.permute(0, 1, 3, 4, 2).flatten(3)
            hidden = hidden + pairs @ values.unflatten(3, (self.heads, -1)).flatten(2, 3)
            state = middle(p, index, hidden.relu())
        return linear(state[:, :, : x.shape[2]], *folded_decoder(p))

    def _folded_attention(
        self, p: Params, index: int, state: Float[Tensor, "replicas batch nodes into"], folded: FoldedLayer
    ) -> Float[Tensor, "replicas batch heads nodes nodes"]:
        """Logits (u_i·N_h + c_h)·u_j with N_h = E·W_Q,h·W_K,hᵀ·Eᵀ and c_h = (e·W_Q,h + b_Q,h)·W_K,hᵀ·Eᵀ.

        With x = u·E + e, what is left out (terms with b_K, and e on the key's side) is the same for all j, and
        softmax over j does not see it.
        """
        into = state.shape[-1]
        query = p["query_weight"][:, index].unflatten(2, (self.heads, -1)).transpose(1, 2)
        key = p["key_weight"][:, index].unflatten(2, (self.heads, -1)).transpose(1, 2)
        entry = folded.entry.unsqueeze(1)
        back = (entry @ key).mT / math.sqrt(query.shape[-1])  # W_K,hᵀ·Eᵀ/√d_k: (replicas, heads, d_k, into)
        bias = p["query_bias"][:, index].unflatten(1, (self.heads, 1, -1))
        if folded.entry_bias is not None:
            bias = bias + folded.entry_bias.unsqueeze(1) @ query
        matrix = (entry @ query @ back).transpose(1, 2).flatten(2)
        moved = linear(state, matrix, (bias @ back).flatten(1))
        heads_first = moved.unflatten(3, (self.heads, into)).transpose(2, 3)
        return (heads_first @ state.mT.unsqueeze(2)).softmax(-1)

    def forward(self, p: Params, *inputs: Tensor) -> Float[Tensor, "replicas batch length out_dim"]:
        """Folded, but for a rotary model: the rotation stands between W_Q and W_K, and they cannot be multiplied."""
        return self.plain(p, *inputs) if self.rotary else self.folded(p, *inputs)


class StandardTransformer(NumericModel[Standard]):
    """(batch, length, in_dim) → (batch, length, out_dim). Options are the fields of `Standard`, by name."""

    describes = Standard

    def attention(self, x: Float[Tensor, "batch length in_dim"]) -> Float[Tensor, "batch layers heads nodes nodes"]:
        """The attention weights on this input; each row sums to 1."""
        self.check(x)
        return self.architecture.attention(self.replica(), x.unsqueeze(0))[0]
