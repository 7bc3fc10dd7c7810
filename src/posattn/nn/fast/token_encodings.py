"""Encodings of places for the selector: one-hot, fixed or stochastic, each with the three products it is used in.

Stochastic encodings are kept as the bits that they are, 64 in a word: a token of the paper's size needs 24 bytes, and
680 as floats.
"""

import math
from functools import cache
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posattn.nn.token_encodings import random_words


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


def as_signs(words: Int[Tensor, "*lead words"], width: int, dtype: torch.dtype) -> Float[Tensor, "*lead width"]:
    """Bits as −1 and 1, lowest bit first: eight at a time, from a table of what a byte stands for."""
    bytes_ = words.contiguous().view(torch.uint8)[..., : -(-width // 8)].to(torch.int32)
    return torch.nn.functional.embedding(bytes_, _byte_signs(words.device, dtype)).flatten(-2)[..., :width]


@cache
def _byte_signs(device: torch.device, dtype: torch.dtype) -> Float[Tensor, "256 8"]:
    bits = (torch.arange(256, device=device).unsqueeze(1) >> torch.arange(8, device=device)) & 1
    return (2 * bits - 1).to(dtype)


class Read(NamedTuple):
    """What attention gives: the mean token, the mean encoding, and the query's weight where it is among the keys."""

    tokens: Float[Tensor, "replicas batch dim"]
    codes: Float[Tensor, "replicas batch width"]
    itself: Float[Tensor, "replicas batch 1"] | None
