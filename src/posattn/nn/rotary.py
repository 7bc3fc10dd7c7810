"""Rotary position embedding (Su et al. 2021): the inner product of two rotated vectors knows how far apart they are."""

import torch
from jaxtyping import Float
from torch import Tensor

BASE = 10_000.0


def rotate(x: Float[Tensor, "*lead nodes width"]) -> Float[Tensor, "*lead nodes width"]:
    """Turn dimensions (2k, 2k + 1) of node i by the angle i / 10000^(2k/width)."""
    nodes, width = x.shape[-2:]
    frequency = BASE ** (-torch.arange(0, width, 2, device=x.device, dtype=torch.float64) / width)
    angle = torch.arange(nodes, device=x.device, dtype=torch.float64)[:, None] * frequency
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)
