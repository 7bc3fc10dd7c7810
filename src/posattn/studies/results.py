"""What came out of a study: every seed's figure at every point, beside the published ones, read from the store."""

import json
import math
import os
import statistics
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from posattn import engine
from posattn.engine import Reporter, Store
from posattn.errors import PosattnError, require
from posattn.files import make_folder, write_whole
from posattn.studies.base import Case, Study, get

#: Raised when older versions can no longer read what a study wrote down about its run.
FORMAT = 1


@dataclass(frozen=True)
class Point:
    """One cell of a study: our figure for every seed, and the published ones."""

    task: str
    arm: str
    test_set: str
    x: float
    ours: tuple[float, ...]
    published: tuple[float, ...]

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
class Results:
    """A study as it was run: which preset, which tasks, how many seeds, and every point."""

    study: Study
    preset: str
    tasks: tuple[str, ...]
    seeds: int
    points: tuple[Point, ...]
    cases: tuple[Case, ...]
    devices: tuple[str, ...]
    versions: tuple[str, ...]
    diverged: int

    @property
    def command(self) -> str:
        """The command that gives these results."""
        named = "".join(f" --task {task}" for task in self.tasks)
        return f"posattn run {self.study.name}{named} --preset {self.preset} --seeds {self.seeds}"


def run(
    study: Study,
    *,
    preset: str = "quick",
    tasks: tuple[str, ...] = (),
    seeds: int | None = None,
    device: str | torch.device = "auto",
    out: str | os.PathLike[str] = "runs",
    reporter: Reporter | None = None,
) -> Results:
    """Train what is missing, write down what was asked for, and read the results back from the store."""
    cases, count = study.chosen(tasks, preset), study.seed_count(preset, seeds)
    trials = [case.seeded(seed) for case in cases for seed in range(count)]
    store = engine.run(trials, out=out, device=device, reporter=reporter)
    made = {"format": FORMAT, "study": study.name, "preset": preset, "tasks": list(tasks), "seeds": count}
    make_folder(store.folder / "studies")
    write_whole(_record(store, study), json.dumps(made).encode())
    return results(study.name, out)


def results(name: str, out: str | os.PathLike[str] = "runs") -> Results:
    """The results of the last run of a study below a folder."""
    study, store = get(name), Store(out)
    path = _record(store, study)
    require(path.is_file(), f"study '{name}' has no finished run below '{store.folder}': start it, posattn run {name}.")
    try:
        made = json.loads(path.read_bytes())
        written, preset, tasks, seeds = made["format"], made["preset"], tuple(made["tasks"]), made["seeds"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PosattnError(f"'{path}' cannot be read ({error}): run the study again, posattn run {name}.") from None
    require(written <= FORMAT, f"'{path}' was written by a newer version of posattn: install that version.")
    cases = study.chosen(tasks, preset)
    rows = _rows(store, {case.seeded(seed).id for case in cases for seed in range(seeds)})
    missing = [case for case in cases for seed in range(seeds) if case.seeded(seed).id not in rows]
    require(
        not missing,
        f"{len(missing)} trials of study '{name}' are not finished (the first: {missing[0].arm} on {missing[0].task}): "
        f"run it again, posattn run {name} --preset {preset}."
        if missing
        else "",
    )
    everything = [row for found in rows.values() for row in found]
    return Results(
        study=study,
        preset=preset,
        tasks=tasks,
        seeds=seeds,
        points=tuple(_points(study, cases, seeds, rows)),
        cases=tuple(cases),
        devices=tuple(sorted({row["device"] for row in everything})),
        versions=tuple(sorted({row["version"] for row in everything})),
        diverged=len({row["trial"] for row in everything if row["diverged_at"] is not None}),
    )


def _record(store: Store, study: Study) -> Path:
    return store.folder / "studies" / f"{study.name}.json"


def _rows(store: Store, ids: set[str]) -> dict[str, list[dict[str, Any]]]:
    """The scores of the last step, by trial id."""
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in store.rows():
        if row["trial"] in ids and row["step"] == row["optimiser.steps"]:
            rows[row["trial"]].append(row)
    return rows


def _points(study: Study, cases: list[Case], seeds: int, rows: dict[str, list[dict[str, Any]]]) -> list[Point]:
    points = []
    for case in cases:
        for name, members in _groups(case).items():
            ours = [_score(study, rows[case.seeded(seed).id], members) for seed in range(seeds)]
            place = case.x if case.x is not None else _scale(name)
            points.append(Point(case.task, case.arm, name, place, tuple(ours), tuple(case.published(name))))
    return points


def _groups(case: Case) -> dict[str, list[str]]:
    """Test sets that make one point: "c=3, length 1" … "c=3, length 8" are the members of "c=3"."""
    groups: dict[str, list[str]] = defaultdict(list)
    for test_set in case.trial.evaluation.sets:
        groups[test_set.split(",")[0]].append(test_set)
    return groups


def _score(study: Study, rows: list[dict[str, Any]], members: list[str]) -> float:
    """The mean over a point's test sets; a score that is not finite was kept as none, and counts as infinite."""
    values = [row[study.metric] for row in rows if row["set"] in members]
    return statistics.fmean(math.inf if value is None else value for value in values)


def _scale(test_set: str) -> float:
    """The c of a test set; a validation set lies beside c = 1 and is drawn at 0."""
    return float(test_set.removeprefix("c=")) if test_set.startswith("c=") else 0.0
