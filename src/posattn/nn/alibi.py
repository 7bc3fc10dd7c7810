"""A standard Transformer that knows positions by distance alone: what is far away counts for less.

    A_h = softmax(x·W_Q,h·(x·W_K,h)ᵀ/√d_k − m_h·|i − j|),  m_h = 2^(−8h/H) for h = 1 … H

Press, Smith, Lewis, "Train Short, Test Long: Attention with Linear Biases Enables Input Length Extrapolation", ICLR
2022 (arXiv 2108.12409). Differs from the paper in that nodes read in both directions, as in all models here: the
scratchpad, which stands at the end, is what tells left from right.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from posattn.nn.numeric_model import Attention, Layer, NumericModel
from posattn.nn.numeric_sizes import Numeric

#: The slope of the last head is 2 to minus this.
LEAST = 8.0


@dataclass(frozen=True, kw_only=True)
class Alibi(Numeric):
    """Sizes of a standard Transformer with linear biases. Its input is x alone."""

    kind = "alibi"

    @property
    def query_width(self) -> int:
        return self.embed_dim


def slopes(heads: int) -> list[float]:
    """m_1 … m_H, a geometric sequence.

    >>> slopes(2)
    [0.0625, 0.00390625]
    """
    return [2.0 ** (-LEAST * head / heads) for head in range(1, heads + 1)]


class AlibiAttention(Attention):
    """Attention whose logits fall with the distance."""

    def forward(
        self, seen: Float[Tensor, "*batch nodes width"], less: Float[Tensor, "heads nodes nodes"] | None = None
    ) -> Float[Tensor, "*batch heads nodes nodes"]:
        node = torch.arange(seen.shape[-2], device=seen.device, dtype=seen.dtype)
        distance = (node[:, None] - node).abs()
        return super().forward(seen, torch.stack([slope * distance for slope in slopes(self.heads)]))


class AlibiTransformer(NumericModel[Alibi]):
    """(batch, length, in_dim) → (batch, length, out_dim), at any length.

    >>> model = AlibiTransformer(length=8, layers=2, generator=torch.Generator().manual_seed(0))
    >>> model(torch.zeros(3, 20, 1)).shape
    torch.Size([3, 20, 1])
    """

    describes = Alibi

    def layer(self, sizes: Alibi) -> Layer:
        made = Layer(sizes)
        made.attention = AlibiAttention(sizes.query_width, sizes.heads)
        return made

    def tables(self) -> tuple[str, ...]:
        return tuple(name for name in super().tables() if name != "encoding")

    def forward(self, x: Float[Tensor, "batch length in_dim"]) -> Float[Tensor, "batch length out_dim"]:
        self.checked(x, None)
        state = self.encoder(self.inputs(x))
        for layer in self.layers:
            state = layer(state, state)
        return self.decoder(state)[:, : x.shape[1]]
