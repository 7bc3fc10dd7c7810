"""Stochastic encodings of tokens: random signs, a function of a sample's key and the token's place alone.

They need no generator and no memory until they are used, and are the same on every device and in every order.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

#: Multipliers of splitmix64 (Steele, Lea, Flood 2014), as the signed numbers that tensors hold.
STEP, FIRST, SECOND = (number - 2**64 for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def random_signs(
    key: Int[Tensor, "*#lead"], token: Int[Tensor, "*#lead"], width: int, dtype: torch.dtype
) -> Float[Tensor, "*lead width"]:
    """−1 or 1 for every dimension of a token: the bits of `random_words`, lowest bit first."""
    words = random_words(key, token, width)
    bits = (words.unsqueeze(-1) >> torch.arange(64, device=words.device)) & 1
    return (2 * bits - 1).flatten(-2)[..., :width].to(dtype)


def random_words(key: Int[Tensor, "*#lead"], token: Int[Tensor, "*#lead"], width: int) -> Int[Tensor, "*lead words"]:
    """64 random bits for every 64 dimensions of a token: the outputs of splitmix64 from the state `key`, in order.

    On any device and in any order the same, so an encoding needs no generator, and no memory until it is used.
    """
    words = -(-width // 64)
    # One multiplication by STEP for the token and one for the word, all of them modulo 2⁶⁴: a compiler that works out
    # the range of `counter * STEP` would leave 64 bits.
    within = torch.cat([token.new_full((1,), _wrapped(STEP * word)) for word in range(1, words + 1)])
    state = key.unsqueeze(-1) + token.unsqueeze(-1) * _wrapped(STEP * words) + within
    state = (state ^ _shifted(state, 30)) * FIRST
    state = (state ^ _shifted(state, 27)) * SECOND
    return state ^ _shifted(state, 31)


def _wrapped(number: int) -> int:
    """A whole number as the signed one that 64 bits hold of it."""
    return (number + 2**63) % 2**64 - 2**63


def _shifted(state: Tensor, by: int) -> Tensor:
    """Shift right with zeros coming in, where tensors bring in the sign."""
    return (state >> by) & (2 ** (64 - by) - 1)
