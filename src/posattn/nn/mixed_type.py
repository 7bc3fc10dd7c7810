"""The mixed-type pair: characters and numbers in, one number out, read at node 0.

Back de Luca et al. 2025, Fig. 6. Nodes are the characters, then the numbers, then the scratchpad. Characters pass
through an embedding (N(0, 1), PyTorch's default), numbers (and the scratchpad's 0) through a linear map. The layers
are those of the numeric models. `MixedStandard` adds a learned position embedding; `MixedPositional` gives identity
rows to Q and K.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posattn.checks import finite, keep_whole
from posattn.errors import require
from posattn.nn.architecture import Architecture, check_codes
from posattn.nn.functional import Init, Params, affine
from posattn.nn.gpt import look_up
from posattn.nn.module import Model
from posattn.nn.numeric import GIVEN, Numeric, layer
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

    def check(self, *inputs: Tensor) -> None:
        characters, numbers = inputs
        wanted = self.length - self.characters
        require(
            tuple(characters.shape[1:]) == (self.characters,)
            and characters.dtype == torch.int64
            and tuple(numbers.shape) == (characters.shape[0], wanted)
            and numbers.is_floating_point(),
            f"characters {tuple(characters.shape)}, {characters.dtype}, and numbers {tuple(numbers.shape)}, "
            f"{numbers.dtype}: the model takes (batch, {self.characters}), int64, and (batch, {wanted}), floats.",
        )
        check_codes("character", characters, self.vocabulary)
        finite("the numbers", numbers)

    @abstractmethod
    def attend(self, p: Params) -> Callable[[int, Tensor], Tensor]:
        """What gives a layer's attention weights, from its number and its state."""

    def embed(
        self,
        p: Params,
        characters: Int[Tensor, "replicas batch characters"],
        numbers: Float[Tensor, "replicas batch numbers"],
    ) -> Float[Tensor, "replicas batch nodes embed"]:
        text = look_up(p["character_embedding"], characters)
        padded = torch.nn.functional.pad(numbers, (0, self.scratchpad)).unsqueeze(-1)
        return torch.cat([text, affine(p, "encoder", padded)], dim=2)

    def forward(self, p: Params, *inputs: Tensor) -> Float[Tensor, "replicas batch out_dim"]:
        state, attention = self.embed(p, *inputs), self.attend(p)
        for index in range(self.depth):
            state = layer(p, index, state, attention(index, state))
        return affine(p, "decoder", state[:, :, 0])

    def plain(self, p: Params, *inputs: Tensor) -> Tensor:
        return self.forward(p, *inputs)

    def form(self, *, device: torch.device, precision: str) -> Callable[..., Tensor]:
        """The numeric models' fast forms take numbers alone."""
        return Architecture.form(self, device=device, precision=precision)


@dataclass(frozen=True, kw_only=True)
class MixedPositional(Mixed, Positional):
    kind = "mixed-positional"

    def attend(self, p: Params) -> Callable[[int, Tensor], Tensor]:
        every_layer = self.attention(p, self.nodes).unsqueeze(2)
        return lambda index, state: every_layer[:, index]


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

    def embed(self, p: Params, characters: Tensor, numbers: Tensor) -> Tensor:
        return super().embed(p, characters, numbers) + p["position_embedding"].unsqueeze(1)

    def attend(self, p: Params) -> Callable[[int, Tensor], Tensor]:
        return lambda index, state: self.layer_attention(p, index, state)


DescribedMixed = TypeVar("DescribedMixed", bound=Mixed)


class MixedModel(Model[DescribedMixed]):
    """A module of the mixed-type pair."""

    def forward(
        self, characters: Int[Tensor, "batch characters"], numbers: Float[Tensor, "batch numbers"]
    ) -> Float[Tensor, "batch out_dim"]:
        return self.run(characters, numbers)


class MixedPositionalTransformer(MixedModel[MixedPositional]):
    """characters (batch, 90), numbers (batch, 8) → answer (batch, 1). Options: the fields of `MixedPositional`."""

    describes = MixedPositional


class MixedStandardTransformer(MixedModel[MixedStandard]):
    """characters (batch, 90), numbers (batch, 8) → answer (batch, 1). Options: the fields of `MixedStandard`."""

    describes = MixedStandard
