"""What a figure shows, before anything is drawn: panels, with their curves and axes."""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from posattn.studies.core.points import Point


@dataclass(frozen=True)
class Level:
    """A published level, drawn as a line, and what it is."""

    value: float
    label: str


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One line: the medians of its points, with a band from the lowest to the highest seed."""

    arm: str
    label: str
    points: tuple[Point, ...]
    marker: str | None = None


@dataclass(frozen=True, kw_only=True)
class Picture:
    """One panel. `ticks` are the places on its axis; where there are none, the axis counts steps."""

    title: str
    curves: tuple[Curve, ...]
    x_label: str
    y_label: str = ""
    log: bool
    log_x: bool
    ticks: tuple[float, ...] = ()
    level: Level | None = None


def placed(
    title: str,
    points: Iterable[Point],
    *,
    axis: str,
    measure: str,
    by_test_set: bool,
    squares: Collection[str] = (),
    log: bool,
    level: Level | None = None,
) -> Picture:
    """Points over their places: a curve per arm, or, `by_test_set`, one per arm and test set.

    Test sets in `squares` have another marker than the others. On a logarithmic axis only what is above 0 has a place.
    """
    points = list(points)
    lines: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        lines.setdefault((point.arm, point.test_set if by_test_set else ""), []).append(point)
    several = len({test_set for _, test_set in lines}) > 1
    curves = tuple(
        Curve(
            arm=arm,
            label=f"{arm}, {test_set}" if several else arm,
            points=tuple(sorted((point for point in line if point.median > 0 or not log), key=lambda point: point.x)),
            marker="s" if test_set in squares else "o",
        )
        for (arm, test_set), line in lines.items()
    )
    ticks = tuple(sorted({point.x for point in points}))
    return Picture(
        title=title,
        curves=curves,
        x_label=axis,
        y_label=measure,
        log=log and any(math.isfinite(point.median) or point.published for point in points),
        log_x=ticks[-1] > max(50, 4 * ticks[0]),
        ticks=ticks,
        level=level,
    )
