"""Run trials in this process: sort them into fleets, train, keep what comes out, go on after an interruption."""

import dataclasses
import json
import math
import os
import signal
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, TypeVar

import torch

import posattn
from posattn import devices
from posattn.engine.progress import Bar, Reporter
from posattn.engine.store import Store
from posattn.errors import PosattnError, require
from posattn.train import Checkpoints, Fleet, Score, Trial, shape_key
from posattn.train.checkpoint import begun, forget
from posattn.train.fleet import bytes_per_replica, fleet_sizes

#: Seconds between two looks at the loss, which wait for the device.
REPORT_EVERY = 0.5
#: Fleets that train side by side: small ones take two thirds of the time so on an H200 (docs/performance.md). On a CPU
#: one fleet has work for every core.
BESIDE = {"cpu": 1, "cuda": 8}
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
    with reporter or Bar() as report, _interruptible() as stopping, _memory_errors(where):
        side_by_side = _SideBySide(BESIDE[where.type], stopping)
        for group in fleets(todo, where, report, interrupted=interrupted, make_room=side_by_side.finish):
            side_by_side.begin(partial(_Training, group, where, store, report, checkpoint_every))
        side_by_side.finish()
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
            widest = group[0].model.united([trial.model for trial in group])
            measured = dataclasses.replace(most, model=widest)
            each = _if_there_is_room(partial(bytes_per_replica, measured, device))
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


T = TypeVar("T")


def _if_there_is_room(work: Callable[[], T]) -> T | None:
    """What `work` gives, or nothing where the device's memory is not enough; what it had taken is free again then."""
    try:
        return work()
    except torch.OutOfMemoryError:
        return None


def _free(device: torch.device) -> int:
    """Bytes of device memory that a fleet may plan with."""
    torch.cuda.empty_cache()
    return int(MEMORY_SHARE * torch.cuda.mem_get_info(device)[0])


