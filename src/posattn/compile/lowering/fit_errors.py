"""How far a broken line can be from the function that it stands for, proved for every number of an interval.

Between two knots let g = function − line. Where g is convex, it is at most the larger of its ends, and nowhere below
its tangent at any place; at the place where g′ is about 0 that is about its minimum. Where g is concave, the same holds
upside down. Where the function may change its bend, halves are bounded instead, and in the end
|g| ≤ max(|g(p)|, |g(q)|) + (q − p)²/8·max|g″| for a piece from p to q.

Everything is evaluated with outward rounding (python-flint's `arb`). z²/4, of which products are made, is a matter of
exact fractions alone.
"""

import importlib.util
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from posattn.compile.expressions.known_functions import defined
from posattn.errors import missing_extra, require

#: Bits of the intervals' midpoints.
PRECISION = 128
#: How often m is moved towards g′(m) = 0, and how often a piece is halved.
STEPS, HALVINGS = 20, 8
#: Functions that bend to one side where they are defined, apart from 0; to different sides of 0; elsewhere, too.
ONE_WAY, BY_SIGN, WAVES = ("exp", "reciprocal", "sqrt", "log"), ("tanh", "sigmoid"), ("sin", "cos")


class Piece(NamedTuple):
    """A line from `left` to `right`: height + slope·(z − left)."""

    left: Fraction
    right: Fraction
    height: Fraction
    slope: Fraction


class Smooth(NamedTuple):
    """A function with its first two derivatives, of intervals."""

    value: Callable[[Any], Any]
    first: Callable[[Any], Any]
    second: Callable[[Any], Any]


def can_prove(function: str) -> bool:
    """Whether a fit's error can be proved here: for known functions, most of which need python-flint."""
    known = function in (*ONE_WAY, *BY_SIGN, *WAVES) and importlib.util.find_spec("flint") is not None
    return known or function == "product"


@lru_cache(maxsize=1024)
def largest_error(
    function: str, start: float, knots: tuple[float, ...], bends: tuple[float, ...], low: float, high: float
) -> float:
    """At least |function(z) − start − Σ bend·relu(z − knot)| for every z from low to high; "product" is z²/4.

    >>> largest_error("product", 0.0, (0.0, 1.0), (0.25, 0.5), 0.0, 2.0)  # (1/2)²/4, between two knots
    0.0625
    """
    require(low <= high, f"low={low}, high={high}: an interval goes up.")
    require(defined(function, low, high), f"{function} is not defined on all of [{low:g}, {high:g}].")
    pieces = _pieces(start, knots, bends, Fraction(low), Fraction(high))
    if function == "product":
        return _rounded_up(max(map(_square_error, pieces)))
    smooth = _smooth(function)
    from flint import ctx

    with ctx.workprec(PRECISION):
        return max(_error(function, smooth, piece, HALVINGS) for piece in pieces)


def _pieces(
    start: float, knots: Sequence[float], bends: Sequence[float], low: Fraction, high: Fraction
) -> Iterator[Piece]:
    """The line's straight pieces between low and high."""
    left, height, slope = min(low, Fraction(knots[0])), Fraction(start), Fraction(0)
    for knot, bend in [*zip(map(Fraction, knots), map(Fraction, bends), strict=True), (high, Fraction(0))]:
        right = min(knot, high)
        if right > max(left, low) or low == high == right:
            begin = max(left, low)
            yield Piece(begin, right, height + slope * (begin - left), slope)
        height, left, slope = height + slope * (knot - left), knot, slope + bend


def _square_error(piece: Piece) -> Fraction:
    """z²/4 − line is convex: largest at an end, least at z = 2·slope."""
    lowest = min(max(2 * piece.slope, piece.left), piece.right)
    return max(
        abs(z * z / 4 - piece.height - piece.slope * (z - piece.left)) for z in (piece.left, lowest, piece.right)
    )


def _error(function: str, smooth: Smooth, piece: Piece, halvings: int) -> float:
    if piece.left == piece.right:
        return _size(_gap(smooth, piece, piece.left))
    if _bends_one_way(function, smooth, piece):
        return _one_way_error(smooth, piece)
    middle = (piece.left + piece.right) / 2
    if function in BY_SIGN:
        middle = Fraction(0)
    elif halvings == 0:
        return _any_way_error(smooth, piece)
    halves = (
        Piece(piece.left, middle, piece.height, piece.slope),
        Piece(middle, piece.right, piece.height + piece.slope * (middle - piece.left), piece.slope),
    )
    return max(_error(function, smooth, half, halvings - 1) for half in halves)


