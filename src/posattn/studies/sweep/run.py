"""A sweep of a study: its trials with every setting that a search asks for, in batches that become fleets."""

import math
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from posattn import checks
from posattn.engine import EarlyStop, Engine, Log, Reporter, Store, attempt
from posattn.errors import PosattnError
from posattn.studies.core.case import Case
from posattn.studies.core.changed import changed_cases
from posattn.studies.core.study import Study
from posattn.studies.sweep import stopped
from posattn.studies.sweep.request import SEEDS, Request
from posattn.studies.sweep.search import Search
from posattn.studies.sweep.space import Setting, Space
from posattn.studies.sweep.tried import Sweep, Tried, limits
from posattn.studies.sweep.validation import VALIDATION
from posattn.train.runnable import Runnable

#: Settings of a case that must be tried before others of it are stopped.
LEAST = 4
#: Validation losses by trial and step, and at which step a trial diverged.
Rows = Mapping[str, tuple[Mapping[int, float], int | None]]


def sweep(
    study: Study,
    space: Space,
    *,
    search: str = "grid",
    budget: int | None = None,
    batch: int | None = None,
    stop_early: bool = False,
    preset: str = "quick",
    tasks: tuple[str, ...] = (),
    arms: tuple[str, ...] = (),
    seeds: int = SEEDS,
    device: str | torch.device = "auto",
    out: str | os.PathLike[str] = "runs",
    reporter: Reporter | None = None,
    keep: bool = False,
    together: bool = True,
    engine: Engine | None = None,
    log: Sequence[Log] = (),
) -> Sweep:
    """Try settings of a study's trials, and say which does best for each of its cases.

    Settings are judged by the median over `seeds` on the set `validation`; test sets are scored and never looked at.
    A `search` is "grid", "random" or "optuna", the latter two with a `budget` of settings. With `stop_early`, fleets
    end as soon as all their settings do worse than half of those before them. Stopped and called again, it goes on.
    """
    fix = "pass a list of logs, as [posattn.engine.JsonLines('run.jsonl')]"
    logs = checks.several("log", log, Log, fix=fix)
    given = {"search": search, "budget": budget, "batch": batch, "stop_early": stop_early, "preset": preset}
    request = Request(study=study, space=space, **given, tasks=tasks, arms=arms, seeds=seeds)
    make = request.searching()
    asked = [Asked(case, make(), request.seeds) for case in request.cases()]
    before = stopped.read(Store(out), request.name)
    where = {"out": out, "device": device, "reporter": reporter, "keep": keep, "together": together, "engine": engine}
    while any(list(map(Asked.ask, asked))):
        trials = {trial.id: trial for one in asked for setting in one.batch for trial in one.trials(setting)}
        heard = stopped.Heard(VALIDATION)
        todo = [trial for trial in trials.values() if trial.id not in before]
        early_stop = _early_stop(asked) if stop_early else None
        store, left_out = attempt(todo, **where, log=[*logs, heard], early_stop=early_stop)
        for trial, why in left_out.items():
            if trial not in heard.losses:  # not stopped: it could not be run at all
                raise PosattnError(why)
            before[trial] = heard.losses[trial]
        if left_out:
            stopped.write(store, request.name, before)
        rows = _rows(store, trials)
        for one in asked:
            one.tell(rows, before)
    return Sweep(request=request, tried=tuple(found for one in asked for found in one.tried))


@dataclass
class Asked:
    """A case, the search that it has of its own, and what was tried of it."""

    case: Case
    search: Search
    seeds: int
    batch: list[Setting] = field(default_factory=list)
    tried: list[Tried] = field(default_factory=list)

    def ask(self) -> bool:
        self.batch = self.search.ask()
        return bool(self.batch)

    def trials(self, setting: Setting) -> list[Runnable]:
        """One for each seed; a field that the case does not have stays out of it."""
        case = changed_cases([self.case], setting)[0]
        return [case.seeded(seed) for seed in range(self.seeds)]

    def tell(self, rows: Rows, before: Mapping[str, stopped.Losses]) -> None:
        """What came of the batch: of trials in `rows` all, of those in `before` what was there when they stopped."""
        found = [self._tried(setting, rows, before) for setting in self.batch]
        self.tried += found
        self.search.tell([one.median for one in found])

    def _tried(self, setting: Setting, rows: Rows, before: Mapping[str, stopped.Losses]) -> Tried:
        ids = [trial.id for trial in self.trials(setting)]
        ended = [max(before[trial]) for trial in ids if trial in before and trial not in rows]
        held = [rows[trial][0] if trial in rows else before[trial] for trial in ids]
        shared = sorted(set.intersection(*(set(losses) for losses in held)))
        path = {step: statistics.median(losses[step] for losses in held) for step in shared}
        if ended:
            return Tried(case=self.case, setting=setting, path=path, stopped=min(ended))
        diverged = sum(rows[trial][1] is not None for trial in ids)
        losses = tuple(losses[max(losses)] for losses in held)
        return Tried(case=self.case, setting=setting, losses=losses, path=path, diverged=diverged)


def _early_stop(asked: Sequence[Asked]) -> EarlyStop:
    """What the settings of the next batch must not exceed, each case's by those that it had before."""
    found = {}
    for one in asked:
        bars = limits(one.tried, least=LEAST)
        found |= {one.trials(setting)[0].id: bars for setting in one.batch}
    return EarlyStop(VALIDATION, found)


def _rows(store: Store, trials: Mapping[str, Runnable]) -> Rows:
    found: dict[str, tuple[dict[int, float], int | None]] = {}
    for row in store.rows(trials.keys()):
        if row["set"] == VALIDATION:
            losses, _ = found.setdefault(row["trial"], ({}, row["diverged_at"]))
            losses[row["step"]] = math.inf if row["loss"] is None else row["loss"]
    return found
