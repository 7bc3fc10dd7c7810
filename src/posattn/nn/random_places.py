"""A positional Transformer whose nodes stand at places of a longer range, which come with the input.

Every sample says where its numbers stand, in ascending order among `length` places; P has a row for each place. Trained
with places that are drawn anew for every sample, a model of short inputs has met the rows that longer inputs need: the
stochastic encodings of sparse token selection, taken to positional attention. Attention still depends on positions
alone, but is another one for every sample.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posattn.errors import require
from posattn.nn.architecture import Architecture
from posattn.nn.functional import Params, affine, attention_weights, split_heads
from posattn.nn.module import Model
from posattn.nn.numeric import layer
from posattn.nn.positional import Positional


@dataclass(frozen=True, kw_only=True)
class RandomPlaces(Positional):
    """Sizes of such a model, and its forward pass. `length` is the number of places, not of numbers."""

    kind = "positional-placed"

    form = Architecture.form

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.constants is None, f"constants={self.constants!r}: a model with places takes none.")

    def check(self, *inputs: Tensor) -> None:
        x, places = inputs
        super().check(x)
        require(
            places.shape == x.shape[:2] and places.dtype == torch.int64,
            f"places are {tuple(places.shape)}, {places.dtype}: the model takes {tuple(x.shape[:2])}, int64, one for "
            "every number.",
        )
        require(
            bool(((places >= 0) & (places < self.length)).all()),
            f"places lie in {places.min()} … {places.max()}: the model knows 0 … {self.length - 1}. Build it with a "
            "greater length.",
        )

    def attentions(
        self, p: Params, places: Int[Tensor, "replicas batch length"]
    ) -> Float[Tensor, "replicas batch layers heads nodes nodes"]:
        """Attention of every layer for every sample."""
        table = p["encoding"]
        rows = table.gather(1, places.flatten(1).unsqueeze(-1).expand(-1, -1, table.shape[2]))
        rows = rows.unflatten(1, places.shape[1:])
        if self.scratchpad:
            scratch = table[:, None, self.length :].expand(-1, places.shape[1], -1, -1)
            rows = torch.cat([rows, scratch], dim=2)
        rows = rows.unsqueeze(2)
        query = rows @ p["query_weight"].unsqueeze(1) + p["query_bias"][:, None, :, None]
        key = rows @ p["key_weight"].unsqueeze(1) + p["key_bias"][:, None, :, None]
        return attention_weights(split_heads(query, self.heads), split_heads(key, self.heads))

    def plain(self, p: Params, *inputs: Tensor) -> Float[Tensor, "replicas batch length out_dim"]:
        x, places = inputs
        attention = self.attentions(p, places)
        state = affine(p, "encoder", self.inputs(p, x))
        for index in range(self.depth):
            state = layer(p, index, state, attention[:, :, index])
        return affine(p, "decoder", state)[:, :, : x.shape[2]]

    forward = plain


class RandomPlacesTransformer(Model[RandomPlaces]):
    """(batch, length, in_dim) and (batch, length) → (batch, length, out_dim). Options: `RandomPlaces`."""

    describes = RandomPlaces

    def forward(
        self, x: Float[Tensor, "batch length in_dim"], places: Int[Tensor, "batch length"]
    ) -> Float[Tensor, "batch length out_dim"]:
        return self.run(x, places)
