"""The positional Transformer: attention weights depend on positions alone.

    A_h = softmax(P·W_Q,h·(P·W_K,h)ᵀ/√d_k)                 (attention)
    x  ← MLP([x ‖ W_O·concat_h(A_h·x·W_V,h)])              (one layer, `posattn.nn.numeric.layer`)

P (nodes × d_P) is fixed and the same in every layer, d_k = d_P. Between two ReLUs the model is linear in its state,
so the forward pass that is used by default multiplies those matrices together first (`folded`); `plain` does what
the formula says, and is what the folded form is tested against.

Back de Luca, Giapitzakis, Yang, Veličković, Fountoulakis, "Positional Attention: Expressivity and Learnability of
Algorithmic Computation", ICML 2025 (arXiv 2410.01686), section 4. Differs from the paper's formula, as the paper's
experiments do, in the scaling by 1/√d_k and in the biases.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from posattn.nn.fast.positional_layer import columns, expanded_layer, mixed_layer, with_identity
from posattn.nn.functional import Params, affine, attention_weights, linear, split_heads
from posattn.nn.module import NumericModel
from posattn.nn.numeric import Numeric, fold, folded_decoder, layer, middle_maps

if TYPE_CHECKING:
    from posattn.nn.hardened import HardenedTransformer


@dataclass(frozen=True, kw_only=True)
class Positional(Numeric):
    """Sizes of a positional Transformer, and its forward pass. `bias=False`: the homogeneous one, f(cx) = c·f(x)."""

    kind = "positional"

    @property
    def query_width(self) -> int:
        return self.encoding_width

    def attention(self, p: Params, nodes: int) -> Float[Tensor, "replicas layers heads nodes nodes"]:
        """Attention of every layer at once: it needs P and no input."""
        layers = p["query_weight"].shape[1]
        position = self.rows(p["encoding"], nodes).unsqueeze(1).expand(-1, layers, -1, -1)
        query = position @ p["query_weight"] + p["query_bias"].unsqueeze(2)
        key = position @ p["key_weight"] + p["key_bias"].unsqueeze(2)
        return attention_weights(split_heads(query, self.heads), split_heads(key, self.heads))

    def plain(self, p: Params, *inputs: Tensor) -> Float[Tensor, "replicas batch length out_dim"]:
        """The model as its formula says."""
        (x,) = inputs
        length = x.shape[2]
        attention = self.attention(p, length + self.scratchpad)
        state = affine(p, "encoder", self.inputs(p, x))
        for index in range(self.depth):
            state = layer(p, index, state, attention[:, index].unsqueeze(1))
        return affine(p, "decoder", state)[:, :, :length]

    def folded(self, p: Params, *inputs: Tensor) -> Float[Tensor, "replicas batch length out_dim"]:
        """The same function with fewer than half the multiplications: the state is what the last ReLU gave."""
        (x,) = inputs
        length = x.shape[2]
        attention = with_identity(self.attention(p, length + self.scratchpad))
        state = self.inputs(p, x).permute(0, 2, 3, 1).contiguous()  # (replicas, nodes, features, batch)
        for index, (_, _, matrices, bias) in enumerate(fold(p, self.heads)):
            state = mixed_layer(state, attention[:, index], matrices, bias)
            for weight, bias in middle_maps(p, index):
                state = columns(state, weight, bias).relu()
        return columns(state, *folded_decoder(p))[:, :length].permute(0, 3, 1, 2)

    def expanded(
        self, p: Params, *inputs: Tensor, dtype: torch.dtype | None = None
    ) -> Float[Tensor, "replicas batch length out_dim"]:
        """The folded form with nodes and features in one axis: more arithmetic, in few large products of `dtype`."""
        (x,) = inputs
        length, nodes = x.shape[2], x.shape[2] + self.scratchpad
        attention = with_identity(self.attention(p, nodes))
        state = self.inputs(p, x).flatten(2).to(dtype or x.dtype)
        for index, (_, _, matrices, bias) in enumerate(fold(p, self.heads)):
            state = expanded_layer(state, attention[:, index], matrices, bias)
            for weight, bias in middle_maps(p, index):
                state = linear(state.unflatten(2, (nodes, -1)).to(x.dtype), weight, bias).relu().flatten(2)
        return linear(state.unflatten(2, (nodes, -1)).to(x.dtype), *folded_decoder(p))[:, :, :length]

    forward = folded

    def form(self, *, device: torch.device, precision: str) -> Callable[..., Tensor]:
        """Tensor cores do far more arithmetic than it takes to feed them: there, expanded is faster."""
        if device.type == "cuda" and precision in ("tf32", "bf16") and self.nodes <= 8 * (1 + self.heads):
            return partial(self.expanded, dtype=torch.bfloat16 if precision == "bf16" else None)
        return super().form(device=device, precision=precision)


class PositionalTransformer(NumericModel[Positional]):
    """(batch, length, in_dim) → (batch, length, out_dim). Options are the fields of `Positional`, by name."""

    describes = Positional

    def attention(self) -> Float[Tensor, "layers heads nodes nodes"]:
        """The attention weights of every layer and head; each row sums to 1."""
        return self.architecture.attention(self.replica(), self.architecture.nodes)[0]

    def harden(self) -> "HardenedTransformer":
        """The same model with attention as a table of reads, where every node's attention selects one node."""
        from posattn.nn.hardened import HardenedTransformer

        return HardenedTransformer(self)
