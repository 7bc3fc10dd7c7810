"""A dtype's arithmetic against NumPy's."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posattn.compile.proof.precision import PRECISIONS, is_power, power_above, power_below

FLOATS = {torch.float32: np.float32, torch.float64: np.float64}


@pytest.mark.parametrize("dtype", PRECISIONS)
@given(st.floats(min_value=1e-44, max_value=1e38))
def test_rounding_is_half_the_distance_to_the_number_below(dtype, size):
    held = FLOATS[dtype](size)
    below = np.nextafter(held, FLOATS[dtype](0))
    assert PRECISIONS[dtype].rounding(Fraction(float(held))) == (Fraction(float(held)) - Fraction(float(below))) / 2


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_limits_are_those_of_the_dtype(dtype):
    about, held = np.finfo(FLOATS[dtype]), PRECISIONS[dtype]
    assert (float(held.smallest), float(held.largest)) == (float(about.smallest_subnormal), float(about.max))
    assert float(held.unit) == float(about.eps) / 2
    assert np.exp(FLOATS[dtype](-held.never)) == 0
    assert held.rounding(Fraction(0)) == 0


@given(st.fractions(min_value=Fraction(1, 10**6), max_value=10**6))
def test_powers_of_two_enclose_a_number(number):
    above = power_above(number)
    assert above / 2 < number <= above
    assert is_power(above)


@given(st.integers(-(10**6), 10**6), st.integers(0, 40))
def test_what_divides_a_number_divides_it_and_twice_as_much_does_not(above, bits):
    number = Fraction(above, 1 << bits)
    grain = power_below(number)
    assert (grain == 0) == (number == 0)
    if number:
        assert (number / grain).denominator == 1
        assert (number / (2 * grain)).denominator == 2
    assert power_below(Fraction(1, 3)) == 0
