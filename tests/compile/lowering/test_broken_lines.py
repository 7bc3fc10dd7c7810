"""Broken lines hold in the model's dtype, and are as near to the function as lines of so many pieces can be."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from posattn import PosattnError
from posattn.compile.lowering.broken_lines import Numbers, broken_line, measured_error, outward
from posattn.compile.lowering.fit_errors import largest_error

DTYPES = {torch.float32: np.float32, torch.float64: np.float64}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("knots", [2, 3, 9, 64])
def test_every_number_of_a_line_is_one_of_the_dtype(dtype, knots):
    for function, low, high in ((np.exp, -3.0, 2.0), (np.sqrt, 0.0, 1000.0), (np.sin, -9.0, 9.0)):
        line = broken_line("f", function, low, high, knots=knots, dtype=dtype)
        for number in (line.start, *line.knots, *line.bends):
            assert float(DTYPES[dtype](number)) == number
        assert line.knots[0] == low
        assert (np.diff([*line.knots, high]) > 0).all()
        assert len(line.knots) == len(line.bends) == knots - 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_rounding_does_not_add_up_along_a_line(dtype):
    """With a thousand knots, z²/4 on [−8, 8] is off by h²/32 and a few roundings of numbers up to 16."""
    line = broken_line("product", lambda z: z * z / 4, -8.0, 8.0, knots=1001, dtype=dtype)
    unit = float(np.finfo(DTYPES[dtype]).eps)
    assert largest_error("product", *line, -8.0, 8.0) <= (16 / 1000) ** 2 / 32 * 1.01 + 16 * unit


@pytest.mark.parametrize(("name", "function", "low", "high", "root"), [
    ("exp", np.exp, -6.0, 2.0, lambda z: np.exp(z / 2)),
    ("reciprocal", np.reciprocal, 0.05, 20.0, lambda z: np.sqrt(2 / z**3)),
    ("log", np.log, 0.01, 10.0, lambda z: 1 / z),
    ("sin", np.sin, -3.0, 7.0, lambda z: np.sqrt(2 * np.abs(np.sin(z)))),  # twice: it bends up and down
])  # fmt: skip
def test_a_line_is_nearly_the_best_of_so_many_pieces(name, function, low, high, root):
    """n pieces err by (∫√|f″|)²/(16·n²) at least, in the limit of many."""
    line = broken_line(name, function, low, high, knots=65, dtype=torch.float64)
    fine = np.linspace(low, high, 200_001)
    best = np.trapezoid(root(fine), fine) ** 2 / 16 / 64**2
    assert best * 0.98 <= largest_error(name, *line, low, high) <= 1.3 * best


def test_a_measured_error_is_that_of_the_points_between_the_knots():
    line = Numbers(0.0, (0.0, 1.0), (1.0, 2.0))  # z², as chords
    assert measured_error(np.square, line, 0.0, 2.0) == 0.25
    assert measured_error(np.square, line, 0.0, 1.0) == 0.25
    assert measured_error(lambda z: z * 0 + 5.0, Numbers(5.0, (3.0,), (0.0,)), 3.0, 3.0) == 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("low", "high"), [(-1.0, 1.0), (0.1, 0.3), (-1000.1, -1e-9), (0.0, 7.0), (-3.0, 0.0), (2.0, 2.0)]
)
def test_intervals_are_widened_but_stay_on_their_side_of_zero(low, high, dtype):
    left, right = outward(low, high, dtype)
    reach = Fraction(max(abs(low), abs(high)))
    wider = 0 if low == 0 else reach / 2**41
    assert Fraction(left) <= Fraction(low) - wider or left == low / 2
    assert Fraction(right) >= Fraction(high)
    assert right - left <= (high - low) + float(reach) * 2.0**-18  # ends have about twenty bits
    assert (left < 0) == (low < 0)
    assert (right > 0) == (high > 0)
    assert all(float(DTYPES[dtype](end)) == end for end in (left, right))


def test_what_is_not_finite_or_too_steep_is_refused():
    with pytest.raises(PosattnError, match=r"step is not finite on \[-4, 4\]"):
        broken_line("step", lambda v: np.where(v > 0, np.inf, 0), -4.0, 4.0, knots=8, dtype=torch.float32)
    with pytest.raises(PosattnError, match=r"wall on .* is too steep for torch\.float32"):
        broken_line("wall", lambda v: 1e30 * np.sign(v), -1e-20, 1e-20, knots=8, dtype=torch.float32)
