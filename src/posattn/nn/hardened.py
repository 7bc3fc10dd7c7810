"""A positional Transformer whose attention selects: every weight 0 or 1, so mixing nodes is an index.

n reads for every head instead of n² products, and the same output bit for bit: a sum of one word and zeros is that
word, in any order of summation, unless a GPU is told to round products to TF32. All other products are the same ones.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from posattn.errors import PosattnError, require
from posattn.nn.functional import affine, linear
from posattn.nn.numeric import middle_maps
from posattn.nn.positional import PositionalTransformer


class HardenedTransformer(nn.Module):
    """The model with its attention as a table: `reads[layer, head, i]` is the node that node i reads."""

    reads: Tensor

    def __init__(self, model: PositionalTransformer) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("reads", selected(model.attention()))

    @torch.no_grad()
    def forward(self, x: Float[Tensor, "batch length in_dim"]) -> Float[Tensor, "batch length out_dim"]:
        """The plain form of the model, with reads in place of attention."""
        with torch.autocast(x.device.type, enabled=False):
            return self._read(x)

    def _read(self, x: Tensor) -> Tensor:
        self.model.check(x)
        architecture, p = self.model.architecture, self.model.replica()
        require(
            x.shape[1] == architecture.length,
            f"the input has length {x.shape[1]}: a hardened model has the one it was hardened at, "
            f"{architecture.length}.",
        )
        heads = architecture.heads
        state = affine(p, "encoder", architecture.inputs(p, x.unsqueeze(0)))
        for index in range(architecture.depth):
            values = affine(p, "value", state, index)[0].unflatten(2, (heads, -1))
            read = torch.stack([values[:, self.reads[index, head], head] for head in range(heads)], dim=2)
            attended = affine(p, "output", read.flatten(2).unsqueeze(0), index)
            hidden = affine(p, "mlp_in", torch.cat([state, attended], dim=-1), index).relu()
            for weight, bias in middle_maps(p, index):
                hidden = linear(hidden, weight, bias).relu()
            state = affine(p, "mlp_out", hidden, index)
        return affine(p, "decoder", state)[0, :, : x.shape[1]]


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