def _bends_one_way(function: str, smooth: Smooth, piece: Piece) -> bool:
    if function in BY_SIGN:
        return piece.left >= 0 or piece.right <= 0
    return function in ONE_WAY or not smooth.second(_ball(piece.left, piece.right)).contains(0)


def _one_way_error(smooth: Smooth, piece: Piece) -> float:
    """With the sign that makes g convex: g is at most its larger end, and nowhere below a tangent."""
    middle = _near_the_extremum(smooth, piece)
    curve = smooth.second(_exactly(middle))
    if not (curve > 0 or curve < 0):
        return _any_way_error(smooth, piece)
    tilt = smooth.first(_exactly(middle)) - _exactly(piece.slope)
    tangent = [_gap(smooth, piece, middle) + tilt * _exactly(end - middle) for end in (piece.left, piece.right)]
    ends = [_gap(smooth, piece, end) for end in (piece.left, piece.right)]
    above, below = (ends, tangent) if curve > 0 else (tangent, ends)
    return max(0.0, *(_top(held) for held in above), *(_top(-held) for held in below))


def _near_the_extremum(smooth: Smooth, piece: Piece) -> Fraction:
    """Where g′ is about 0, or an end. Any place gives a bound; this one a good one."""
    start, stop = float(piece.left), float(piece.right)
    middle = (start + stop) / 2
    convex = smooth.second(_exactly(Fraction(middle))).mid() >= 0
    for _ in range(STEPS):
        above = (smooth.first(_exactly(Fraction(middle))) - _exactly(piece.slope)).mid() >= 0
        start, stop = (start, middle) if above == convex else (middle, stop)
        middle = (start + stop) / 2
    return min(max(Fraction(middle), piece.left), piece.right)


def _any_way_error(smooth: Smooth, piece: Piece) -> float:
    ends = max(_size(_gap(smooth, piece, piece.left)), _size(_gap(smooth, piece, piece.right)))
    curve = abs(smooth.second(_ball(piece.left, piece.right))) * _exactly((piece.right - piece.left) ** 2 / 8)
    return _size(_exactly(Fraction(ends)) + curve)


def _gap(smooth: Smooth, piece: Piece, place: Fraction) -> Any:
    """g, as an interval."""
    return smooth.value(_exactly(place)) - _exactly(piece.height + piece.slope * (place - piece.left))


def _exactly(number: Fraction) -> Any:
    from flint import arb, fmpq

    return arb(fmpq(number.numerator, number.denominator))


def _ball(left: Fraction, right: Fraction) -> Any:
    return _exactly(left).union(_exactly(right))


def _size(interval: Any) -> float:
    """The largest magnitude in an interval."""
    return max(_top(interval), _top(-interval))


def _top(interval: Any) -> float:
    """An interval's upper end, rounded up; infinite where it is not known."""
    most = float(interval.upper())
    return math.nextafter(most, math.inf) if math.isfinite(most) else math.inf


def _rounded_up(number: Fraction) -> float:
    nearest = float(number)
    return nearest if nearest >= number else math.nextafter(nearest, math.inf)


def _smooth(function: str) -> Smooth:
    require(
        function in (*ONE_WAY, *BY_SIGN, *WAVES),
        f"'{function}' is a fitted function without bounds: its error can be measured, not proved. "
        f"Provable: product, {', '.join((*ONE_WAY, *BY_SIGN, *WAVES))}.",
    )
    if importlib.util.find_spec("flint") is None:
        raise missing_extra("proving the error of a fit", "proof")
    return {
        "exp": Smooth(lambda z: z.exp(), lambda z: z.exp(), lambda z: z.exp()),
        "reciprocal": Smooth(lambda z: 1 / z, lambda z: -1 / z**2, lambda z: 2 / z**3),
        "sqrt": Smooth(lambda z: z.sqrt(), lambda z: 1 / (2 * z.sqrt()), lambda z: -1 / (4 * z * z.sqrt())),
        "log": Smooth(lambda z: z.log(), lambda z: 1 / z, lambda z: -1 / z**2),
        "tanh": Smooth(lambda z: z.tanh(), lambda z: 1 - z.tanh() ** 2, lambda z: -2 * z.tanh() * (1 - z.tanh() ** 2)),
        "sigmoid": Smooth(
            lambda z: 1 / (1 + (-z).exp()),
            lambda z: (1 - (z / 2).tanh() ** 2) / 4,
            lambda z: -(z / 2).tanh() * (1 - (z / 2).tanh() ** 2) / 4,
        ),
        "sin": Smooth(lambda z: z.sin(), lambda z: z.cos(), lambda z: -z.sin()),
        "cos": Smooth(lambda z: z.cos(), lambda z: -z.sin(), lambda z: -z.cos()),
    }[function]
