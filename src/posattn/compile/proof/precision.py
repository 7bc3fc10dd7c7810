"""A dtype's arithmetic as exact fractions: what it holds, and how far one operation can be off (IEEE 754)."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch

from posattn.compile.lowering.floats import NUMPY


@dataclass(frozen=True)
class Precision:
    """Binary floating point, rounded to nearest, with gradual underflow."""

    name: str
    bits: int  # of a significand
    smallest: Fraction  # the least number above 0
    largest: Fraction
    never: int  # exp of minus this is 0, with much to spare: exp(−128) < 2⁻¹⁸⁴, exp(−800) < 2⁻¹¹⁵⁴

    @property
    def unit(self) -> Fraction:
        """Half the distance from 1 to the next number."""
        return Fraction(1, 1 << self.bits)

    def nearest(self, number: float) -> Fraction:
        return Fraction(float(np.dtype(self.name).type(number)))

    def rounding(self, size: Fraction) -> Fraction:
        """How far a result of at most this size can be from the number it was rounded from: half a last place.

        Numbers below 2ᵉ are spaced by at most 2·unit·2ᵉ⁻¹, and 2ᵉ itself is held.
        """
        if size == 0:
            return Fraction(0)
        return max(self.unit * power_above(size) / 2, self.smallest / 2)


def power_above(size: Fraction) -> Fraction:
    """The least power of two that is at least `size`, which is above 0."""
    exponent = size.numerator.bit_length() - size.denominator.bit_length() - 1
    found = Fraction(2) ** exponent
    while found < size:
        found *= 2
    return found


def power_below(number: Fraction) -> Fraction:
    """The largest power of two that divides a number with a power of two below the line; 0 where it has another."""
    below = number.denominator
    if below & (below - 1):
        return Fraction(0)
    above = abs(number.numerator)
    return Fraction(above & -above, below)


def is_power(number: Fraction) -> bool:
    """Whether multiplying by the number only moves the exponent."""
    return number != 0 and power_below(number) == abs(number)


PRECISIONS = {
    torch.float32: Precision("float32", 24, Fraction(1, 1 << 149), Fraction(float(np.finfo(np.float32).max)), 128),
    torch.float64: Precision("float64", 53, Fraction(1, 1 << 1074), Fraction(float(np.finfo(np.float64).max)), 800),
}
assert PRECISIONS.keys() == NUMPY.keys()
