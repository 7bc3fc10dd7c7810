"""What a dtype can hold: its precision, its smallest number, and which numbers it holds exactly."""

import math
from dataclasses import dataclass

import numpy as np
import torch

from posattn.compile.expressions import Array

#: The dtypes that a program compiles to, as NumPy calls them.
NUMPY = {torch.float32: np.float32, torch.float64: np.float64}


@dataclass(frozen=True)
class Numbers:
    """What a dtype can do."""

    dtype: torch.dtype
    rounding: bool = True  # whether roundings count …
    underflow: bool = True  # … and numbers too small for the dtype

    @property
    def tiny(self) -> float:
        return torch.finfo(self.dtype).tiny if self.underflow else 0.0

    @property
    def unit(self) -> float:
        return torch.finfo(self.dtype).eps / 2 if self.rounding else 0.0

    @property
    def bits(self) -> int:
        return round(1 - math.log2(torch.finfo(self.dtype).eps))

    def holds(self, number: float) -> bool:
        return float(NUMPY[self.dtype](number)) == number


def grain_of(values: Array) -> Array:
    """The lowest bit of every number, a power of two; ∞ for 0, which is a multiple of everything."""
    distinct, which = np.unique(np.abs(values), return_inverse=True)
    return np.array([_lowest_bit(float(value)) for value in distinct])[which]


def _lowest_bit(value: float) -> float:
    above, below = value.as_integer_ratio()
    return (above & -above) / below if above else math.inf


def has_exact_multiples(grid: float) -> bool:
    """Whether numbers on a grid are what they are meant to be: 0.25 has few bits, 0.1 has as many as fit."""
    return float(np.float32(grid)) == grid
