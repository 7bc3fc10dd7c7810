"""What a study shows of its scores: the points of its tables, and the panels of its figure."""

import json
import math
import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from posattn.files import write_whole
from posattn.studies.core.case import Case
from posattn.studies.core.points import Curve, Finished, Level, Map, Picture, Point, Row, by_panel, over_places, scored
from posattn.studies.core.sentence import Versus, compared, ranked
from posattn.version import __version__

#: Of all steps, the shares that the table of a study through training shows.
MILESTONES = (0.0, 0.1, 0.3, 0.5, 1.0)
#: Losses from here on are no matter of how far a model is off.
DIVERGED = 1e20


@dataclass(frozen=True, kw_only=True)
class View(ABC):
    """A way to show a study. `axis` is what x is, `measure` what its scores are called.

    `versus` names the two arms that the study's answer compares, and `at` says where: {x} is the place on the axis,
    {times} the same in words, as “ten times ”, {s} an s unless it is 1, {test_set} the test set.
    """

    axis: str
    measure: str = "loss"
    at: str = "At {axis} {x}"
    versus: Versus | None = None
    published: str = ""  # the model that published figures are of, where it is none of the arms
    column: ClassVar[str] = "test set"  # of tables: what names a point
    across: ClassVar[str] = "x"  # of compact tables: what has a column each, x or test set
    axis_column: ClassVar[bool] = True  # of tables: whether x has a column of its own
    most: ClassVar[float] = DIVERGED  # a model whose score is not below it has diverged
    weight_maps: ClassVar[bool] = False  # whether the report shows weights before and after training

    @abstractmethod
    def points(self, study: str, preset: str, finished: Iterable[Finished]) -> list[Point]:
        """All points, case by case."""

    def tabled(self, preset: str, points: Sequence[Point]) -> list[Point]:
        """Those that the table shows."""
        return list(points)

    def summarised(self, points: Sequence[Point]) -> list[Point]:
        """Those that the compact table shows."""
        return list(points)

    def decisive(self, points: Sequence[Point]) -> list[Point]:
        """Those that the answer is drawn from."""
        return [point for point in points if point.drawn]

    def sentence(self, points: Sequence[Point]) -> str:
        """The answer to the study's question, from its points."""
        at, deciding = self.at.replace("{axis}", self.axis), self.decisive(points) or list(points)
        said = None if self.versus is None else compared(deciding, self.versus, at=at, measure=self.measure)
        return said or ranked(deciding, at=at, measure=self.measure)

    @abstractmethod
    def pictures(self, preset: str, points: Sequence[Point]) -> list[Picture]:
        """The panels of the figure."""

    def maps(self, preset: str, points: Sequence[Point]) -> list[Map]:
        """Figures of their own, where points have two axes."""
        return []


@dataclass(frozen=True, kw_only=True)
class Curves(View):
    """Scores at the end of training over an axis that runs through the test sets: a curve per arm.

    `score` is its name in the store. Losses have a logarithmic axis, `share`s of 1 a
    linear one. `levels` are published ones, by panel; points in `squares` are marked by squares where each test set has
    a curve of its own.
    """

    score: str = "loss"
    share: bool = False
    decided_on: str | None = None  # the test set that the answer is about; None is the last one
    levels: Mapping[str, Level] = field(default_factory=dict)
    squares: tuple[str, ...] = ("validation",)
    axis_column: ClassVar[bool] = False  # names of test sets say where they stand
    across: ClassVar[str] = "test set"
    by_test_set: ClassVar[bool] = False

    def points(self, study: str, preset: str, finished: Iterable[Finished]) -> list[Point]:
        return [
            Point(
                place.panel or one.case.task,
                one.case.arm,
                place.group,
                0.0 if place.x is None else place.x,
                tuple(
                    statistics.fmean(scored(row[self.score]) for row in rows if row["set"] in test_sets)
                    for rows in one.last
                ),
                tuple(one.case.published.get(place.group, ())),
                one.seeds,
                drawn=place.x is not None,
                share=self.share,
            )
            for one in finished
            for place, test_sets in one.case.placed().items()
        ]

    def decisive(self, points: Sequence[Point]) -> list[Point]:
        return [p for p in super().decisive(points) if self.decided_on is None or p.test_set == self.decided_on]

    def pictures(self, preset: str, points: Sequence[Point]) -> list[Picture]:
        return [
            over_places(
                panel,
                shown,
                axis=self.axis,
                measure=self.measure,
                by_test_set=self.by_test_set,
                squares=self.squares,
                log=not self.share,
                level=self.levels.get(panel),
                published=self.published,
            )
            for panel, shown in by_panel(points).items()
        ]


