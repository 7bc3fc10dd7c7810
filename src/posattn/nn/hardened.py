"""A positional Transformer whose attention selects: every weight 0 or 1, so mixing nodes is an index.

n reads for every head instead of n² products, and the same output bit for bit: a sum of one word and zeros is that
word, in any order of summation, unless a GPU is told to round products to TF32. All other products are the same ones.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from posattn.errors import PosattnError, require
from posattn.nn.module import full_precision
from posattn.nn.numeric_model import Layer, NumericModel
from posattn.nn.numeric_sizes import Numeric


class HardenedTransformer(nn.Module):
    """The model with its attention as a table: `reads[layer, head, i]` is the node that node i reads."""

    reads: Tensor

    def __init__(self, model: NumericModel, attention: Float[Tensor, "layers heads nodes nodes"]) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("reads", selected(attention))

    @property
    def architecture(self) -> Numeric:
        """That of the model."""
        return self.model.architecture

    def forward(self, x: Float[Tensor, "batch length in_dim"]) -> Float[Tensor, "batch length out_dim"]:
        """The model's own forward pass, with reads in place of attention."""
        with full_precision(self.reads):
            return self._read(x)

    def _read(self, x: Tensor) -> Tensor:
        self.model.check(x)
        longest = self.model.architecture.length
        require(
            x.shape[1] == longest,
            f"the input has length {x.shape[1]}: a hardened model has the one it was hardened at, {longest}.",
        )
        state = self.model.encoder(self.model.inputs(x))
        for index, layer in enumerate(self.model.layers):
            assert isinstance(layer, Layer)
            values = layer.value(state).unflatten(-1, (layer.attention.heads, -1))
            each = [values[:, reads, head] for head, reads in enumerate(self.reads[index])]
            attended = layer.output(torch.stack(each, dim=2).flatten(2))
            hidden = layer.mlp_in(torch.cat([state, attended], dim=-1)).relu()
            for linear in layer.mlp_middle:
                hidden = linear(hidden).relu()
            state = layer.mlp_out(hidden)
        return self.model.decoder(state)[:, : x.shape[1]]


def selected(attention: Float[Tensor, "layers heads nodes nodes"]) -> Int[Tensor, "layers heads nodes"]:
    """The one node that each node reads; an error where attention is spread."""
    most, where = attention.max(-1)
    spread = (attention != 0).sum(-1) != 1
    spread |= most != 1
    if spread.any():
        layer, head, node = spread.nonzero()[0].tolist()
        read = int((attention[layer, head, node] != 0).sum())
        raise PosattnError(
            f"layer {layer}, head {head}: node {node} reads {read} nodes, the most with weight "
            f"{most[layer, head, node].item():.6g}. Only attention that selects one node can be hardened, as that of a "
            "compiled model."
        )
    return where
