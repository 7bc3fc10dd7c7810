"""The positional Transformer: attention weights depend on positions alone.

    A_h = softmax(P·W_Q,h·(P·W_K,h)ᵀ/√d_k)                 (`posattn.nn.numeric_model.Attention`)
    x  ← MLP([x ‖ W_O·concat_h(A_h·x·W_V,h)])              (`posattn.nn.numeric_model.Layer`)

P (nodes × d_P) is fixed and the same in every layer, d_k = d_P.

Back de Luca, Giapitzakis, Yang, Veličković, Fountoulakis, "Positional Attention: Expressivity and Learnability of
Algorithmic Computation", ICML 2025 (arXiv 2410.01686), section 4. Differs from the paper's formula, as the paper's
experiments do, in the scaling by 1/√d_k and in the biases.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from posattn.checks import whole
from posattn.nn.hardened import HardenedTransformer
from posattn.nn.numeric_model import NumericModel
from posattn.nn.numeric_sizes import Numeric


@dataclass(frozen=True, kw_only=True)
class Positional(Numeric):
    """Sizes of a positional Transformer. `bias=False`: the homogeneous one, f(cx) = c·f(x) for c > 0."""

    kind = "positional"

    @property
    def query_width(self) -> int:
        return self.encoding_width


class PositionalTransformer(NumericModel[Positional]):
    """(batch, length, in_dim) → (batch, length, out_dim), with attention that sees positions alone.

    >>> model = PositionalTransformer(length=8, layers=2, generator=torch.Generator().manual_seed(0))
    >>> model(torch.zeros(3, 8, 1)).shape, model.attention().shape
    (torch.Size([3, 8, 1]), torch.Size([2, 2, 9, 9]))
    """

    describes = Positional

    def forward(
        self, x: Float[Tensor, "batch length in_dim"], *, encoding: Float[Tensor, "nodes width"] | None = None
    ) -> Float[Tensor, "batch length out_dim"]:
        """`encoding` replaces P for this call: one row for every number of x, then the scratchpad's."""
        position = self.checked(x, encoding)
        state = self.encoder(self.inputs(x))
        for layer in self.layers:
            state = layer(state, position)
        return self.decoder(state)[:, : x.shape[1]]

    def attention(self, length: int | None = None) -> Float[Tensor, "layers heads nodes nodes"]:
        """The attention weights of every layer and head for a length (the model's own); each row sums to 1."""
        asked = self.architecture.length if length is None else whole("length", length, least=1)
        self.check_length(asked, "encoding")
        position = self.rows("encoding", asked)
        return torch.stack([layer.get_submodule("attention")(position) for layer in self.layers])

    def harden(self) -> HardenedTransformer:
        """The same model with attention as a table of reads, where every node's attention selects one node."""
        return HardenedTransformer(self, self.attention())
