"""Ablation M3: attention that sees values and positions. Q and K see [x ‖ P], the input is x alone."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from posattn.nn.numeric_model import NumericModel
from posattn.nn.numeric_sizes import Numeric


@dataclass(frozen=True, kw_only=True)
class Hybrid(Numeric):
    """Sizes of a hybrid Transformer; d_k = embed_dim + d_P."""

    kind = "hybrid"

    @property
    def query_width(self) -> int:
        return self.embed_dim + self.encoding_width


class HybridTransformer(NumericModel[Hybrid]):
    """(batch, length, in_dim) → (batch, length, out_dim), with attention that sees values and positions.

    >>> HybridTransformer(length=8, generator=torch.Generator().manual_seed(0))(torch.zeros(3, 8, 1)).shape
    torch.Size([3, 8, 1])
    """

    describes = Hybrid

    def forward(
        self, x: Float[Tensor, "batch length in_dim"], *, encoding: Float[Tensor, "nodes width"] | None = None
    ) -> Float[Tensor, "batch length out_dim"]:
        """`encoding` replaces P for this call: one row for every number of x, then the scratchpad's."""
        position = self.checked(x, encoding)
        state = self.encoder(self.inputs(x))
        for layer in self.layers:
            state = layer(state, torch.cat([state, position.expand(x.shape[0], -1, -1)], dim=-1))
        return self.decoder(state)[:, : x.shape[1]]
