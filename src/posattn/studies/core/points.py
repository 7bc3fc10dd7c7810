"""The figures of a study, one point for each place in its tables, and the scores that they are made of."""

import math
import statistics
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
