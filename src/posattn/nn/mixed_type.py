"""The mixed-type pair: characters and numbers in, one number out, read at node 0.

Back de Luca et al. 2025, Fig. 6. Nodes are the characters, then the numbers, then the scratchpad. Characters pass
through an embedding (N(0, 1), PyTorch's default), numbers (and the scratchpad's 0) through a linear map. The layers
are those of the numeric models. `MixedStandard` adds a learned position embedding; `MixedPositional` gives identity
rows to Q and K.
"""

from dataclasses import dataclass
from typing import TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from posattn.checks import finite, keep_whole
from posattn.errors import PosattnError, require
from posattn.nn.initial_weights import Init
from posattn.nn.module import Model, check_codes, values_known
from posattn.nn.numeric_model import Layer, NumericModel
from posattn.nn.numeric_sizes import GIVEN, Numeric
from posattn.nn.positional import Positional
from posattn.nn.standard import Standard


@dataclass(frozen=True, kw_only=True)
class Mixed(Numeric):
    """Sizes of a model that maps (batch, characters) and (batch, numbers) to (batch, out_dim)."""

    length: int = 98
    embed_dim: int = 32
    layers: int | None = 3
    hidden_dim: int = 32
    characters: int = 90  # the other nodes of `length` hold numbers
    vocabulary: int = 150

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_whole(self, "characters", "vocabulary", least=1)
        require(
            self.characters < self.length,
            f"characters={self.characters}, length={self.length}: there must be room for at least one number.",
        )
        require(
            self.in_dim == 1 and self.constants is None,
            f"in_dim={self.in_dim}, constants={self.constants!r}: a mixed-type model takes plain numbers.",
        )
        require(self.encoding != GIVEN, f"encoding={GIVEN!r}: a mixed-type model takes the name of an encoding.")

    def parameters(self) -> dict[str, Init]:
        return {"character_embedding": Init((self.vocabulary, self.embed_dim), normal=1.0)} | super().parameters()


@dataclass(frozen=True, kw_only=True)
class MixedPositional(Mixed, Positional):
    kind = "mixed-positional"
    possible = ()  # text does not move when the numbers do


@dataclass(frozen=True, kw_only=True)
class MixedStandard(Mixed, Standard):
    kind = "mixed-standard"

    append_encoding: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            not self.append_encoding,
            "append_encoding=True: a mixed-type model adds learned positions instead. Leave it out.",
        )

    def parameters(self) -> dict[str, Init]:
        return {"position_embedding": Init((self.nodes, self.embed_dim), normal=1.0)} | super().parameters()


def check_prompts(characters: Tensor, numbers: Tensor, *, length: int, count: int) -> None:
    """Raise where inputs are not so many characters and numbers."""
    if not (
        tuple(characters.shape[1:]) == (length,)
        and characters.dtype == torch.int64
        and tuple(numbers.shape) == (characters.shape[0], count)
        and numbers.is_floating_point()
    ):
        raise PosattnError(
            f"characters {tuple(characters.shape)}, {characters.dtype}, and numbers {tuple(numbers.shape)}, "
            f"{numbers.dtype}: the model takes (batch, {length}), int64, and (batch, {count}), floats."
        )
    if values_known(numbers):
        finite("the numbers", numbers)


DescribedMixed = TypeVar("DescribedMixed", bound=Mixed)


class MixedModel(NumericModel[DescribedMixed]):
    """What the mixed-type pair shares."""

    takes_numbers_alone = False

    def build(self, architecture: DescribedMixed) -> None:
        super().build(architecture)
        self.character_embedding = nn.Embedding(architecture.vocabulary, architecture.embed_dim)
        self.embedded = nn.Identity()  # where hooks meet the state before the first layer

    def parts(self) -> list[tuple[str, str | None]]:
        return [("embedded", None), *super().parts()[1:]]

    def check(self, *inputs: Tensor) -> None:
        Model.check(self, *inputs)
        (characters, numbers), sizes = inputs, self.architecture
        check_prompts(characters, numbers, length=sizes.characters, count=sizes.length - sizes.characters)
        check_codes("character", characters, sizes.vocabulary)

    def embed(
        self, characters: Int[Tensor, "batch characters"], numbers: Float[Tensor, "batch numbers"]
    ) -> Float[Tensor, "batch nodes embed"]:
        """Characters through the embedding, numbers and the scratchpad's zeros through the encoder."""
        padded = nn.functional.pad(numbers, (0, self.architecture.scratchpad)).unsqueeze(-1)
        return torch.cat([self.character_embedding(characters), self.encoder(padded)], dim=1)


