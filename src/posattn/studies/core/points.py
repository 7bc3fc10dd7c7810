"""What a study shows, as data: the points of its tables, made of the store's scores, and the panels of its figure."""

import math
import statistics
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posattn.studies.core.case import Case

#: A score as the store gives it: its trial, test set, step, loss and metric, with all options of the trial.
Row = dict[str, Any]


@dataclass(frozen=True)
class Point:
    """One figure of a study for every finished seed, and the published ones."""

    task: str
    arm: str
    test_set: str
    x: float
    ours: tuple[float, ...]
    published: tuple[float, ...]
    seeds: tuple[int, ...]
    drawn: bool = True  # in the figure; all points are in the CSV file
    share: bool = False  # a share of 1, which is written without a power of ten
    y: float | None = None  # its place on the other axis of a map

    @property
    def median(self) -> float:
        return statistics.median(self.ours)

    @property
    def published_median(self) -> float | None:
        return statistics.median(self.published) if self.published else None

    @property
    def ratio(self) -> float | None:
        """Ours over the published one."""
        reference = self.published_median
        return self.median / reference if reference else None


@dataclass(frozen=True)
class Finished:
    """A case with its finished seeds; for each of them all scores, those of the last step, and the trial's folder."""

    case: Case
    seeds: tuple[int, ...]
    rows: tuple[list[Row], ...]
    last: tuple[list[Row], ...]
    folders: tuple[Path, ...]


def scored(value: float | None) -> float:
    """A score as a number: one that is not finite was stored as none, and counts as infinite."""
    return math.inf if value is None else value


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
    tick_labels: tuple[str, ...] = ()  # where the places on the axis are no numbers
    level: Level | None = None
    published: str = ""  # whose published figures stand beside all curves; "": each has its own


@dataclass(frozen=True, kw_only=True)
class Map:
    """One figure with a panel per arm: the medians of its points as colours, over x and y."""

    title: str
    points: tuple[Point, ...]
    x_label: str
    y_label: str
    measure: str


def by_panel(points: Iterable[Point]) -> dict[str, list[Point]]:
    """The points that are drawn."""
    found: dict[str, list[Point]] = {}
    for point in points:
        if point.drawn:
            found.setdefault(point.task, []).append(point)
    return found


def over_places(
    title: str,
    points: list[Point],
    *,
    axis: str,
    measure: str,
    by_test_set: bool,
    squares: Collection[str] = (),
    log: bool,
    level: Level | None = None,
    published: str = "",
) -> Picture:
    """Points over their places: a curve per arm, or, `by_test_set`, one per arm and test set.

    Test sets in `squares` have another marker than the others. On a logarithmic axis only what is above 0 has a place.
    """
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
        published=published,
    )
