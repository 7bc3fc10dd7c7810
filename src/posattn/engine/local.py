"""Run trials in this process: sort them into fleets, train, keep what comes out, go on after an interruption."""

import dataclasses
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from posattn import checks, devices
from posattn.engine.interrupt import interruptible
from posattn.engine.progress import Bar, Reporter, check_reporter
from posattn.engine.side_by_side import SideBySide, Training, if_there_is_room
from posattn.engine.store import Store, task_source
from posattn.errors import PosattnError, require
from posattn.train.task_source import same
from posattn.train import Trial, shape_key
from posattn.train.fleet.checkpoint import begun, forget, sources
from posattn.train.fleet.fleet import bytes_per_replica, fleet_sizes

#: Fleets that train side by side: small ones take two thirds of the time so on an H200 (docs/performance.md). On a CPU
#: one fleet has work for every core.
BESIDE = {"cpu": 1, "cuda": 8}
#: Share of the free device memory that a fleet may plan with; the rest is for the allocator and captured graphs.
MEMORY_SHARE = 0.7


def run(
    trials: list[Trial],
    *,
    out: str | os.PathLike[str] = "runs",
    device: str | torch.device = "auto",
    reporter: Reporter | None = None,
    checkpoint_every: float = 60.0,
    keep: bool = False,
) -> Store:
    """Train every trial that the store does not hold yet, and keep it there.

    A checkpoint is written every `checkpoint_every` seconds and on Ctrl-C; called again with the same trials, the run
    goes on from there. A finished trial of a task that its author has changed since is trained again, and its result
    is replaced when the new one is there; an unfinished one starts anew. With `keep`, results stay and runs go on.
    """
    checks.several("trials", trials, Trial, fix="pass a list of posattn.train.Trial")
    check_reporter(reporter)
    checks.switch("keep", keep)
    seconds = checks.number("checkpoint_every", checkpoint_every)
    require(seconds > 0, f"checkpoint_every={checkpoint_every}: seconds between checkpoints, above 0.")
    store, where = Store(out), devices.resolve(device)
    notes = store.prepare()
    asked = {trial.id: trial for trial in trials}
    outdated = {} if keep else {trial.id: trial.task for trial in asked.values() if store.outdated(trial)}
    for task in sorted(set(outdated.values())):
        count = list(outdated.values()).count(task)
        past, now = ("was finished", "it is") if count == 1 else ("were finished", "they are")
        notes.append(
            f"task '{task}' has changed since {count} of its trials {past}: {now} trained again and replaced. "
            "--keep (keep=True) uses what is there."
        )
    todo = [trial for trial in asked.values() if trial.id in outdated or not store.finished(trial)]
    if not keep:
        notes += _forget_changed(store, asked)
    interrupted = _interrupted(store, asked, {trial.id for trial in todo})
    with reporter or Bar() as report, interruptible() as stopping, _memory_errors(where):
        for note in notes:
            report.say(note)
        turns = SideBySide(BESIDE[where.type], stopping)
        for group in fleets(todo, where, report, interrupted=interrupted, make_room=turns.finish):
            turns.begin(partial(Training, group, where, store, report, checkpoint_every, outdated))
        turns.finish()
    return store


def _forget_changed(store: Store, asked: dict[str, Trial]) -> list[str]:
    """Remove the checkpoints of fleets that were begun with a task as it was before; gives back what to say of that."""
    notes: list[str] = []
    for folder, ids in begun(store.checkpoints).items():
        if asked.keys() >= set(ids):
            before = sources(folder)
            trials = [asked[trial] for trial in ids]
            changed = {trial.task for trial in trials if not same(before.get(trial.id), task_source(trial))}
            if changed:
                forget(folder)
                notes += [
                    f"task '{task}' has changed since a fleet of {len(ids)} was interrupted: it starts anew. "
                    "--keep (keep=True) goes on with it."
                    for task in sorted(changed)
                ]
    return notes


def _interrupted(store: Store, asked: dict[str, Trial], todo: set[str]) -> list[list[Trial]]:
    """The fleets that were begun and can go on as they were, those of their trials included that are finished."""
    found: list[list[Trial]] = []
    for folder, ids in sorted(begun(store.checkpoints).items(), key=lambda entry: -len(entry[1])):
        if not asked.keys() >= set(ids):
            continue
        if todo.isdisjoint(ids):
            forget(folder)  # the last run ended between its last result and the clean-up
        elif not any(trial.id in ids for group in found for trial in group):
            found.append([asked[trial] for trial in ids])
    return found


def fleets(
    trials: list[Trial],
    device: torch.device,
    report: Reporter,
    *,
    interrupted: Sequence[list[Trial]] = (),
    make_room: Callable[[], None] = lambda: None,
) -> Iterator[list[Trial]]:
    """Fleets to go on with, then the other trials by shape; on CUDA, those that would not fit the memory are split.

    Before one is split, `make_room` may end what else holds memory.
    """
    placed = {trial.id for group in interrupted for trial in group}
    groups: dict[Any, list[Trial]] = defaultdict(list)
    for trial in trials:
        if trial.id not in placed:
            groups[repr(shape_key(trial))].append(trial)
    for group in (*interrupted, *groups.values()):
        sizes = [len(group)]
        if device.type == "cuda" and len(group) > 1:
            most = max(group, key=lambda trial: trial.data.samples)
            widest = group[0].model.covering([trial.model for trial in group])
            measured = dataclasses.replace(most, model=widest)
            each = if_there_is_room(partial(bytes_per_replica, measured, device))
            if each is None:
                make_room()
                each = bytes_per_replica(measured, device)
            free = _free(device)
            if len(group) * each > free:
                make_room()
                free = _free(device)
            sizes = fleet_sizes(len(group), each=each, free=free)
            if len(sizes) > 1:
                report.say(
                    f"{len(group)} replicas need {len(group) * each / 2**30:.1f} GiB and {free / 2**30:.1f} GiB are "
                    f"free: training them as {len(sizes)} fleets of up to {max(sizes)}."
                )
        start = 0
        for size in sizes:
            yield group[start : start + size]
            start += size


def _free(device: torch.device) -> int:
    """Bytes of device memory that a fleet may plan with."""
    torch.cuda.empty_cache()
    return int(MEMORY_SHARE * torch.cuda.mem_get_info(device)[0])


@contextmanager
def _memory_errors(device: torch.device) -> Iterator[None]:
    """Say what to do where a fleet does not fit the device after all."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not devices.memory_is_full(error):
            raise
        raise PosattnError(
            f"the memory of device '{device}' is full{devices.memory_asked_for(error)}: use a smaller batch, fewer "
            "samples or a shorter length, end what else runs there, or take another device. What was finished is kept, "
            "and so are checkpoints."
        ) from None
