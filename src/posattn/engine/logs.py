"""Where a run writes down how its trials come along: losses while they train, scores when they are tested.

    class Mine(posattn.engine.Log):
        def loss(self, trial, step, loss):
            print(trial.id, step, loss)

    posattn.engine.run(trials, log=[Mine()])

A log takes note of what it overrides. `LOGS["mine"] = Mine` makes it `--log mine:TARGET` on the command line, with the
target as its only argument. A log that fails is left out from there on, and the training goes on.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any

from posattn import checks
from posattn.errors import PosattnError, require, unknown
from posattn.train.runnable import Runnable


class Log:
    """Hears what happens to each trial. Override what you need; nothing here does anything."""

    def begin(self, trial: Runnable, step: int) -> None:
        """A trial begins, or goes on after `step`: later steps that were logged before are taken again."""

    def loss(self, trial: Runnable, step: int, loss: float) -> None:
        """The loss of one batch, about twice a second; it may be NaN or infinite."""

    def scores(self, trial: Runnable, step: int, rows: list[dict[str, Any]]) -> None:
        """A row with set, loss and metric for every test set; None where one is not finite."""

    def end(self, trial: Runnable, diverged_at: int | None) -> None:
        """A trial is finished, and its result is in the store."""

    def close(self) -> None:
        """The run is over, or was interrupted."""


#: Logs by the name that they have on the command line; each is made from a target, as --log NAME:TARGET.
LOGS: dict[str, Callable[[str], Log]] = {}


def log_to(text: str) -> Log:
    """The log that --log names: FILE for lines of JSON, or NAME:TARGET for another one of `LOGS`."""
    name, colon, target = checks.text("log", text).partition(":")
    if not colon:
        name, target = "jsonl", text
    if name not in LOGS:
        further = "For another one, derive from posattn.engine.Log and enter it in posattn.engine.LOGS."
        raise PosattnError(f"log {text!r}: {unknown('log', name, LOGS)} Write NAME:TARGET, or a file's name. {further}")
    require(target != "", f"log {text!r}: a target is missing. Write where to, as {name}:runs/log.")
    return LOGS[name](target)


class Logs:
    """Several logs as one, for an engine, which finds it as `reporter.logs`."""

    def __init__(self, logs: Iterable[Log] = (), say: Callable[[str], None] = print) -> None:
        self.logs, self.say = list(logs), say
        self.begun: set[str] = set()
        self.ended: set[str] = set()

    def begin(self, trials: Sequence[Runnable], step: int) -> None:
        self.begun |= {trial.id for trial in trials}
        for trial in trials:
            self._tell("begin", trial, step)

    def losses(self, trials: Sequence[Runnable], step: int, losses: list[float]) -> None:
        """Those of a fleet, in the order of its trials."""
        for trial, loss in zip(trials, losses, strict=True):
            self._tell("loss", trial, step, loss)

    def scores(self, trial: Runnable, rows: list[dict[str, Any]]) -> None:
        """Rows as results keep them, of one step or of several."""
        for step, some in groupby(rows, key=lambda row: row["step"]):
            self._tell("scores", trial, step, [{key: row[key] for key in ("set", "loss", "metric")} for row in some])

    def end(self, trial: Runnable, diverged_at: int | None) -> None:
        self.ended.add(trial.id)
        self._tell("end", trial, diverged_at)

    def result(self, trial: Runnable, rows: list[dict[str, Any]], diverged_at: int | None) -> None:
        """All of a finished trial at once, for an engine that does not say how trials come along."""
        if trial.id not in self.begun:
            self.begin([trial], 0)
        self.scores(trial, rows)
        self.end(trial, diverged_at)

    def close(self) -> None:
        self._tell("close")

    def _tell(self, event: str, *about: Any) -> None:
        for log in tuple(self.logs):
            try:
                getattr(log, event)(*about)
            except Exception as error:  # whatever a log does, the training is worth more
                self.logs.remove(log)
                self.say(f"{type(log).__name__} failed ({type(error).__name__}: {error}): it logs nothing more.")
