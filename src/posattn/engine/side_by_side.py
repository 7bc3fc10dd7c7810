"""Fleets on their way into the store: each takes its steps, its scores and its checkpoints, several take turns."""

import json
import math
import time
import warnings
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import torch

from posattn.engine.interrupt import Interrupted, Stop
from posattn.engine.progress import Reporter
from posattn.engine.store import SOURCE, Store, task_source
from posattn.train import Checkpoints, Fleet, Score, Trial
from posattn.train.fleet.checkpoint import sources
from posattn.version import __version__

#: Seconds between two looks at the loss, which wait for the device.
REPORT_EVERY = 0.5
T = TypeVar("T")


def if_there_is_room(work: Callable[[], T]) -> T | None:
    """What `work` gives, or nothing where the device's memory is not enough; what it had taken is free again then."""
    try:
        return work()
    except torch.OutOfMemoryError:
        return None


class Training:
    """A fleet on its way into the store, on a CUDA stream of its own."""

    def __init__(
        self,
        trials: list[Trial],
        device: torch.device,
        store: Store,
        report: Reporter,
        checkpoint_every: float,
        replaced: Collection[str],
    ) -> None:
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.store, self.report, self.checkpoint_every = store, report, checkpoint_every
        self.replaced = replaced  # ids of trials whose result in the store makes way for the new one
        # Taken now: what a task's functions hold may change while it runs.
        self.sources = {trial.id: source for trial in trials if (source := task_source(trial)) is not None}
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
                self.sources |= sources(self.checkpoints.folder)  # what its first steps were taken with
                report.say(f"going on from step {fleet.step} of {fleet.steps}.")
            self.every = trials[0].evaluation.every
            if self.every and notes is None:
                _note(self.history, fleet.scores(), 0)
            self.checkpoints.begin(self.sources)
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
        self._keep()
        self.checkpoints.remove()
        self.report.end(self.number)

    def _keep(self) -> None:
        fleet, seconds = self.fleet, round(self._seconds(), 3)
        device = torch.cuda.get_device_name(fleet.device) if fleet.device.type == "cuda" else "cpu"
        for replica, (trial, diverged) in enumerate(zip(fleet.trials, fleet.divergence(), strict=True)):
            if trial.id not in self.replaced and self.store.finished(trial):  # before an interruption
                continue
            source = self.sources.get(trial.id)
            metrics = {
                "scores": self.history[replica],
                "diverged_at": diverged,
                "device": device,
                "fleet": len(fleet.trials),
                "beside": self.beside,
                "seconds": seconds,
                "version": __version__,
                "torch": str(torch.__version__),
            }
            about = {SOURCE: source} if source is not None else {}
            self.store.write(trial, fleet.weights(replica), json.loads(json.dumps(about | metrics)))


class SideBySide:
    """Fleets that take turns, a step each. On a GPU their kernels overlap: one small fleet alone leaves it idle."""

    def __init__(self, most: int, stopping: Stop) -> None:
        self.most, self.stopping = most, stopping
        self.active: list[Training] = []

    def begin(self, make: Callable[[], Training]) -> None:
        """Take one more in, and train until the next one would have a place."""
        self.stopping.listen()
        training = if_there_is_room(make) if self.active else make()
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
        if self.stopping.asked is not None and self.active:
            for training in self.active:
                training.save()
            first, others = self.active[0].fleet, len(self.active) - 1
            more = f", and {others} more fleet{'s' if others > 1 else ''} beside it" if others else ""
            raise Interrupted(
                f"stopped at step {first.step} of {first.steps}{more}. Run the same command again to go on from there.",
                self.stopping.asked,
            )

    def _advance(self, training: Training) -> None:
        """A step of one fleet; where the memory is not enough for that, after the others have ended."""
        alone = len(self.active) == 1
        more = training.advance() if alone else if_there_is_room(training.advance)
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