@dataclass(frozen=True, kw_only=True)
class CurvesOverCases(Curves):
    """Scores at the end of training over an axis that runs through the cases: a curve per arm and test set."""

    axis_column: ClassVar[bool] = True
    across: ClassVar[str] = "x"
    by_test_set: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class Derived(View):
    """Figures that are derived from a trial's last scores and its weights, over an axis that runs through the cases.

    `derive` gives all `figures` by name, of which the picture shows those that are `drawn` (none named: all).
    """

    figures: tuple[str, ...]
    derive: Callable[[Case, list[Row], Path], Mapping[str, float]]
    drawn: tuple[str, ...] = ()
    most: ClassVar[float] = math.inf  # bounds may be as large as they like

    def points(self, study: str, preset: str, finished: Iterable[Finished]) -> list[Point]:
        found = []
        for one in finished:
            derived = [
                self._kept(study, one.case, rows, folder) for rows, folder in zip(one.last, one.folders, strict=True)
            ]
            for name in self.figures:
                ours = tuple(float(figures[name]) for figures in derived)
                drawn = name in (self.drawn or self.figures)
                assert one.case.x is not None
                found.append(Point(one.case.task, one.case.arm, name, one.case.x, ours, (), one.seeds, drawn=drawn))
        return found

    def _kept(self, study: str, case: Case, rows: list[Row], folder: Path) -> Mapping[str, float]:
        """A trial's figures: those that this version has stored beside its scores, or derived now, and stored."""
        path = folder / f"figures-{study}.json"
        with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):  # missing or damaged: derived again
            held = json.loads(path.read_bytes())
            if held["version"] == __version__ and set(held["figures"]) == set(self.figures):
                return held["figures"]
        found = dict(self.derive(case, rows, folder / "weights.safetensors"))
        write_whole(path, json.dumps({"version": __version__, "figures": found}).encode())
        return found

    def pictures(self, preset: str, points: Sequence[Point]) -> list[Picture]:
        return [
            over_places(
                panel, shown, axis=self.axis, measure=self.measure, by_test_set=True, squares=self.drawn[1:], log=True
            )
            for panel, shown in by_panel(points).items()
        ]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One picture of a study through training: a score over the steps."""

    title: str
    score: str  # the name of its test set in the store
    inverse: bool = False  # 1/score
    share: bool = False  # a share of 1, on a linear axis
    log: bool = True
    log_steps: bool = False
    level: Level | None = None

    def shows(self, point: Point) -> bool:
        """Whether the point has a place on both axes; what diverged is in the table."""
        on_x = point.x > 0 or not (self.inverse or self.log_steps)
        on_y = min(point.ours) > 0 or not (self.log or self.inverse)
        return point.test_set == self.score and on_x and on_y and all(map(math.isfinite, point.ours))

    def picture(self, points: Sequence[Point]) -> Picture:
        lines: dict[str, list[Point]] = {}
        for point in filter(self.shows, points):
            ours = tuple(1 / value for value in point.ours) if self.inverse else point.ours
            lines.setdefault(point.arm, []).append(replace(point, ours=ours))
        return Picture(
            title=self.title,
            curves=tuple(Curve(arm=arm, label=arm, points=tuple(line)) for arm, line in lines.items()),
            x_label="steps",
            log=self.log,
            log_x=self.log_steps,
            level=self.level,
        )


@dataclass(frozen=True, kw_only=True)
class ThroughTraining(View):
    """Scores at every step that has them; `panels` gives the pictures of a preset."""

    panels: Callable[[str], tuple[Panel, ...]]
    axis: str = "steps"
    at: str = "After {x} step{s}"
    column: ClassVar[str] = "score"
    across: ClassVar[str] = "test set"
    weight_maps: ClassVar[bool] = True

    def points(self, study: str, preset: str, finished: Iterable[Finished]) -> list[Point]:
        shares = {panel.score: panel.share for panel in self.panels(preset)}
        found = []
        for one in finished:
            values: dict[tuple[str, int], list[float]] = {}
            for row in (row for rows in one.rows for row in rows):
                if row["set"] in shares:
                    values.setdefault((row["set"], row["step"]), []).append(scored(row["loss"]))
            found += [
                Point(one.case.task, one.case.arm, name, step, tuple(ours), (), one.seeds, share=shares[name])
                for (name, step), ours in values.items()
            ]
        return found

    def tabled(self, preset: str, points: Sequence[Point]) -> list[Point]:
        """The points at some shares of all steps, score by score."""
        last: dict[str, float] = {}
        for point in points:
            last[point.arm] = max(point.x, last.get(point.arm, 0))
        steps = {arm: {round(share * end) for share in MILESTONES} for arm, end in last.items()}
        shown = [point for point in points if point.x in steps[point.arm]]
        scores = dict.fromkeys(panel.score for panel in self.panels(preset))
        return [point for score in scores for point in shown if point.test_set == score]

    def summarised(self, points: Sequence[Point]) -> list[Point]:
        """The scores at the end of training, losses first."""
        last = {(point.task, point.arm, point.test_set): point for point in sorted(points, key=lambda point: point.x)}
        ends = [point for point in points if last[point.task, point.arm, point.test_set] == point]
        return sorted(ends, key=lambda point: (point.share, point.test_set != "validation"))

    def decisive(self, points: Sequence[Point]) -> list[Point]:
        """The last loss, at the end of training; where no two arms are named, the first one."""
        ends = self.summarised(points)
        scores = list(dict.fromkeys(point.test_set for point in ends if not point.share or ends[0].share))
        return [point for point in ends if point.test_set == scores[0 if self.versus is None else -1]]

    def pictures(self, preset: str, points: Sequence[Point]) -> list[Picture]:
        return [panel.picture(points) for panel in self.panels(preset)]
