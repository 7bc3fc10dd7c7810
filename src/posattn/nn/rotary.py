"""Rotary position embedding (Su et al. 2021): the inner product of two rotated vectors knows how far apart they are."""

import torch
from jaxtyping import Float
from torch import Tensor

BASE = 10_000.0


def rotate(x: Float[Tensor, "*lead nodes width"]) -> Float[Tensor, "*lead nodes width"]:
    """Turn dimensions (2k, 2k + 1) of node i by the angle i / 10000^(2k/width)."""
    cos, sin = (table[:, 0::2].to(x.dtype) for table in turning(*x.shape[-2:], device=x.device))
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos + odd * sin, odd * cos - even * sin], dim=-1).flatten(-2)


def turning(nodes: int, width: int, device: torch.device | None = None) -> Float[Tensor, "2 nodes width"]:
    """Cosine and sine for every node and dimension, the sine negative for the first of a pair, in float64.

    A turned vector is x·cosine + x'·sine, where x' has the two dimensions of every pair exchanged.
    """
    frequency = BASE ** (-torch.arange(0, width, 2, device=device, dtype=torch.float64) / width)
    angle = torch.arange(nodes, device=device, dtype=torch.float64)[:, None] * frequency
    sine = torch.stack([-angle.sin(), angle.sin()], dim=-1).flatten(1)
    return torch.stack([angle.cos().repeat_interleave(2, dim=1), sine])
