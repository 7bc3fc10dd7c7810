"""Broken lines near a function, in numbers that the model's dtype holds exactly.

Knots are closer where the function bends more: with an error of h²/8·|f″| between knots h apart, errors are equal where
1/h is in proportion to √|f″|. Rounding a bend tilts the rest of the line, so every piece aims from where the line is
to where the function is, and errors do not add up. In the end the line is moved up or down, so that it is off by as
much above as below.

Knots and the line's height have few bits, so that adding a constant to the line or to its argument is exact, too: the
two are stored as one number.
"""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch

from posattn.compile.expressions import Array, Line, word
from posattn.compile.lowering.floats import NUMPY
from posattn.errors import require

#: Points between two knots at which bends are looked at, and errors of functions that cannot be proved are measured.
PROBES = 16
#: How often the places at which bends are looked at are moved to where the bends are.
PASSES = 3
#: The share of the knots, in proportion to the rest, that is spread evenly, however the function bends.
EVEN = 0.1
#: Bounds of arguments are computed in floats; they are right if widened by this much of the larger one.
SLACK = 2.0**-40

#: What numbers of few bits are multiples of: a power of two below this part of the least gap, or of a line's error.
COARSE = 256

Function = Callable[[Array], Any]


class Numbers(NamedTuple):
    """start + Σ bend·relu(z − knot)."""

    start: float
    knots: tuple[float, ...]
    bends: tuple[float, ...]


def outward(low: float, high: float, dtype: torch.dtype) -> tuple[float, float]:
    """An interval a little wider than given, with ends that the dtype holds, on the same side of 0 as before.

    The ends are multiples of 2⁻²⁰ of the larger one, unless that would take one across 0.
    """
    reach = SLACK * max(abs(low), abs(high))
    wide_low = max(low - reach, low / 2) if low >= 0 else low - reach
    wide_high = min(high + reach, high / 2) if high <= 0 else high + reach
    coarse = _power(max(abs(low), abs(high))) * 2.0**-20 if low or high else 1.0
    few_low, few_high = math.floor(wide_low / coarse) * coarse, math.ceil(wide_high / coarse) * coarse
    fits = (few_low > 0 or low <= 0) and (few_high < 0 or high >= 0)
    return (few_low, few_high) if fits else (-_rounded_up(-wide_low, dtype), _rounded_up(wide_high, dtype))


def _power(number: float) -> float:
    """The largest power of two that is not above a number."""
    return 2.0 ** (math.frexp(number)[1] - 1)


def _rounded_up(number: float, dtype: torch.dtype) -> float:
    kind = NUMPY[dtype]
    nearest = kind(number)
    return float(nearest if float(nearest) >= number else np.nextafter(nearest, kind(np.inf)))


def broken_line(name: str, function: Function, low: float, high: float, *, knots: int, dtype: torch.dtype) -> Numbers:
    """A line with bends at `knots` places from low to high, as far above the function as below it."""
    kind, tiny = NUMPY[dtype], torch.finfo(dtype).tiny
    places = _spread(function, low, high, knots)
    if high > low:
        coarse = _power(float(np.diff(places).min()) / COARSE)
        places[1:-1] = np.clip(np.round(places[1:-1] / coarse) * coarse, low, high)
    places = np.unique(places.astype(kind).astype(np.float64))
    places[np.abs(places) < tiny] = 0.0
    with np.errstate(all="ignore"):
        values = np.asarray(function(places), dtype=np.float64)
    require(bool(np.isfinite(values).all()), f"{name} is not finite on [{low:g}, {high:g}], so it cannot be fitted.")
    start = float(kind(values[0]))
    height, slope, bends = start, 0.0, []
    for here, there, aim in zip(places[:-1].tolist(), places[1:].tolist(), values[1:].tolist(), strict=True):
        with np.errstate(over="ignore"):
            bend = float(kind((aim - height) / (there - here) - slope))
        bends.append(bend if abs(bend) >= tiny else 0.0)
        slope += bends[-1]
        height += slope * (there - here)
    require(all(map(math.isfinite, bends)), f"{name} on [{low:g}, {high:g}] is too steep for {dtype}.")
    if not bends:  # a single number
        return Numbers(start, (low,), (0.0,))
    line = Numbers(start, tuple(places[:-1].tolist()), tuple(bends))
    deviations = _deviations(function, line, low, high)
    centre, spread = start - float(deviations.max() + deviations.min()) / 2, float(np.ptp(deviations))
    if spread > 0:
        coarse = _power(spread / COARSE)
        centre = round(centre / coarse) * coarse
    return line._replace(start=float(kind(centre)) if abs(centre) >= tiny else 0.0)


def _spread(function: Function, low: float, high: float, knots: int) -> Array:
    """Places from low to high, the ends among them, denser where the function bends more."""
    places = np.linspace(low, high, PROBES * (knots - 1) + 1)
    for _ in range(PASSES):
        with np.errstate(all="ignore"):
            values, gaps = np.asarray(function(places), dtype=np.float64), np.diff(places)
            bends = np.sqrt(np.abs(np.diff(np.diff(values) / gaps)) * (gaps[1:] + gaps[:-1]) / 2)  # √|f″|·gap
        if not (np.isfinite(bends).all() and bends.sum() > 0):
            break
        at_ends = np.pad(bends, 1, mode="edge")
        shares = (at_ends[1:] + at_ends[:-1]) / 2 + EVEN * bends.sum() * gaps / (high - low)
        before = np.concatenate([[0.0], np.cumsum(shares)])
        places = np.interp(np.linspace(0, before[-1], len(places)), before, places)
    places[0], places[-1] = low, high
    return places[::PROBES]


def measured_error(function: Function, numbers: Numbers, low: float, high: float) -> float:
    """The largest error at some points between the knots: for functions about which nothing is known."""
    return float(np.abs(_deviations(function, numbers, low, high)).max())


def _deviations(function: Function, numbers: Numbers, low: float, high: float) -> Array:
    """Line − function at some points from low to high."""
    ends = np.array([low, *(knot for knot in numbers.knots if low < knot < high), high])
    fine = np.concatenate([np.linspace(a, b, PROBES + 1) for a, b in pairwise(ends)])
    line = Line(word("z"), *numbers, error=0.0)
    return line.at(fine) - np.asarray(function(fine), dtype=np.float64)
