"""Ablation M3: attention that sees values and positions. Q and K see [x ‖ P], the input is x alone."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from posattn.nn.functional import Params, affine, attention_weights, split_heads
from posattn.nn.module import NumericModel
from posattn.nn.numeric import Numeric, layer


@dataclass(frozen=True, kw_only=True)
class Hybrid(Numeric):
    """Sizes of a hybrid Transformer, and its forward pass; d_k = embed_dim + d_P."""

    kind = "hybrid"

    @property
    def query_width(self) -> int:
        return self.embed_dim + self.encoding_width

    def forward(self, p: Params, *inputs: Tensor) -> Float[Tensor, "replicas batch length out_dim"]:
        (x,) = inputs
        state = affine(p, "encoder", self.inputs(p, x))
        for index in range(self.depth):
            seen = self.beside(state, p["encoding"])
            query = split_heads(affine(p, "query", seen, index), self.heads)
            key = split_heads(affine(p, "key", seen, index), self.heads)
            state = layer(p, index, state, attention_weights(query, key))
        return affine(p, "decoder", state)[:, :, : x.shape[2]]


class HybridTransformer(NumericModel[Hybrid]):
    """(batch, length, in_dim) → (batch, length, out_dim). Options are the fields of `Hybrid`, by name."""

    describes = Hybrid