class MixedPositionalTransformer(MixedModel[MixedPositional]):
    """characters (batch, 90), numbers (batch, 8) → answer (batch, 1), with attention that sees positions alone."""

    describes = MixedPositional

    def __init__(
        self,
        *,
        length: int = 98,
        characters: int = 90,
        vocabulary: int = 150,
        scratchpad: int = 1,
        out_dim: int = 1,
        embed_dim: int = 32,
        heads: int = 2,
        layers: int | None = 3,
        hidden_dim: int = 32,
        mlp_layers: int = 2,
        bias: bool = True,
        encoding: str = "one-hot",
        encoding_dim: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        """Draw the first weights. Arguments are those of `PositionalTransformer`, and two more.

        Args:
            characters: how many of the `length` nodes hold characters; the others hold numbers.
            vocabulary: how many characters there are.
        """
        self._begin(
            generator, length=length, characters=characters, vocabulary=vocabulary, scratchpad=scratchpad,
            out_dim=out_dim, embed_dim=embed_dim, heads=heads, layers=layers, hidden_dim=hidden_dim,
            mlp_layers=mlp_layers, bias=bias, encoding=encoding, encoding_dim=encoding_dim, constants=None,
        )  # fmt: skip

    def forward(
        self, characters: Int[Tensor, "batch characters"], numbers: Float[Tensor, "batch numbers"]
    ) -> Float[Tensor, "batch out_dim"]:
        self.check(characters, numbers)
        state, position = self.embedded(self.embed(characters, numbers)), self.get_buffer("encoding")
        for layer in self.layers:
            state = layer(state, position)
        return self.decoder(state[:, 0])


class MixedStandardTransformer(MixedModel[MixedStandard]):
    """characters (batch, 90), numbers (batch, 8) → answer (batch, 1), with attention that sees values."""

    describes = MixedStandard

    def __init__(
        self,
        *,
        length: int = 98,
        characters: int = 90,
        vocabulary: int = 150,
        scratchpad: int = 1,
        out_dim: int = 1,
        embed_dim: int = 32,
        heads: int = 2,
        layers: int | None = 3,
        hidden_dim: int = 32,
        mlp_layers: int = 2,
        bias: bool = True,
        encoding: str = "one-hot",
        encoding_dim: int | None = None,
        rotary: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        """Draw the first weights. Arguments are those of `StandardTransformer`, and two more.

        Args:
            characters: how many of the `length` nodes hold characters; the others hold numbers.
            vocabulary: how many characters there are.
            rotary: whether queries and keys are rotated by their node's place.
        """
        self._begin(
            generator, length=length, characters=characters, vocabulary=vocabulary, scratchpad=scratchpad,
            out_dim=out_dim, embed_dim=embed_dim, heads=heads, layers=layers, hidden_dim=hidden_dim,
            mlp_layers=mlp_layers, bias=bias, encoding=encoding, encoding_dim=encoding_dim, constants=None,
            rotary=rotary,
        )  # fmt: skip

    def build(self, architecture: MixedStandard) -> None:
        super().build(architecture)
        self.position_embedding = nn.Embedding(architecture.nodes, architecture.embed_dim)

    def layer(self, sizes: MixedStandard) -> Layer:
        return Layer(sizes, rotary=sizes.rotary)

    def forward(
        self, characters: Int[Tensor, "batch characters"], numbers: Float[Tensor, "batch numbers"]
    ) -> Float[Tensor, "batch out_dim"]:
        self.check(characters, numbers)
        state = self.embedded(self.embed(characters, numbers) + self.position_embedding.weight)
        for layer in self.layers:
            state = layer(state, state)
        return self.decoder(state[:, 0])
