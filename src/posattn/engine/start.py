"""From a list of trials to an engine: what is missing in the store, what has changed since, and what can go on."""

import os
from collections.abc import Sequence
from typing import NamedTuple

import torch

from posattn import checks, devices
from posattn.engine.early_stop import EarlyStop
from posattn.engine.engine import Engine
from posattn.engine.interrupt import Interrupted, interruptible
from posattn.engine.local import LocalEngine
from posattn.engine.logs import Log, Logs
from posattn.engine.plan import Plan, plan
from posattn.engine.progress import Bar, Reporter
from posattn.engine.store import Store
from posattn.errors import require
from posattn.train import Trial
from posattn.train.fleet.checkpoint import begun, forget, sources
from posattn.train.fleet.grouping import batched
from posattn.train.runnable import Runnable, Unreachable
from posattn.train.task_hash import same


class Attempt(NamedTuple):
    """Where the results lie, and why some trials were left out, by id."""

    store: Store
    left_out: dict[str, str]


def run(
    trials: Sequence[Runnable],
    *,
    out: str | os.PathLike[str] = "runs",
    device: str | torch.device = "auto",
    reporter: Reporter | None = None,
    checkpoint_every: float = 60.0,
    keep: bool = False,
    together: bool = True,
    engine: Engine | None = None,
    log: Sequence[Log] = (),
) -> Store:
    """Run every trial that the store does not hold yet, and keep it there.

    A checkpoint is written every `checkpoint_every` seconds and on Ctrl-C; called again with the same trials, the run
    goes on from there. A finished trial of a task that its author has changed since is trained again, and its result
    is replaced when the new one is there; an unfinished one starts anew. With `keep`, results stay and runs go on.

    Trials of one shape train `together`, as one program. A module of your own that cannot be mapped over replicas
    trains with together=False, one replica after the other.

    Without an `engine`, trials run in this process on `device`; another engine brings devices and checkpoints of its
    own. Each `log` hears of the losses and scores of every trial that is run.
    """
    store, left_out = attempt(
        trials,
        out=out,
        device=device,
        reporter=reporter,
        checkpoint_every=checkpoint_every,
        keep=keep,
        together=together,
        engine=engine,
        log=log,
    )
    for reason in left_out.values():
        raise Unreachable(reason)
    return store


def attempt(
    trials: Sequence[Runnable],
    *,
    out: str | os.PathLike[str] = "runs",
    device: str | torch.device = "auto",
    reporter: Reporter | None = None,
    checkpoint_every: float = 60.0,
    keep: bool = False,
    together: bool = True,
    engine: Engine | None = None,
    log: Sequence[Log] = (),
    early_stop: EarlyStop | None = None,
) -> Attempt:
    """The same, where a trial whose pretrained model cannot be had is said and left out, as one is that stops early."""
    checks.several("trials", trials, Runnable, fix="pass a list of posattn.train.Trial")
    fix = "pass posattn.engine.Bar() or Lines(), or leave it out"
    checks.instance("reporter", reporter, (Reporter, type(None)), fix=fix)
    fix = "pass an object with the methods of posattn.engine.Engine, or leave it out"
    checks.instance("engine", engine, (Engine, type(None)), fix=fix)
    fix = "pass a list of logs, as [posattn.engine.JsonLines('run.jsonl')]"
    logs = checks.several("log", log, Log, fix=fix)
    checks.switch("keep", keep)
    checks.switch("together", together)
    seconds = checks.number("checkpoint_every", checkpoint_every)
    require(seconds > 0, f"checkpoint_every={checkpoint_every}: seconds between checkpoints, above 0.")
    store, engine = Store(out), engine or LocalEngine(devices.resolve(device), seconds, together)
    notes = store.prepare()
    asked = {trial.id: trial for trial in trials}
    outdated = set() if keep else {trial.id for trial in asked.values() if store.outdated(trial)}
    changed = [source.what for trial in outdated if (source := asked[trial].task_source) is not None]
    for what in sorted(set(changed)):
        count = changed.count(what)
        past, now = ("was finished", "it is") if count == 1 else ("were finished", "they are")
        notes.append(
            f"{what} has changed since {count} of its trials {past}: {now} trained again and replaced. "
            "--keep (keep=True) uses what is there."
        )
    todo = [trial for trial in asked.values() if trial.id in outdated or not store.finished(trial)]
    interrupted = _interrupted(store, asked, {trial.id for trial in todo}, notes, keep=keep)
    with reporter or Bar() as report:
        for note in notes:
            report.say(note)
        with interruptible() as stopping:
            planned = plan(todo, engine.capacity(), interrupted=interrupted, replaced=outdated, early_stop=early_stop)
        if stopping.asked is not None:
            raise Interrupted("stopped before the first step. Run the same command again to start.", stopping.asked)
        for note in planned.notes:
            report.say(note)
        report.logs = Logs(logs, report.say)
        try:
            left_out = engine.run(planned, store, report)
            _log_the_rest(planned, store, report.logs)
        finally:
            report.logs.close()
        return Attempt(store, left_out)


def _log_the_rest(planned: Plan, store: Store, logs: Logs) -> None:
    """What an engine has finished without a word to the logs; ours leaves nothing."""
    every = [*(trial for fleet in planned.fleets for trial in fleet.trials), *planned.alone]
    for trial in every if logs.logs else ():
        if trial.id not in logs.ended and store.has(trial):
            rows = store.rows({trial.id})
            logs.result(trial, rows, rows[0].get("diverged_at") if rows else None)


def _interrupted(
    store: Store, asked: dict[str, Runnable], todo: set[str], notes: list[str], *, keep: bool
) -> list[list[Trial]]:
    """The fleets that were begun and can go on as they were, those of their trials included that are finished.

    Checkpoints of fleets that have ended are removed, and unless they are to be kept, those of a task that has changed.
    """
    found: list[list[Trial]] = []
    for folder, ids in sorted(begun(store.checkpoints).items(), key=lambda entry: -len(entry[1])):
        if not asked.keys() >= set(ids):
            continue
        before, now = sources(folder), {trial: asked[trial].task_source for trial in ids}
        changed = {own.what for trial, own in now.items() if own and not same(before.get(trial), own.hash)}
        changed = set() if keep else changed
        notes += [
            f"{what} has changed since a fleet of {len(ids)} was interrupted: it starts anew. "
            "--keep (keep=True) goes on with it."
            for what in sorted(changed)
        ]
        if changed or todo.isdisjoint(ids):
            forget(folder)  # where nothing is to do, the last run ended between its last result and the clean-up
        elif not any(trial.id in ids for group in found for trial in group):
            found.append([trial for trial in map(asked.__getitem__, ids) if batched(trial)])
    return found
