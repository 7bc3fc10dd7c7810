"""The proved error of a broken line: never below what dense sampling finds, and hardly above it."""

import importlib.util
from fractions import Fraction

import numpy as np
import pytest

from posattn import PosattnError
from posattn.compile.expressions.known_functions import FUNCTIONS
from posattn.compile.lowering.fit_errors import can_prove, largest_error

#: Every function, and intervals on which it is tried: with its bends, its inflections, its ends.
INTERVALS = {
    "exp": [(-9, 1), (-1e-3, 2e-3), (-40, -30)],
    "reciprocal": [(0.01, 5), (-7, -0.3), (1, 1.001)],
    "sqrt": [(0, 9), (1e-6, 1), (0, 1e-9)],
    "log": [(0.01, 40), (1, 1.1)],
    "tanh": [(-5, 4), (-60, 60), (0, 3), (-3, 0)],
    "sigmoid": [(-9, 5), (-80, 90), (0.5, 0.6)],
    "sin": [(-10, 11), (0, np.pi), (3, 3.3)],
    "cos": [(-5, 4), (1, 2), (-0.1, 40)],
    "product": [(-3, 5), (0, 1e-3), (100, 101)],
}
Line = tuple[float, tuple[float, ...], tuple[float, ...]]


def chords(function: str, low: float, high: float, knots: int) -> Line:
    """The line through the function's values."""
    places = np.linspace(low, high, knots)
    values = places**2 / 4 if function == "product" else FUNCTIONS[function](places)
    slopes = np.diff(values) / np.diff(places)
    return float(values[0]), tuple(places[:-1].tolist()), tuple(np.diff(slopes, prepend=0.0).tolist())


def any_line(low: float, high: float, seed: int) -> Line:
    """A line that has nothing to do with the function, some of it beyond the interval."""
    rng = np.random.default_rng(seed)
    wide = high - low
    knots = np.sort(rng.uniform(low - wide / 4, high + wide / 4, 5))
    return float(rng.normal()), tuple(knots.tolist()), tuple((rng.normal(size=5) / wide).tolist())


def sampled(function: str, line: Line, low: float, high: float) -> float:
    """The largest error on a fine grid, then on finer ones around the worst place, in long doubles."""
    start, knots, bends = line
    left, right = np.longdouble(low), np.longdouble(high)
    worst = np.longdouble(0)
    for _ in range(3):
        z = np.linspace(left, right, 3_001, dtype=np.longdouble).clip(low, high)
        pairs = zip(np.asarray(knots, np.longdouble), np.asarray(bends, np.longdouble), strict=True)
        line_there = start + sum(bend * np.maximum(z - knot, 0) for knot, bend in pairs)
        errors = np.abs((z * z / 4 if function == "product" else FUNCTIONS[function](z)) - line_there)
        place = int(np.argmax(errors))
        worst = max(worst, errors[place])
        left, right = z[max(place - 1, 0)], z[min(place + 1, len(z) - 1)]
    return float(worst)


@pytest.mark.parametrize("function", INTERVALS)
def test_no_number_errs_by_more_than_is_proved_and_some_by_nearly_as_much(function):
    for low, high in INTERVALS[function]:
        lines = [chords(function, low, high, knots) for knots in (2, 3, 17)]
        for line in (*lines, *(any_line(low, high, seed) for seed in range(2))):
            proved, found = largest_error(function, *line, float(low), float(high)), sampled(function, line, low, high)
            assert found <= proved * (1 + 1e-15) <= found * 1.01 + 1e-15, (function, low, high, line)


def test_every_function_that_a_file_may_name_can_be_proved():
    assert set(INTERVALS) == set(FUNCTIONS)
    assert all(map(can_prove, FUNCTIONS))


def test_a_square_is_known_to_the_last_bit():
    """Brute force over fractions: the largest error lies at a knot or at the vertex, z = 2·slope."""
    start, knots, bends = 0.1, (-1.0, 0.5, 0.75), (-0.3, 0.7, 0.1)
    places = [Fraction(k, 256) for k in range(-256, 513)]
    errors = [
        abs(
            z * z / 4
            - Fraction(start)
            - sum(Fraction(b) * max(z - Fraction(k), 0) for k, b in zip(knots, bends, strict=True))
        )
        for z in places
    ]
    proved = largest_error("product", start, knots, bends, -1.0, 2.0)
    assert max(errors) <= Fraction(proved) <= max(errors) * (1 + Fraction(1, 10**4))
    assert largest_error("product", 0.0, (0.0, 2.0), (0.5, 0.0), 0.0, 2.0) == 0.25


def test_a_single_number_is_an_interval_too():
    assert largest_error("exp", 1.0, (0.0,), (0.0,), 0.0, 0.0) < 1e-15
    assert largest_error("exp", 1.5, (0.0,), (9.0,), 0.0, 0.0) == pytest.approx(0.5)
    assert largest_error("product", 1.0, (2.0,), (0.0,), 2.0, 2.0) == 0


def test_where_the_line_is_flat_or_beyond_its_last_knot_it_counts_too():
    flat, after = (
        largest_error("exp", 1.0, (0.0,), (1.0,), -2.0, 0.0),
        largest_error("exp", 1.0, (0.0,), (1.0,), 0.0, 1.0),
    )
    assert flat == pytest.approx(1 - np.exp(-2), rel=1e-5)
    assert after == pytest.approx(np.e - 2, rel=1e-5)


@pytest.mark.parametrize(
    ("function", "low", "high", "message"),
    [
        ("reciprocal", -1.0, 1.0, r"reciprocal is not defined on all of \[-1, 1\]"),
        ("reciprocal", 0.0, 1.0, "reciprocal is not defined"),
        ("sqrt", -1.0, 1.0, "sqrt is not defined"),
        ("log", 0.0, 1.0, "log is not defined"),
        ("exp", 1.0, 0.0, "low=1.0, high=0.0: an interval goes up"),
        ("cosh", 0.0, 1.0, "'cosh' is a fitted function without bounds: its error can be measured, not proved"),
    ],
)
def test_what_cannot_be_proved_is_refused(function, low, high, message):
    with pytest.raises(PosattnError, match=message):
        largest_error(function, 0.0, (0.0,), (1.0,), low, high)


def test_without_python_flint_only_products_are_proved(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert [name for name in FUNCTIONS if can_prove(name)] == ["product"]
    assert largest_error("product", 0.0, (0.0,), (0.25,), 0.0, 1.0) == 0.0625
    with pytest.raises(PosattnError, match=r"proving the error of a fit needs packages .* 'posattn\[proof\]'"):
        largest_error("exp", 0.125, (0.0,), (0.25,), 0.0, 1.0)
