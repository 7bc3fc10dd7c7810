"""What came out of a study: every seed's figure at every point, beside the published ones, read from the store."""

import itertools
import json
import math
import os
import statistics
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from posattn import checks
from posattn.engine import Engine, Reporter, Store, attempt
from posattn.errors import PosattnError, require
from posattn.files import write_whole
from posattn.studies.core import record
from posattn.studies.core.record import Record
from posattn.studies.core.study import Case, Study, get
from posattn.version import __version__


@dataclass(frozen=True)
class Point:
    """One cell of a study: our figure for every finished seed, and the published ones."""

    task: str
    arm: str
    test_set: str
    x: float
    ours: tuple[float, ...]
    published: tuple[float, ...]
    seeds: tuple[int, ...]

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
    """A study as it was run, and every point of it."""

    study: Study
    record: Record
    points: tuple[Point, ...]
    finished: tuple[tuple[Case, tuple[int, ...]], ...]  # every case with its finished seeds
    devices: tuple[str, ...]
    versions: tuple[str, ...]
    diverged: int
    counts: Mapping[str, Mapping[str, int]]  # by task and arm, how many seeds are finished
    unparseable: dict[str, tuple[int, int]]  # by arm: answers in words that hold no number, of how many

    @property
    def preset(self) -> str:
        return self.record.preset

    @property
    def cases(self) -> list[Case]:
        return [case for case, _ in self.finished]

    @property
    def commands(self) -> list[str]:
        """The commands that give these results."""
        return self.record.commands(self.study, self.counts)


def run(
    study: Study,
    *,
    preset: str = "quick",
    tasks: tuple[str, ...] = (),
    arms: tuple[str, ...] = (),
    seeds: int | None = None,
    device: str | torch.device = "auto",
    out: str | os.PathLike[str] = "runs",
    reporter: Reporter | None = None,
    keep: bool = False,
    engine: Engine | None = None,
) -> Results:
    """Train what is missing, write down what was asked for, and read the results back from the store.

    They are all that the store has of the study at this preset and with these options, from earlier runs too. Where
    `arms` names a language model and none is given, it is that of the earlier run. `engine` runs the trials, where
    that is not this process.
    """
    checks.instance("study", study, Study, fix="pass a study, as posattn.studies.get('ood-scale')")
    tasks = tuple(dict.fromkeys(checks.several("tasks", tasks, str, fix="give a tuple of task names")))
    arms = checks.several("arms", arms, str, fix="give a tuple of the study's models, as its table names them")
    older = record.read(Store(out), study.name) if arms else None
    if older is not None and older.preset == preset and study.language_model is None:
        study = study if older.language_model is None else study.using(older.language_model)
    cases, count = study.chosen(tasks, preset, arms), study.seed_count(preset, seeds)
    trials = [(case, case.seeded(seed)) for case in cases for seed in range(count)]
    every = [trial for _, trial in trials]
    store, missing = attempt(every, out=out, device=device, reporter=reporter, keep=keep, engine=engine)
    left_out = {case.arm: missing[trial.id] for case, trial in trials if trial.id in missing}
    asked = Record(
        study=study.name,
        preset=preset,
        tasks=tasks,
        language_model=study.language_model,
        choices=dict(study.chosen_values),
        seeds={case.arm: count for case in cases if case.arm not in left_out},
        left_out=left_out,
    )
    readers = {case.arm for case in study.chosen(tasks, preset) if case.trial.needs is not None}
    # Read again: another model may have been added while this one was trained.
    asked = asked.joined(_older(store, study.name, strict=bool(arms)), readers=readers)
    require(
        bool(asked.seeds),
        f"nothing of study '{study.name}' could be run, {', '.join(left_out)} was all that was asked for: name other "
        "models, too, or no --model.",
    )
    record.write(store, asked)
    return results(study.name, out)


def _older(store: Store, name: str, *, strict: bool) -> Record | None:
    """The record of the last run; one that cannot be read is an error, or makes way for the new one."""
    try:
        return record.read(store, name)
    except PosattnError:
        if strict:
            raise
        return None


def results(name: str, out: str | os.PathLike[str] = "runs") -> Results:
    """All that is finished of a study below a folder, at the preset and with the options of its last run."""
    study, store = get(name), Store(out)
    made = record.read(store, name)
    nothing = f"study '{name}' has no finished run below '{store.folder}': start it, posattn run {name}."
    if made is None:
        raise PosattnError(nothing)
    if made.language_model is not None:
        study = study.using(made.language_model)
    if made.choices:
        study = study.choosing(made.choices)
    counts: dict[str, dict[str, int]] = {}
    finished: list[tuple[Case, tuple[int, ...]]] = []
    for task in study.tasks:
        for case in study.cases_of(task, made.preset):
            seeds = _seeds(case, store, made)
            if seeds:
                finished.append((case, seeds))
                arms = counts.setdefault(task, {})
                arms[case.arm] = max(len(seeds), arms.get(case.arm, 0))
    require(bool(finished), nothing)
    ids = {case.seeded(seed).id: case for case, seeds in finished for seed in seeds}
    rows = _rows(store, set(ids))
    everything = [row for found in rows.values() for row in found]
    return Results(
        study=study,
        record=made,
        points=tuple(_points(study, made.preset, finished, rows, store)),
        finished=tuple(finished),
        devices=tuple(sorted({row["device"] for row in everything})),
        versions=tuple(sorted({row["version"] for row in everything})),
        diverged=len({row["trial"] for row in everything if row["diverged_at"] is not None}),
        counts=counts,
        unparseable=_unparseable(ids, rows),
    )


