"""Encodings of places for the selector: one-hot, fixed or stochastic, each with the three products it is used in.

Stochastic encodings are random signs over √width, a function of a sample's key alone. They are kept as the bits that
they are, 64 in a word: a token of the paper's size needs 24 bytes, and 680 as floats.
"""

import math
from functools import cache
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

#: Multipliers of splitmix64 (Steele, Lea, Flood 2014), as the signed numbers that tensors hold.
STEP, FIRST, SECOND = (number - 2**64 for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


@runtime_checkable
class Codes(Protocol):
    """The encodings e_1 … e_T of all samples' tokens."""

    def chosen(self, subset: Int[Tensor, "replicas batch q"]) -> Float[Tensor, "replicas batch q width"]:
        """The encodings of some tokens of each sample."""
        ...

    def products(self, vector: Float[Tensor, "replicas batch width"]) -> Float[Tensor, "replicas batch tokens"]:
        """⟨e_t, vector⟩ for every token t."""
        ...

    def pooled(self, weights: Float[Tensor, "replicas batch tokens"]) -> Float[Tensor, "replicas batch width"]:
        """Σ_t weights_t·e_t."""
        ...


class OneHot:
    """e_t is the t-th unit vector: nothing has to be multiplied."""

    def __init__(self, tokens: int, width: int, dtype: torch.dtype) -> None:
        self.tokens, self.width, self.dtype = tokens, width, dtype

    def chosen(self, subset: Tensor) -> Tensor:
        places = torch.arange(self.width, device=subset.device)
        return (subset.unsqueeze(-1) == places).to(self.dtype)

    def products(self, vector: Tensor) -> Tensor:
        return vector[..., : self.tokens]

    def pooled(self, weights: Tensor) -> Tensor:
        return torch.nn.functional.pad(weights, (0, self.width - self.tokens))


class Fixed:
    """A table that all samples of a replica share."""

    def __init__(self, table: Float[Tensor, "replicas tokens width"]) -> None:
        self.table = table

    def chosen(self, subset: Tensor) -> Tensor:
        places = subset.flatten(1).unsqueeze(-1).expand(-1, -1, self.table.shape[2])
        return self.table.gather(1, places).unflatten(1, subset.shape[1:])

    def products(self, vector: Tensor) -> Tensor:
        return vector @ self.table.mT

    def pooled(self, weights: Tensor) -> Tensor:
        return weights @ self.table


class Stochastic:
    """Random signs over √width for every sample, by its key."""

    def __init__(self, key: Int[Tensor, "replicas batch"], tokens: int, width: int, dtype: torch.dtype) -> None:
        self.key, self.tokens, self.width, self.dtype = key, tokens, width, dtype
        self._signs: Tensor | None = None

    @property
    def unit(self) -> float:
        return 1 / math.sqrt(self.width)

    def words(self) -> Int[Tensor, "replicas batch tokens words"]:
        """The signs as bits, where all of them are needed and none as a number."""
        return random_words(self.key.unsqueeze(-1), torch.arange(self.tokens, device=self.key.device), self.width)

    def chosen(self, subset: Tensor) -> Tensor:
        return as_signs(random_words(self.key.unsqueeze(-1), subset, self.width), self.width, self.dtype) * self.unit

    def products(self, vector: Tensor) -> Tensor:
        return (self._all() @ (vector * self.unit).unsqueeze(-1)).squeeze(-1)

    def pooled(self, weights: Tensor) -> Tensor:
        return (weights.unsqueeze(-2) @ self._all()).squeeze(-2) * self.unit

    def _all(self) -> Tensor:
        if self._signs is None:
            self._signs = as_signs(self.words(), self.width, self.dtype)
        return self._signs


def random_words(key: Int[Tensor, "*#lead"], token: Int[Tensor, "*#lead"], width: int) -> Int[Tensor, "*lead words"]:
    """64 random bits for every 64 dimensions of a token: the outputs of splitmix64 from the state `key`, in order.

    On any device and in any order the same, so an encoding needs no generator, and no memory until it is used.
    """
    words = -(-width // 64)
    counter = token.unsqueeze(-1) * words + torch.arange(1, words + 1, device=token.device)
    state = key.unsqueeze(-1) + counter * STEP
    state = (state ^ _shifted(state, 30)) * FIRST
    state = (state ^ _shifted(state, 27)) * SECOND
    return state ^ _shifted(state, 31)


def as_signs(words: Int[Tensor, "*lead words"], width: int, dtype: torch.dtype) -> Float[Tensor, "*lead width"]:
    """Bits as −1 and 1, lowest bit first: eight at a time, from a table of what a byte stands for."""
    bytes_ = words.contiguous().view(torch.uint8)[..., : -(-width // 8)].to(torch.int32)
    return torch.nn.functional.embedding(bytes_, _byte_signs(words.device, dtype)).flatten(-2)[..., :width]


@cache
def _byte_signs(device: torch.device, dtype: torch.dtype) -> Float[Tensor, "256 8"]:
    bits = (torch.arange(256, device=device).unsqueeze(1) >> torch.arange(8, device=device)) & 1
    return (2 * bits - 1).to(dtype)


def _shifted(state: Tensor, by: int) -> Tensor:
    """Shift right with zeros coming in, where tensors bring in the sign."""
    return (state >> by) & (2 ** (64 - by) - 1)
