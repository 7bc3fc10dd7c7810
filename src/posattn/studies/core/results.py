"""What came out of a study: every seed's figure at every point, beside the published ones, read from the store."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from posattn import checks
from posattn.engine import Engine, Log, Reporter, Store, attempt
from posattn.errors import PosattnError, require
from posattn.studies.core import record
from posattn.studies.core.case import Case
from posattn.studies.core.changed import Change
from posattn.studies.core.points import Finished, Point, Row
from posattn.studies.core.record import Record
from posattn.studies.core.study import Study, get


@dataclass(frozen=True)
class Results:
    """A study as it was run, and every point of it."""

    study: Study
    record: Record
    points: tuple[Point, ...]
    finished: tuple[tuple[Case, tuple[int, ...]], ...]  # every case with its finished seeds
    devices: tuple[str, ...]
    versions: tuple[str, ...]
    diverged: tuple[tuple[Case, int, int], ...]  # with the seed and the step
    commands: list[str]  # that give these results
    unparseable: dict[str, tuple[int, int]]  # by arm: answers in words that hold no number, of how many

    @property
    def preset(self) -> str:
        return self.record.preset

    @property
    def cases(self) -> list[Case]:
        return [case for case, _ in self.finished]

    @cached_property
    def changes(self) -> list[Change]:
        """The fields of the trials that are not as the study has them."""
        return self.study.described_changes(self.preset, {case.arm for case in self.cases})


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
    together: bool = True,
    engine: Engine | None = None,
    log: Sequence[Log] = (),
) -> Results:
    """Train what is missing, write down what was asked for, and read the results back from the store.

    They are all that was asked for of the study at this preset and with these options, in earlier runs too. Where
    `arms` are named, options that concern some arms only are those of the earlier run unless others are chosen. A
    study with changed trials (`Study.setting`) has results of its own.
    `engine` runs the trials, where that is not this process; each `log` hears how they come along.
    """
    checks.instance("study", study, Study, fix="pass a study, as posattn.studies.get('ood-scale')")
    tasks = tuple(dict.fromkeys(checks.several("tasks", tasks, str, fix="give a tuple of task names")))
    arms = checks.several("arms", arms, str, fix="give a tuple of the study's models, as its table names them")
    concerning = {name: choice.arms for name, choice in study.choices.items() if choice.arms}
    name = record.name_of(study.name, study.changes)
    older = record.read(Store(out), name) if arms else None
    if older is not None and older.preset == preset:
        before = {name: value for name, value in older.choices.items() if name in concerning}
        study = study.recalled(before | study.chosen_values)
    cases, count = study.chosen(tasks, preset, arms), study.seed_count(preset, seeds)
    trials = [(case, case.seeded(seed)) for case in cases for seed in range(count)]
    every = [trial for _, trial in trials]
    given = {"out": out, "device": device, "reporter": reporter, "keep": keep, "together": together, "log": log}
    store, missing = attempt(every, **given, engine=engine)
    left_out = {case.arm: missing[trial.id] for case, trial in trials if trial.id in missing}
    asked = Record(
        study=study.name,
        preset=preset,
        tasks=tasks,
        choices=study.chosen_values,
        seeds={case.arm: count for case in cases if case.arm not in left_out},
        left_out=left_out,
        changes=study.changes,
    )
    # Read again: another model may have been added while this one was trained.
    older = record.read(store, name, replacing=not arms)
    asked = asked.joined(older, concerning=concerning)
    require(
        bool(asked.seeds),
        f"nothing of study '{study.name}' could be run, {', '.join(left_out)} was all that was asked for: name other "
        "models, too, or no --model.",
    )
    record.write(store, asked)
    return _read(study.recalled(asked.choices), asked, store)


def results(name: str, out: str | os.PathLike[str] = "runs") -> Results:
    """All that is finished of a study below a folder, at the preset and with the options of its last run.

    `name` is a study's, or that of a record with changes, as "ood-scale+optimiser.lr=0.001".
    """
    store, known = Store(out), record.recorded(Store(out))
    study = get(name if name not in known else name.partition("+")[0])
    made = record.read(store, name)
    if made is None:
        raise _nothing(name, store)
    return _read(study.setting(made.changes).recalled(made.choices), made, store)


def _nothing(name: str, store: Store) -> PosattnError:
    changed = [f"'{other}'" for other in record.recorded(store) if other.startswith(f"{name}+")]
    but = f" There is {', '.join(changed)}, with other settings." if changed else ""
    start = f"start it, posattn run {name}."
    return PosattnError(f"study '{name}' has no finished run below '{store.folder}': {start}{but}")


def _read(study: Study, made: Record, store: Store) -> Results:
    """Of the trials that a record asks for, all that the store has."""
    counts: dict[str, dict[str, int]] = {}
    trials: list[tuple[Case, dict[int, Any]]] = []
    for task in [task for task in study.tasks if not made.tasks or task in made.tasks]:
        for case in study.cases_of(task, made.preset):
            seeded = _seeded(case, store, made.seeds.get(case.arm, 0))
            if seeded:
                trials.append((case, seeded))
                arms = counts.setdefault(task, {})
                arms[case.arm] = max(len(seeded), arms.get(case.arm, 0))
    if not trials:
        raise _nothing(study.name, store)
    finished = _finished(trials, store)
    rows = [row for one in finished for found in one.rows for row in found]
    return Results(
        study=study,
        record=made,
        points=tuple(study.view.points(study.name, made.preset, finished)),
        finished=tuple((one.case, one.seeds) for one in finished),
        devices=tuple(sorted({row["device"] for row in rows})),
        versions=tuple(sorted({row["version"] for row in rows})),
        diverged=tuple(
            (one.case, seed, held[0]["diverged_at"])
            for one in finished
            for seed, held in zip(one.seeds, one.rows, strict=True)
            if held and held[0]["diverged_at"] is not None
        ),
        commands=made.commands(study, counts),
        unparseable=_unparseable(finished),
    )


def _seeded(case: Case, store: Store, most: int) -> dict[int, Any]:
    """The finished trials of a case by seed, of so many that were asked for.

    Others may lie in the store, too: models without a field that was changed are the same trials in a changed run.
    """
    trials = {seed: case.seeded(seed) for seed in range(most)}
    return {seed: trial for seed, trial in trials.items() if store.has(trial)}


def _finished(trials: list[tuple[Case, dict[int, Any]]], store: Store) -> list[Finished]:
    """The same with their scores."""
    names = [[trial.id for trial in seeded.values()] for _, seeded in trials]
    rows: dict[str, list[Row]] = {}
    for row in store.rows({name for some in names for name in some}):
        rows.setdefault(row["trial"], []).append(row)
    found = []
    for (case, seeded), some in zip(trials, names, strict=True):
        every = tuple(rows.get(name, []) for name in some)
        last = tuple([row for row in scores if row["step"] == row["optimiser.steps"]] for scores in every)
        folders = tuple(store.path(trial) for trial in seeded.values())
        found.append(Finished(case, tuple(seeded), every, last, folders))
    return found


def _unparseable(finished: list[Finished]) -> dict[str, tuple[int, int]]:
    counts: dict[str, tuple[int, int]] = {}
    for one in finished:
        for row in (row for rows in one.last for row in rows if "unparseable" in row):
            bad, of = counts.get(one.case.arm, (0, 0))
            counts[one.case.arm] = (bad + row["unparseable"], of + row["answers"])
    return counts
