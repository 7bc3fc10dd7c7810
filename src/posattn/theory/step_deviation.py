"""How far the step of a looped model is from min, max or sum, over all numbers that it could read, in exact fractions.

With scale alone a step f sees the node's own number s and its partner's o, without biases. So f(c·s, c·o) = c·f(s, o)
for c > 0, and f is linear on cones of the plane. Cut the plane along the axes and the diagonals and then, layer by
layer, along the rays where some hidden number changes its sign. On each cone that is left the target, both norms and f
are linear, and a quotient of linear functions is monotone between two rays: the largest deviation from the target,
relative to max(|s|, |o|) or to |s| + |o|, is attained on one of finitely many rays. All of them have integer
coordinates.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from posattn.checks import choice, switch, whole
from posattn.errors import require
from posattn.nn import LoopedPositionalTransformer
from posattn.nn.law import ExactStep, check_looped

Ray = tuple[int, int]
TARGETS: dict[str, Callable[[int, int], int]] = {"min": min, "max": max, "sum": lambda s, o: s + o}
#: The axes and the diagonals, counterclockwise.
FIRST: tuple[Ray, ...] = ((1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1))


@dataclass(frozen=True)
class Deviation:
    """The largest deviation of a step from its target, in two measures, and how many rays had to be looked at."""

    target: str
    per_largest: Fraction  # relative to max(|s|, |o|)
    per_sum: Fraction  # relative to |s| + |o|
    rays: int


def largest_deviation(
    model: LoopedPositionalTransformer, target: str, *, role: int = 0, evaluated: bool = False
) -> Deviation:
    """The largest |f(s, o) − target(s, o)|. `evaluated`: with shares of attention as the model's own dtype has them."""
    check_two_numbers(model)
    wanted = TARGETS[choice("target", target, TARGETS)]
    exact = ExactStep(model, evaluated=switch("evaluated", evaluated))
    role = whole("role", role, least=0)
    require(role < len(exact.shares), f"role={role}: the model has {len(exact.shares)}, counted from 0.")
    maps = exact.maps(role)
    rays = list(FIRST)
    for depth in range(1, len(maps)):
        if not exact.linear:
            rays = _cut(rays, lambda ray, depth=depth: _hidden(maps[:depth], ray))
    largest = added = Fraction(0)
    for s, o in rays:
        off = abs(exact.answer((s, o), role) - wanted(s, o))
        largest, added = max(largest, off / max(abs(s), abs(o))), max(added, off / (abs(s) + abs(o)))
    return Deviation(target, largest, added, len(rays))


def check_two_numbers(model: LoopedPositionalTransformer) -> None:
    """Refuse steps that see anything but two numbers."""
    check_looped(model)
    sizes = model.architecture
    require(
        sizes.schedule in ("scan", "bitonic") and sizes.translation is None,
        f"schedule='{sizes.schedule}', symmetry={sizes.symmetry!r}: deviations are computed for steps that see two "
        "numbers: scan or bitonic, with 'scale' alone or with 'linear'. For others, posattn.nn.law says all.",
    )


def _cut(rays: list[Ray], hidden: Callable[[Ray], list[int]]) -> list[Ray]:
    """The rays, and between each two of them those on which a hidden number, linear in between, is 0.

    Where it is u > 0 on the ray p and −v < 0 on the next ray q, it is 0 on v·p + u·q; the larger u/v, the nearer to q.
    """
    values = [hidden(ray) for ray in rays]
    found = []
    for place, p in enumerate(rays):
        after = (place + 1) % len(rays)
        q = rays[after]
        pairs = zip(values[place], values[after], strict=True)
        signs = {Fraction(abs(u), abs(v)) for u, v in pairs if u * v < 0}
        found.append(p)
        for ratio in sorted(signs):
            u, v = ratio.numerator, ratio.denominator
            s, o = v * p[0] + u * q[0], v * p[1] + u * q[1]
            common = math.gcd(s, o)
            found.append((s // common, o // common))
    return found


def _hidden(maps: list[tuple[list[list[int]], int]], ray: Ray) -> list[int]:
    """What the last of these maps gives, up to a positive factor, with a ReLU between each two."""
    values = list(ray)
    for place, (rows, _) in enumerate(maps):
        if place:
            values = [max(value, 0) for value in values]
        values = [sum(a * b for a, b in zip(row, values, strict=True)) for row in rows]
    return values
