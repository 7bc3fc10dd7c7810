"""A fleet on its way into the store: its steps, its scores and its checkpoints."""

import time
import warnings
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch

from posattn.devices import name_of
from posattn.engine.early_stop import EarlyStop
from posattn.engine.progress import Reporter
from posattn.engine.store import Provenance, Store
from posattn.train import Checkpoints, Fleet, Trial
from posattn.train.fleet.checkpoint import sources
from posattn.train.fleet.evaluate import rows
from posattn.train.runnable import Outcome

#: Seconds between two looks at the loss, which wait for the device.
REPORT_EVERY = 0.5


class Training:
    """A fleet on its way into the store, on a CUDA stream of its own."""

    def __init__(
        self,
        trials: Sequence[Trial],
        device: torch.device,
        store: Store,
        report: Reporter,
        checkpoint_every: float,
        replaced: Collection[str],
        together: bool = True,
        early_stop: EarlyStop | None = None,
    ) -> None:
        cuda = device.type == "cuda"
        self._on_stream: Callable[[], AbstractContextManager[object]] = (
            partial(torch.cuda.stream, torch.cuda.Stream(device)) if cuda else nullcontext
        )
        self.store, self.report, self.checkpoint_every = store, report, checkpoint_every
        self.replaced = replaced  # ids of trials whose result in the store makes way for the new one
        # Taken now: what a task's functions hold may change while it runs.
        self.sources = {trial.id: source.hash for trial in trials if (source := trial.task_source) is not None}
        self.early_stop = early_stop
        self.left_out: dict[str, str] = {}  # trials that were stopped early, and why
        self.beside = 1  # how many fleets trained at once, at most
        with self._on_stream():
            self.fleet = fleet = Fleet(list(trials), device=device, together=together)
            self.checkpoints = Checkpoints(store.checkpoints, fleet)
            self.history: list[list[dict[str, Any]]] = [[] for _ in trials]
            spent = 0.0
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                notes = self.checkpoints.restore()
            for warning in caught:
                report.say(str(warning.message))
            if notes is not None:
                self.history, spent = notes["history"], notes["seconds"]
                self.sources |= sources(self.checkpoints.folder)  # what its first steps were taken with
                report.say(f"going on from step {fleet.step} of {fleet.steps}.")
            report.logs.begin(trials, fleet.step)
            self.every = trials[0].evaluation.every
            if self.every and notes is None:
                self._score(0)
            self.checkpoints.begin(self.sources)
            models = sorted({trial.model.label() for trial in trials})
            names = sorted({trial.task for trial in trials})
            title = f"{'/'.join(models)} on {', '.join(names)} × {len(trials)}"
            self.number = report.start(title, fleet.steps, fleet.step)
            self.noted = 0  # how many of the fleet's notes were said
            self.looked = self.saved = time.monotonic()
            self.began = self.looked - spent  # as if there had been no interruption
            self.due: int | None = None  # the step that was taken and after which something is left to do

    def advance(self) -> bool:
        """One step, and what is due after it. Whether there are more. Called again after an error, it tries again."""
        last = self.fleet.steps
        with self._on_stream():
            step = self.due = next(self.fleet.run(), last) if self.due is None else self.due
            if self.every and step % self.every == 0 and step < last:
                self._score(step)
                why = self.early_stop and self.early_stop.stops(self.fleet.trials, self.history, step)
                if why:
                    self._stop(why)
                    return False
            for note in self.fleet.passes.notes[self.noted :]:
                self.report.say(note)
            self.noted = len(self.fleet.passes.notes)
            now = time.monotonic()
            if now - self.looked >= REPORT_EVERY and step < last:
                self._look(step)
                self.looked = time.monotonic()
            if now - self.saved >= self.checkpoint_every:
                self.save()
            if step == last:
                self._end()
            self.due = None
            return step < last

    def _look(self, step: int) -> None:
        losses = self.fleet.loss.tolist()
        self.report.update(self.number, step, losses)
        self.report.logs.losses(self.fleet.trials, step, losses)

    def _score(self, step: int) -> None:
        for trial, held, scores in zip(self.fleet.trials, self.history, self.fleet.scores(), strict=True):
            found = rows(scores, step)
            held += found
            self.report.logs.scores(trial, found)

    def save(self) -> None:
        """Write a checkpoint."""
        with self._on_stream():
            self.checkpoints.write({"history": self.history, "seconds": time.monotonic() - self.began})
        self.saved = time.monotonic()

    def _stop(self, why: str) -> None:
        """Give the fleet up: what is not trained to its end is no result, so nothing of it is kept."""
        self.left_out = {trial.id: why for trial in self.fleet.trials}
        self.report.say(f"{len(self.left_out)} trials {why}")
        self.checkpoints.remove()
        self.report.end(self.number)

    def _end(self) -> None:
        """Keep what came out of every replica."""
        fleet = self.fleet
        self._score(fleet.step)
        self._look(fleet.step)
        device, seconds = name_of(fleet.device), round(time.monotonic() - self.began, 3)
        for replica, (trial, diverged) in enumerate(zip(fleet.trials, fleet.divergence(), strict=True)):
            if trial.id not in self.replaced and self.store.finished(trial):  # before an interruption
                continue
            source = self.sources.get(trial.id)
            made = Provenance(
                device=device, fleet=len(fleet.trials), beside=self.beside, seconds=seconds, task_source=source
            )
            outcome = Outcome(scores=self.history[replica], weights=fleet.weights(replica), diverged_at=diverged)
            self.store.write(trial, outcome, made)
            self.report.logs.end(trial, diverged)
        self.checkpoints.remove()
        self.report.end(self.number)
