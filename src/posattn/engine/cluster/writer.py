"""The one writer: what workers send goes into the store from this process alone, whatever the disk says meanwhile."""

import json
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from posattn.engine.progress import Reporter
from posattn.engine.store import Store
from posattn.errors import NoSpace
from posattn.train.fleet.checkpoint import announce, forget, place, receive
from posattn.train.runnable import Runnable
from posattn.train.trial import Trial

#: Seconds between two attempts to write where there is no space.
WAIT = 5.0


class Writer:
    """Results and checkpoints on their way into a store. What does not fit the disk waits here, in memory."""

    def __init__(self, store: Store, replaced: Collection[str], reporter: Reporter) -> None:
        self.store, self.replaced, self.reporter = store, set(replaced), reporter
        self.waiting: list[tuple[Runnable, dict[str, bytes]]] = []
        self.again = 0.0  # when to try next
        self.over: list[Path] = []  # fleets that have ended, and whose results may wait
        self.unwritten: dict[Path, dict[str, bytes]] = {}  # the newest checkpoint of fleets, where there was no space

    def place(self, trials: Sequence[Runnable]) -> Path:
        return place(self.store.checkpoints, [trial.id for trial in trials])

    def announce(self, trials: Sequence[Trial]) -> None:
        """Say, before anything runs, which trials make a fleet: after a restart it is put together as it was."""
        sources = {trial.id: source.hash for trial in trials if (source := trial.task_source) is not None}
        announce(self.place(trials), trials, sources)

    def result(self, trial: Runnable, files: Mapping[str, bytes], host: str) -> None:
        """Keep a result, and say where it was made. A trial that is in the store already is left as it is."""
        made = json.loads(files["metrics.json"]) | {"host": host}
        self.waiting.append((trial, {**files, "metrics.json": json.dumps(made).encode()}))
        if len(self.waiting) == 1:
            self.flush()

    def flush(self, *, now: bool = True) -> bool:
        """Write what waits; whether nothing waits any more. Not `now`: only where the time for another try has come."""
        if self.waiting and not now and time.monotonic() < self.again:
            return False
        before = len(self.waiting)
        while self.waiting:
            trial, files = self.waiting[0]
            try:
                if trial.id in self.replaced or not self.store.finished(trial):
                    self.store.receive(trial, files)
            except NoSpace as error:
                if not self.again:
                    self.reporter.say(f"{error} Results wait in memory, and are written as soon as there is space.")
                self.again = time.monotonic() + WAIT
                return False
            self.replaced.discard(trial.id)
            self.waiting.pop(0)
        if self.again and before:
            self.reporter.say("there is space again: all results are written.")
            self.again = 0.0
        while self.over:
            forget(self.over.pop())
        return True

    def checkpoint(self, trials: Sequence[Runnable], files: Mapping[str, bytes]) -> None:
        """Keep a checkpoint; without space for it, its fleet goes on from memory if it has to."""
        folder = self.place(trials)
        try:
            for name, content in files.items():
                receive(folder, name, content)
            self.unwritten.pop(folder, None)
        except NoSpace:
            self.unwritten[folder] = dict(files)

    def checkpoints(self, trials: Sequence[Runnable]) -> dict[str, bytes]:
        """What a fleet can go on from, by name."""
        folder = self.place(trials)
        written = {path.name: path.read_bytes() for path in sorted(folder.glob("*.safetensors"))}
        return written | self.unwritten.get(folder, {})

    def ended(self, trials: Sequence[Runnable]) -> None:
        """Forget the checkpoints of a fleet as soon as its results are all written."""
        self.unwritten.pop(self.place(trials), None)
        self.over.append(self.place(trials))
        self.flush(now=False)
