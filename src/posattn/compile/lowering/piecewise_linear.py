"""Functions from outside the language as ReLU units: broken lines through points of the function.

A function of one argument becomes the broken line through its values at equally spaced knots. A product of two becomes
((a + b)² − (a − b)²)/4, two fits of the square. The certificate states the largest error, measured on a fine grid
between the knots.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from posattn.compile.expressions import Array, Call, product
from posattn.compile.lowering.expression_bounds import Interval
from posattn.errors import PosattnError, require

#: The error is measured at this many points per gap between knots.
PROBES = 16


@dataclass(frozen=True)
class Fit:
    """offset + slope·z + Σ bend·relu(z − knot), z = Σ weight·argument, for z between `low` and `high`."""

    name: str
    weights: tuple[float, ...]
    offset: float
    slope: float
    bends: tuple[tuple[float, float], ...]  # (knot, change of slope)
    low: float
    high: float
    error: float


def fitted(expression: Call, arguments: Sequence[Interval], knots: int) -> list[Fit]:
    """Fits whose sum is the function on the arguments' intervals."""
    require(knots >= 2, f"fit={knots}: a broken line has at least two knots.")
    hulls = [(float(held.low.min()), float(held.high.max())) for held in arguments]
    if expression.function is product:
        (a, b), (c, d) = hulls
        return [
            _line("product", _quarter_square, 1.0, (1.0, 1.0), a + c, b + d, knots),
            _line("product", _quarter_square, -1.0, (1.0, -1.0), a - d, b - c, knots),
        ]
    if len(arguments) != 1:
        raise PosattnError(
            f"{expression}: a function of {len(arguments)} arguments cannot be fitted. Build it from products and "
            "functions of one argument."
        )
    return [_line(expression.name, expression.function, 1.0, (1.0,), *hulls[0], knots)]


def _quarter_square(z: Array) -> Array:
    return z * z / 4


def _line(name, function, sign: float, weights: tuple[float, ...], low: float, high: float, knots: int) -> Fit:
    if low == high:  # a constant
        return Fit(name, weights, sign * float(function(np.float64(low))), 0.0, (), low, high, 0.0)
    places = np.linspace(low, high, knots)
    values = sign * np.asarray(function(places), dtype=np.float64)
    require(bool(np.isfinite(values).all()), f"{name} is not finite on [{low:g}, {high:g}], so it cannot be fitted.")
    slopes = np.diff(values) / np.diff(places)
    bends = tuple(zip(places[1:-1].tolist(), np.diff(slopes).tolist(), strict=True))
    fine = np.linspace(low, high, PROBES * (knots - 1) + 1)
    error = float(np.abs(np.interp(fine, places, values) - sign * np.asarray(function(fine))).max())
    return Fit(name, weights, float(values[0] - slopes[0] * places[0]), float(slopes[0]), bends, low, high, error)
