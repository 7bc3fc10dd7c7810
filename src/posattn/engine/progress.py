"""How a long run shows that it is alive: a bar for people, a line now and then for a log file, JSON for programs."""

import itertools
import json
import math
import sys
import time
from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from posattn.engine.logs import Logs

#: Seconds between two lines where there is no terminal.
LINE_EVERY = 30.0


class Reporter(AbstractContextManager["Reporter"]):
    """What a run tells: that a fleet starts, where it stands, that it ended, and anything worth a line."""

    #: Where the losses and scores of single trials go; `posattn.engine.run` fills it in.
    logs: Logs = Logs()

    @abstractmethod
    def start(self, title: str, steps: int, done: int) -> int:
        """The number under which the fleet is spoken of from here on: several may be on their way."""

    @abstractmethod
    def update(self, number: int, step: int, losses: list[float]) -> None: ...

    @abstractmethod
    def end(self, number: int) -> None: ...

    @abstractmethod
    def say(self, message: str) -> None: ...


def summary(losses: list[float]) -> str:
    """Median and range of the replicas' losses; those that are no longer finite are counted."""
    finite = sorted(loss for loss in losses if math.isfinite(loss))
    lost = f", {len(losses) - len(finite)} diverged" if len(finite) < len(losses) else ""
    if not finite:
        return f"no finite loss{lost}"
    return f"loss {finite[len(finite) // 2]:.2e} ({finite[0]:.1e} … {finite[-1]:.1e}){lost}"


class _Shrinking(ProgressColumn):
    """Text that is cut where the terminal is too narrow, so that steps and times stay whole."""

    def __init__(self, field: str | None = None) -> None:
        super().__init__(table_column=Column(no_wrap=False))  # columns that may wrap are those that rich narrows
        self.field = field

    def render(self, task: Task) -> Text:
        text = task.description if self.field is None else task.fields[self.field]
        return Text(text, no_wrap=True, overflow="ellipsis")  # as it is: it may hold a folder's name


class Bar(Reporter):
    """A rich progress bar with steps, rate, times taken and left, and the loss over replicas.

    Without a terminal it is a plain line every 30 seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.console, self.clock = Console(stderr=True), clock
        self.progress = Progress(
            _Shrinking(),
            BarColumn(bar_width=max(5, min(40, self.console.width - 110))),
            TextColumn("{task.completed:.0f}/{task.total:.0f} steps"),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(table_column=Column(no_wrap=True)),
            TimeRemainingColumn(table_column=Column(no_wrap=True)),
            _Shrinking("loss"),
            console=self.console,
            disable=not self.console.is_terminal,
            get_time=clock,
        )
        self.began: dict[int, tuple[str, float, int]] = {}
        self.ended: list[int] = []
        self.said = clock()

    def start(self, title: str, steps: int, done: int) -> int:
        while self.ended:  # their bars stay until another one takes their place
            over = self.ended.pop()
            self.progress.remove_task(TaskID(over))
            del self.began[over]
        number = self.progress.add_task(title, total=steps, completed=done, rate="", loss="")
        self.began[number] = (title, self.clock(), done)
        return number

    def update(self, number: int, step: int, losses: list[float]) -> None:
        title, began, done = self.began[number]
        spent = self.clock() - began
        rate = f"{(step - done) / spent:.0f}/s" if spent > 0 else ""
        self.progress.update(TaskID(number), completed=step, rate=rate, loss=summary(losses))
        if not self.console.is_terminal and self.clock() - self.said >= LINE_EVERY:
            self.said = self.clock()
            total = self.progress.tasks[self.progress.task_ids.index(TaskID(number))].total or 0
            left = f", {_time(spent * (total - step) / (step - done))} left" if step > done else ""
            others = len(self.began) - len(self.ended) - 1
            beside = f"; {others} more beside it" if others else ""
            self.say(f"{title}: step {step} of {total:.0f}, {_time(spent)} taken{left}, {summary(losses)}{beside}")

    def end(self, number: int) -> None:
        self.ended.append(number)

    def say(self, message: str) -> None:
        self.console.print(message, highlight=False, markup=False, soft_wrap=True)

    def __enter__(self) -> Reporter:
        self.progress.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.progress.stop()


def _time(seconds: float) -> str:
    """3:07:45"""
    return str(timedelta(seconds=round(seconds)))


class Lines(Reporter):
    """One line of JSON for every event, on standard output."""

    def __init__(self) -> None:
        self.numbers = itertools.count()

    def start(self, title: str, steps: int, done: int) -> int:
        number = next(self.numbers)
        self._print(event="start", number=number, fleet=title, steps=steps, step=done)
        return number

    def update(self, number: int, step: int, losses: list[float]) -> None:
        finite = [loss if math.isfinite(loss) else None for loss in losses]
        self._print(event="progress", number=number, step=step, losses=finite)

    def end(self, number: int) -> None:
        self._print(event="end", number=number)

    def say(self, message: str) -> None:
        self._print(event="message", message=message)

    def _print(self, **event: Any) -> None:
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()

    def __enter__(self) -> Reporter:
        return self

    def __exit__(self, *_: Any) -> None:
        return None