@contextmanager
def _memory_errors(device: torch.device) -> Iterator[None]:
    """Say what to do where a fleet does not fit the device after all."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise PosattnError(
            f"the memory of device '{device}' is full: use a smaller batch, end what else runs there, or take another "
            "device. What was finished is kept, and so are checkpoints."
        ) from None


class _Training:
    """A fleet on its way into the store, on a CUDA stream of its own."""

    def __init__(
        self, trials: list[Trial], device: torch.device, store: Store, report: Reporter, checkpoint_every: float
    ) -> None:
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.store, self.report, self.checkpoint_every = store, report, checkpoint_every
        self.beside = 1  # how many fleets trained at once, at most
        with self._on_stream():
            self.fleet = fleet = Fleet(trials, device=device)
            self.checkpoints = Checkpoints(store.checkpoints, fleet)
            self.history: list[list[dict[str, Any]]] = [[] for _ in trials]
            self.spent = 0.0
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                notes = self.checkpoints.restore()
            for warning in caught:
                report.say(str(warning.message))
            if notes is not None:
                self.history, self.spent = notes["history"], notes["seconds"]
                report.say(f"going on from step {fleet.step} of {fleet.steps}.")
            self.every = trials[0].evaluation.every
            if self.every and notes is None:
                _note(self.history, fleet.scores(), 0)
            self.checkpoints.begin()
            self.number = report.start(_title(fleet), fleet.steps, fleet.step)
            self.began = self.looked = self.saved = time.monotonic()
            self.due: int | None = None  # the step that was taken and after which something is left to do

    def _on_stream(self) -> AbstractContextManager[object]:
        return nullcontext() if self.stream is None else torch.cuda.stream(self.stream)

    def advance(self) -> bool:
        """One step, and what is due after it. Whether there are more. Called again after an error, it tries again."""
        last = self.fleet.steps
        with self._on_stream():
            step = self.due = next(self.fleet.run(), last) if self.due is None else self.due
            if self.every and step % self.every == 0 and step < last:
                _note(self.history, self.fleet.scores(), step)
            now = time.monotonic()
            if now - self.looked >= REPORT_EVERY:
                self.report.update(self.number, step, self.fleet.loss.tolist())
                self.looked = time.monotonic()
            if now - self.saved >= self.checkpoint_every:
                self.save()
            if step == last:
                self._end()
            self.due = None
            return step < last

    def save(self) -> None:
        """Write a checkpoint."""
        with self._on_stream():
            self.checkpoints.write({"history": self.history, "seconds": self._seconds()})
        self.saved = time.monotonic()

    def _seconds(self) -> float:
        return self.spent + time.monotonic() - self.began

    def _end(self) -> None:
        fleet = self.fleet
        scores = fleet.scores()
        self.report.update(self.number, fleet.step, fleet.loss.tolist())
        _note(self.history, scores, fleet.step)
        _keep(fleet, self.store, self.history, seconds=self._seconds(), beside=self.beside)
        self.checkpoints.remove()
        self.report.end(self.number)


class _SideBySide:
    """Fleets that take turns, a step each. On a GPU their kernels overlap: one small fleet alone leaves it idle."""

    def __init__(self, most: int, stopping: "_Stop") -> None:
        self.most, self.stopping = most, stopping
        self.active: list[_Training] = []

    def begin(self, make: Callable[[], _Training]) -> None:
        """Take one more in, and train until the next one would have a place."""
        self.stopping.listen()
        training = _if_there_is_room(make) if self.active else make()
        if training is None:
            self.finish()
            training = make()
        self.active.append(training)
        for training in self.active:
            training.beside = max(training.beside, len(self.active))
        self._turn()  # its first step takes most of its memory, and what comes next is planned with the rest
        while len(self.active) >= self.most:
            self._turn()

    def finish(self) -> None:
        """Train all of them to their end."""
        while self.active:
            self._turn()

    def _turn(self) -> None:
        for training in tuple(self.active):
            if training in self.active:  # not where it has ended so that another one had room
                self._advance(training)
        if self.stopping.asked and self.active:
            for training in self.active:
                training.save()
            first, others = self.active[0].fleet, len(self.active) - 1
            more = f", and {others} more fleet{'s' if others > 1 else ''} beside it" if others else ""
            raise Interrupted(
                f"stopped at step {first.step} of {first.steps}{more}. Run the same command again to go on from there."
            )

    def _advance(self, training: _Training) -> None:
        """A step of one fleet; where the memory is not enough for that, after the others have ended."""
        alone = len(self.active) == 1
        more = training.advance() if alone else _if_there_is_room(training.advance)
        if more is None:
            training.save()
            self.active.remove(training)
            self.finish()
            self.active.append(training)
            more = training.advance()
        if not more:
            self.active.remove(training)
        self.stopping.listen()


def _title(fleet: Fleet) -> str:
    names = sorted({trial.task for trial in fleet.trials})
    models = sorted({trial.model.label() for trial in fleet.trials})
    return f"{'/'.join(models)} on {', '.join(names)} × {len(fleet.trials)}"


def _note(history: list[list[dict[str, Any]]], scores: list[dict[str, Score]], step: int) -> None:
    for rows, found in zip(history, scores, strict=True):
        rows += [
            {"set": name, "step": step, "loss": _number(score.loss), "metric": _number(score.metric)}
            for name, score in found.items()
        ]


def _number(value: float) -> float | None:
    """JSON knows no NaN."""
    return value if math.isfinite(value) else None


def _keep(fleet: Fleet, store: Store, history: list[list[dict[str, Any]]], *, seconds: float, beside: int) -> None:
    device = torch.cuda.get_device_name(fleet.device) if fleet.device.type == "cuda" else "cpu"
    for replica, (trial, diverged) in enumerate(zip(fleet.trials, fleet.divergence(), strict=True)):
        if store.finished(trial):  # before an interruption
            continue
        metrics = {
            "scores": history[replica],
            "diverged_at": diverged,
            "device": device,
            "fleet": len(fleet.trials),
            "beside": beside,
            "seconds": round(seconds, 3),
            "version": posattn.__version__,
            "torch": str(torch.__version__),
        }
        store.write(trial, fleet.weights(replica), json.loads(json.dumps(metrics)))


class _Stop:
    """Whether Ctrl-C was pressed. A second one stops at once."""

    def __init__(self) -> None:
        self.asked = False
        self.heard = True

    def __call__(self, *_: Any) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def listen(self) -> Any:
        """Take Ctrl-C over, again if need be: Triton's compiler has the signal end the process instead."""
        return signal.signal(signal.SIGINT, self) if self.heard else None


@contextmanager
def _interruptible() -> Iterator[_Stop]:
    """Let a step end before Ctrl-C takes effect: a checkpoint of half a step would be worth nothing."""
    stop = _Stop()
    try:
        before = stop.listen()
    except ValueError:  # only the main thread may set a handler; elsewhere Ctrl-C never arrives anyway
        stop.heard = False
        yield stop
        return
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler if before is None else before)
