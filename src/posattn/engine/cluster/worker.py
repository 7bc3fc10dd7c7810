"""What runs on a node: one fleet, or one trial by itself, in a private folder, told to the driver piece by piece.

Every piece is (text, files): events as JSON, and files by name, as bytes. Nothing else travels.
"""

import importlib
import importlib.util
import json
import os
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch

from posattn.engine.cluster.job import Job, early_stop_of
from posattn.engine.local import LocalEngine
from posattn.engine.logs import Logs
from posattn.engine.plan import Plan
from posattn.engine.progress import Reporter
from posattn.engine.store import FILES, Store
from posattn.engine.training import Training
from posattn.errors import PosattnError
from posattn.train.fleet.checkpoint import place
from posattn.train.fleet.grouping import batched
from posattn.train.runnable import Runnable
from posattn.version import __version__

#: Results that travel in one piece.
TOGETHER = 100
Piece = tuple[str, dict[str, bytes]]
Event = list[Any]


class Telling(Reporter):
    """Notes what a run tells, as events that JSON can hold, until they are taken."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.logs = TellingLogs(self.events)

    def start(self, title: str, steps: int, done: int) -> int:
        self.events.append(["start", title, steps, done])
        return 0

    def update(self, number: int, step: int, losses: list[float]) -> None:
        self.events.append(["update", step, losses])

    def end(self, number: int) -> None:
        self.events.append(["end"])

    def say(self, message: str) -> None:
        self.events.append(["say", message])

    def __exit__(self, *_: Any) -> None:
        return None

    def taken(self, *more: Event) -> str:
        """All events since the last time, and some more."""
        found = json.dumps([*self.events, *more])
        self.events.clear()
        return found


class TellingLogs(Logs):
    """The same for what is told of single trials; losses are in the updates."""

    def __init__(self, events: list[Event]) -> None:
        super().__init__()
        self.events = events

    def begin(self, trials: Sequence[Runnable], step: int) -> None:
        self.begun |= {trial.id for trial in trials}
        self.events.append(["begin", step])

    def losses(self, trials: Sequence[Runnable], step: int, losses: list[float]) -> None:
        del trials, step, losses

    def scores(self, trial: Runnable, rows: list[dict[str, Any]]) -> None:
        self.events.append(["scores", trial.id, rows])

    def end(self, trial: Runnable, diverged_at: int | None) -> None:
        self.events.append(["finished", trial.id, diverged_at])


def work(text: str, checkpoints: Mapping[str, bytes]) -> Iterator[Piece]:
    """Run a job; `checkpoints` are those that it goes on from, by name. An error of the caller's is an event."""
    job = Job.from_json(text)
    reporter = Telling()
    yield reporter.taken(["node", socket.gethostname(), os.getpid()]), {}
    try:
        with tempfile.TemporaryDirectory(prefix="posattn-") as folder:
            yield from _run(job, checkpoints, Store(folder), reporter)
    except PosattnError as error:
        yield reporter.taken(["error", str(error)]), {}


def _run(job: Job, checkpoints: Mapping[str, bytes], store: Store, reporter: Telling) -> Iterator[Piece]:
    if job.version != __version__:
        raise PosattnError(f"posattn {__version__} is installed there, and {job.version} here: install the same.")
    torch.set_num_threads(job.threads)
    _import(job)
    trials = job.read()
    some = [trial for trial in trials if batched(trial)]
    device = torch.device(job.device)
    if not some:
        engine = LocalEngine(device, job.checkpoint_every, job.together)
        left_out = engine.run(Plan(alone=tuple(trials)), store, reporter)
    else:
        folder = place(store.checkpoints, [trial.id for trial in some])
        folder.mkdir(parents=True)
        for name, content in checkpoints.items():
            (folder / name).write_bytes(content)
        given = (some, device, store, reporter, job.checkpoint_every, ())
        training = Training(*given, together=job.together, early_stop=early_stop_of(job.early_stop))
        sent = training.saved
        while training.advance():
            newest = {}
            if training.saved != sent:
                sent, path = training.saved, training.checkpoints.files()[-1]
                newest = {path.name: path.read_bytes()}
            if newest or reporter.events:
                yield reporter.taken(), newest
        left_out = training.left_out
    yield from _results(trials, store, reporter, left_out)


def _results(
    trials: Sequence[Runnable], store: Store, reporter: Telling, left_out: Mapping[str, str]
) -> Iterator[Piece]:
    """The files of every result, then all that is left to tell."""
    for start in range(0, len(trials), TOGETHER):
        files = {
            f"{trial.id}/{name}": path.read_bytes()
            for trial in trials[start : start + TOGETHER]
            for name in FILES
            if (path := store.path(trial) / name).is_file()
        }
        yield json.dumps([]), files
    yield reporter.taken(["done", dict(left_out)]), {}


@cache
def _plugin_folder() -> tempfile.TemporaryDirectory[str]:
    """Where users' files lie while this process lives: their text is read again to see whether a task has changed."""
    return tempfile.TemporaryDirectory(prefix="posattn-plugins-")


def _import(job: Job) -> None:
    """Make the user's tasks and kinds of trials known: his files, by their text, and modules by their names."""
    if job.folder and job.folder not in sys.path:
        sys.path.append(job.folder)
    for name, text in job.plugins.items():
        held = sys.modules.get(name)
        if held is None or getattr(held, "__text__", None) != text:
            path = Path(_plugin_folder().name, f"{name}.py")
            path.write_text(text)
            spec = importlib.util.spec_from_file_location(name, path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            module.__dict__["__text__"] = text
            sys.modules[name] = module
            spec.loader.exec_module(module)
    for name in job.modules:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise PosattnError(
                f"module '{name}' cannot be imported there ({error}): install it on every node, or keep the task in "
                "one file and name that, --plugin FILE."
            ) from None