def _seeds(case: Case, store: Store, made: Record) -> tuple[int, ...]:
    """The finished seeds of a case: of those that were ever asked for, and of those that follow them without a gap."""
    most = made.seeds.get(case.arm, max(made.seeds.values()))
    first, found = case.seeded(0).id, []
    for seed in itertools.count():
        trial = case.seeded(seed)
        again = seed > 0 and trial.id == first  # chance has no part in it
        if seed >= most and (again or not store.has(trial)):
            return tuple(found)
        if store.has(trial):
            found.append(seed)
    return ()


def _unparseable(ids: dict[str, Case], rows: dict[str, list[dict[str, Any]]]) -> dict[str, tuple[int, int]]:
    counts: dict[str, tuple[int, int]] = {}
    for trial, case in ids.items():
        for row in _last(rows[trial]):
            if "unparseable" in row:
                bad, of = counts.get(case.arm, (0, 0))
                counts[case.arm] = (bad + row["unparseable"], of + row["answers"])
    return counts


def _rows(store: Store, ids: set[str]) -> dict[str, list[dict[str, Any]]]:
    """The scores of every step, by trial id."""
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in store.rows(ids):
        rows[row["trial"]].append(row)
    return rows


def _last(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The scores of the last step."""
    return [row for row in rows if row["step"] == row["optimiser.steps"]]


def _points(
    study: Study,
    preset: str,
    finished: list[tuple[Case, tuple[int, ...]]],
    rows: dict[str, list[dict[str, Any]]],
    store: Store,
) -> list[Point]:
    points = []
    followed = list(dict.fromkeys(panel.score for panel in study.panels(preset)))
    for case, seeds in finished:
        trials = [case.seeded(seed) for seed in seeds]
        ends = [_last(rows[trial.id]) for trial in trials]
        if study.figures:
            derived = [_derived(study, case, end, store.path(trial)) for trial, end in zip(trials, ends, strict=True)]
            for name in study.figures:
                assert case.x is not None
                ours = tuple(float(found[name]) for found in derived)
                points.append(Point(case.task, case.arm, name, case.x, ours, (), seeds))
        elif followed:
            points += _through_training(case, seeds, [rows[trial.id] for trial in trials], followed)
        else:
            for name, members in _groups(case).items():
                ours = tuple(_score(study, end, members) for end in ends)
                for panel, x in study.places(case, name):
                    points.append(Point(panel, case.arm, name, x, ours, tuple(case.published(name)), seeds))
    return points


def _derived(study: Study, case: Case, rows: list[dict[str, Any]], folder: Path) -> Mapping[str, float]:
    """A trial's derived figures: what was kept beside its scores by this version, or derived now, and kept."""
    path = folder / f"figures-{study.name}.json"
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):  # not there, or not whole: derived again
        held = json.loads(path.read_bytes())
        if held["version"] == __version__ and set(held["figures"]) == set(study.figures):
            return held["figures"]
    found = dict(study.derive(case, rows, folder / "weights.safetensors"))
    write_whole(path, json.dumps({"version": __version__, "figures": found}).encode())
    return found


def _through_training(
    case: Case, seeds: tuple[int, ...], rows: list[list[dict[str, Any]]], followed: list[str]
) -> list[Point]:
    """A point for every score that is followed and every step that has it."""
    values: dict[tuple[str, int], list[float]] = defaultdict(list)
    for seed in rows:
        for row in seed:
            if row["set"] in followed:
                values[row["set"], row["step"]].append(math.inf if row["loss"] is None else row["loss"])
    return [Point(case.task, case.arm, name, step, tuple(found), (), seeds) for (name, step), found in values.items()]


def _groups(case: Case) -> dict[str, list[str]]:
    """Test sets that make one point: "c=3, length 1" … "c=3, length 8" are the members of "c=3"."""
    groups: dict[str, list[str]] = defaultdict(list)
    for test_set in case.test_sets:
        groups[test_set.split(",")[0]].append(test_set)
    return groups


def _score(study: Study, rows: list[dict[str, Any]], members: list[str]) -> float:
    """The mean over a point's test sets; a score that is not finite was kept as none, and counts as infinite."""
    values = [row[study.metric] for row in rows if row["set"] in members]
    return statistics.fmean(math.inf if value is None else value for value in values)
