"""A fleet, or a trial by itself, on its way through the cluster: what its worker tells, and what becomes of it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from posattn.engine.cluster.writer import Writer
from posattn.engine.progress import Reporter
from posattn.errors import PosattnError
from posattn.train.fleet.grouping import batched
from posattn.train.runnable import Runnable

#: Losses of one task in a row, without a new checkpoint in between, after which it is given up.
LOSSES = 5


class Task:
    """Hears what a worker tells, piece by piece, and passes it on to the writer, the display and the logs."""

    def __init__(self, job: str, trials: Sequence[Runnable], writer: Writer, reporter: Reporter) -> None:
        self.job, self.trials, self.writer, self.reporter = job, tuple(trials), writer, reporter
        self.by_id = {trial.id: trial for trial in self.trials}
        self.number: int | None = None  # in the display
        self.node: str | None = None  # where it runs
        self.losses = 0
        self.done = False
        self.left_out: dict[str, str] = {}

    @property
    def is_fleet(self) -> bool:
        return batched(self.trials[0])

    def checkpoints(self) -> dict[str, bytes]:
        return self.writer.checkpoints(self.trials) if self.is_fleet else {}

    def take(self, text: str, files: Mapping[str, bytes]) -> None:
        """One piece: its files first, so that what is told as finished is in the store."""
        results: dict[str, dict[str, bytes]] = {}
        newest: dict[str, bytes] = {}
        for name, content in files.items():
            trial, slash, file = name.partition("/")
            if slash:
                results.setdefault(trial, {})[file] = content
            else:
                newest[name] = content
        if newest:
            self.writer.checkpoint(self.trials, newest)
            self.losses = 0
        for trial, held in results.items():
            self.writer.result(self.by_id[trial], held, self.node or "")
        for kind, *about in json.loads(text):
            getattr(self, f"_on_{kind}")(*about)

    def lost(self, reason: str) -> None:
        """Its worker or its node is gone: it begins again, at the last checkpoint that was sent."""
        self._on_end()
        where, self.node = self.node, None
        self.losses += 1
        if self.losses >= LOSSES:
            last = "before it began" if where is None else f"on {where}"
            raise PosattnError(
                f"{self.trials[0].title} was lost {self.losses} times in a row, the last time {last}: {reason} "
                "Look at Ray's logs there; often the memory was not enough. What was finished is kept."
            )
        how = "before it began" if where is None else f"with its worker on {where}"
        self.reporter.say(
            f"{self.trials[0].title} was lost {how}: it begins again where there is room, from its last checkpoint."
        )

    # ---- what a worker tells

    def _on_node(self, name: str, process: int) -> None:
        del process
        self.node = name

    def _on_start(self, title: str, steps: int, done: int) -> None:
        self.number = self.reporter.start(f"{title}, {self.node}", steps, done)

    def _on_update(self, step: int, losses: list[float]) -> None:
        if self.number is not None:
            self.reporter.update(self.number, step, losses)
        self.reporter.logs.losses(self.trials, step, losses)

    def _on_end(self) -> None:
        if self.number is not None:
            self.reporter.end(self.number)
        self.number = None

    def _on_say(self, message: str) -> None:
        self.reporter.say(f"{self.node}: {message}")

    def _on_begin(self, step: int) -> None:
        self.reporter.logs.begin(self.trials, step)

    def _on_scores(self, trial: str, rows: list[dict[str, Any]]) -> None:
        self.reporter.logs.scores(self.by_id[trial], rows)

    def _on_finished(self, trial: str, diverged_at: int | None) -> None:
        self.reporter.logs.end(self.by_id[trial], diverged_at)

    def _on_error(self, message: str) -> None:
        raise PosattnError(f"{self.node}: {message}")

    def _on_done(self, left_out: dict[str, str]) -> None:
        self.done, self.left_out = True, left_out
        self._on_end()
        if self.is_fleet:
            self.writer.ended(self.trials)
