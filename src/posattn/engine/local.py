"""Run trials in this process: sort them into fleets, train, keep what comes out, go on after an interruption."""

import dataclasses
import json
import math
import os
import signal
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

import posattn
from posattn import devices
from posattn.engine.progress import Bar, Reporter
from posattn.engine.store import Store
from posattn.errors import require
from posattn.train import Checkpoints, Fleet, Score, Trial, shape_key
from posattn.train.checkpoint import begun, forget
from posattn.train.fleet import bytes_per_replica, fleet_sizes

#: Seconds between two looks at the loss, which wait for the device.
REPORT_EVERY = 0.5
#: Share of the free device memory that a fleet may plan with; the rest is for the allocator and captured graphs.
MEMORY_SHARE = 0.7


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, after a checkpoint was written. Says how to go on."""


def run(
    trials: list[Trial],
    *,
    out: str | os.PathLike[str] = "runs",
    device: str | torch.device = "auto",
    reporter: Reporter | None = None,
    checkpoint_every: float = 60.0,
) -> Store:
    """Train every trial that the store does not hold yet, and keep it there.

    A checkpoint is written every `checkpoint_every` seconds and on Ctrl-C; called again with the same trials, the run
    goes on from there.
    """
    require(checkpoint_every > 0, f"checkpoint_every={checkpoint_every}: seconds between checkpoints, above 0.")
    store, where = Store(out), devices.resolve(device)
    store.prepare()
    asked = {trial.id: trial for trial in trials}
    todo = [trial for trial in asked.values() if not store.finished(trial)]
    interrupted = _interrupted(store, asked, {trial.id for trial in todo})
    with reporter or Bar() as report, _interruptible() as stopping:
        for group in fleets(todo, where, report, interrupted=interrupted):
            # The fleet has no name here: the next one is planned with the memory that this one leaves free.
            _train(Fleet(group, device=where), store, report, stopping, checkpoint_every)
    return store


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
    trials: list[Trial], device: torch.device, report: Reporter, *, interrupted: Sequence[list[Trial]] = ()
) -> Iterator[list[Trial]]:
    """Fleets to go on with, then the other trials by shape; on CUDA, those that would not fit the memory are split."""
    placed = {trial.id for group in interrupted for trial in group}
    groups: dict[Any, list[Trial]] = defaultdict(list)
    for trial in trials:
        if trial.id not in placed:
            groups[repr(shape_key(trial))].append(trial)
    for group in (*interrupted, *groups.values()):
        sizes = [len(group)]
        if device.type == "cuda" and len(group) > 1:
            most = max(group, key=lambda trial: trial.data.samples)
            widest = group[0].model.united([trial.model for trial in group])
            each = bytes_per_replica(dataclasses.replace(most, model=widest), device)
            torch.cuda.empty_cache()
            free = int(MEMORY_SHARE * torch.cuda.mem_get_info(device)[0])
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


def _train(fleet: Fleet, store: Store, report: Reporter, stopping: "_Stop", checkpoint_every: float) -> None:
    checkpoints = Checkpoints(store.checkpoints, fleet)
    history: list[list[dict[str, Any]]] = [[] for _ in fleet.trials]
    spent = 0.0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        notes = checkpoints.restore()
    for warning in caught:
        report.say(str(warning.message))
    if notes is not None:
        history, spent = notes["history"], notes["seconds"]
        report.say(f"going on from step {fleet.step} of {fleet.steps}.")
    checkpoints.begin()
    report.start(_title(fleet), fleet.steps, fleet.step)
    began = looked = saved = time.monotonic()

    def save() -> None:
        checkpoints.write({"history": history, "seconds": spent + time.monotonic() - began})

    every = fleet.trials[0].evaluation.every
    if every and notes is None:
        _note(history, fleet.scores(), 0)
    for step in fleet.run():
        if every and step % every == 0 and step < fleet.steps:
            _note(history, fleet.scores(), step)
        now = time.monotonic()
        if now - looked >= REPORT_EVERY:
            report.update(step, fleet.loss.tolist())
            looked = time.monotonic()
        if stopping.asked and step < fleet.steps:
            save()
            raise Interrupted(
                f"stopped at step {step} of {fleet.steps}. Run the same command again to go on from there."
            )
        if now - saved >= checkpoint_every:
            save()
            saved = time.monotonic()
    report.update(fleet.step, fleet.loss.tolist())
    _note(history, fleet.scores(), fleet.step)
    _keep(fleet, store, history, seconds=spent + time.monotonic() - began)
    checkpoints.remove()


def _title(fleet: Fleet) -> str:
    names = sorted({trial.task for trial in fleet.trials})
    kinds = sorted({trial.model.kind for trial in fleet.trials})
    return f"{'/'.join(kinds)} on {', '.join(names)} × {len(fleet.trials)}"


def _note(history: list[list[dict[str, Any]]], scores: list[dict[str, Score]], step: int) -> None:
    for rows, found in zip(history, scores, strict=True):
        rows += [
            {"set": name, "step": step, "loss": _number(score.loss), "metric": _number(score.metric)}
            for name, score in found.items()
        ]


def _number(value: float) -> float | None:
    """JSON knows no NaN."""
    return value if math.isfinite(value) else None


def _keep(fleet: Fleet, store: Store, history: list[list[dict[str, Any]]], *, seconds: float) -> None:
    device = torch.cuda.get_device_name(fleet.device) if fleet.device.type == "cuda" else "cpu"
    for replica, (trial, diverged) in enumerate(zip(fleet.trials, fleet.divergence(), strict=True)):
        if store.finished(trial):  # before an interruption
            continue
        metrics = {
            "scores": history[replica],
            "diverged_at": diverged,
            "device": device,
            "fleet": len(fleet.trials),
            "seconds": round(seconds, 3),
            "version": posattn.__version__,
            "torch": str(torch.__version__),
        }
        store.write(trial, fleet.weights(replica), json.loads(json.dumps(metrics)))


class _Stop:
    """Whether Ctrl-C was pressed. A second one stops at once."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self, *_: Any) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


@contextmanager
def _interruptible() -> Iterator[_Stop]:
    """Let a step end before Ctrl-C takes effect: a checkpoint of half a step would be worth nothing."""
    stop = _Stop()
    try:
        before = signal.signal(signal.SIGINT, stop)
    except ValueError:  # only the main thread may set a handler; elsewhere Ctrl-C never arrives anyway
        yield stop
        return
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
