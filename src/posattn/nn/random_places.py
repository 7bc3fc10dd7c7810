"""Transformers whose nodes stand at places of a longer range, which come with the input: positional and standard.

Every sample says where its numbers stand, in ascending order among `length` places; P has a row for each place. Trained
with places that are drawn anew for every sample, a model of short inputs has met the rows that longer inputs need: the
stochastic encodings of sparse token selection, taken to positional attention, which still depends on positions alone,
but differs from sample to sample; and the randomised positions of Ruoss et al., "Randomized Positional Encodings Boost
Length Generalization of Transformers", ACL 2023 (arXiv 2305.16843), whose standard Transformer reads [x ‖ P].
"""

from dataclasses import dataclass
from typing import TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posattn.errors import PosattnError, require
from posattn.nn.module import Model, values_known
from posattn.nn.numeric_model import NumericModel
from posattn.nn.numeric_sizes import Numeric
from posattn.nn.positional import Positional, PositionalModel


@dataclass(frozen=True, kw_only=True)
class RandomPlaces(Positional):
    """Sizes of such a model. `length` is the number of places, not of numbers."""

    kind = "positional-placed"
    possible = ("scale",)

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_constants(self)


@dataclass(frozen=True, kw_only=True)
class StandardRandomPlaces(Numeric):
    """Sizes of a standard Transformer with places; `length` is again their number."""

    kind = "standard-placed"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_constants(self)

    @property
    def input_width(self) -> int:
        return super().input_width + self.encoding_width

    @property
    def query_width(self) -> int:
        return self.embed_dim


def _check_constants(sizes: Numeric) -> None:
    require(sizes.constants is None, f"constants={sizes.constants!r}: a model with places takes none.")


DescribedPlaces = TypeVar("DescribedPlaces", bound=Numeric)


class PlacedModel(NumericModel[DescribedPlaces]):
    """What models with places share."""

    takes_numbers_alone = False

    def check_places(self, x: Tensor, places: Tensor) -> None:
        """Every number has a place, and the model knows it."""
        Model.check(self, places)
        if places.shape != x.shape[:2] or places.dtype != torch.int64:
            raise PosattnError(
                f"places are {tuple(places.shape)}, {places.dtype}: the model takes {tuple(x.shape[:2])}, int64, one "
                "for every number."
            )
        known = self.architecture.length
        if values_known(places) and not ((places >= 0) & (places < known)).all():
            raise PosattnError(
                f"places lie in {places.min()} … {places.max()}: the model knows 0 … {known - 1}. Build it with a "
                "greater length."
            )

    def _placed(self, x: Tensor, places: Tensor) -> Float[Tensor, "batch nodes width"]:
        """The rows of P for this input's places, after checking that everything fits."""
        self.check(x)
        self.check_places(x, places)
        table = self.get_buffer("encoding")
        scratchpad = table[self.architecture.length :].expand(x.shape[0], -1, -1)
        return torch.cat([table[places], scratchpad], dim=1)


class RandomPlacesTransformer(PlacedModel[RandomPlaces], PositionalModel[RandomPlaces]):
    """(batch, length, in_dim) and places (batch, length) → (batch, length, out_dim).

    >>> model = RandomPlacesTransformer(length=32, generator=torch.Generator().manual_seed(0))
    >>> model(torch.zeros(1, 3, 1), torch.tensor([[4, 9, 30]])).shape
    torch.Size([1, 3, 1])
    """

    describes = RandomPlaces

    def forward(
        self, x: Float[Tensor, "batch length in_dim"], places: Int[Tensor, "batch length"]
    ) -> Float[Tensor, "batch length out_dim"]:
        position = self._placed(x, places)
        state = self.encoder(self.inputs(x))
        for layer in self.layers:
            state = layer(state, position)
        return self.decoder(state)[:, : x.shape[1]]


class StandardRandomPlacesTransformer(PlacedModel[StandardRandomPlaces]):
    """The same with attention that sees values, on [x ‖ P].

    >>> model = StandardRandomPlacesTransformer(length=32, generator=torch.Generator().manual_seed(0))
    >>> model(torch.zeros(1, 3, 1), torch.tensor([[4, 9, 30]])).shape
    torch.Size([1, 3, 1])
    """

    describes = StandardRandomPlaces

    def forward(
        self, x: Float[Tensor, "batch length in_dim"], places: Int[Tensor, "batch length"]
    ) -> Float[Tensor, "batch length out_dim"]:
        position = self._placed(x, places)
        state = self.encoder(torch.cat([self.inputs(x), position], dim=-1))
        for layer in self.layers:
            state = layer(state, state)
        return self.decoder(state)[:, : x.shape[1]]
