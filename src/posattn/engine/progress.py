"""How a long run shows that it is alive: a bar for people, lines of JSON for programs, nothing for a log file."""

import itertools
import json
import math
import sys
import time
from abc import abstractmethod
from contextlib import AbstractContextManager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Reporter(AbstractContextManager["Reporter"]):
    """What a run tells: that a fleet starts, where it stands, that it ended, and anything worth a line."""

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


class Bar(Reporter):
    """A rich progress bar with steps, rate, time left and the loss over replicas; quiet when not on a terminal."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)
        self.progress = Progress(
            TextColumn("{task.description}", markup=False),  # it may hold a folder's name
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f} steps"),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[loss]}"),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.began: dict[int, tuple[float, int]] = {}
        self.ended: list[int] = []

    def start(self, title: str, steps: int, done: int) -> int:
        while self.ended:  # their bars stay until another one takes their place
            self.progress.remove_task(TaskID(self.ended.pop()))
        number = self.progress.add_task(title, total=steps, completed=done, rate="", loss="")
        self.began[number] = (time.monotonic(), done)
        return number

    def update(self, number: int, step: int, losses: list[float]) -> None:
        began, done = self.began[number]
        spent = time.monotonic() - began
        rate = f"{(step - done) / spent:.0f}/s" if spent > 0 else ""
        self.progress.update(TaskID(number), completed=step, rate=rate, loss=summary(losses))

    def end(self, number: int) -> None:
        self.ended.append(number)

    def say(self, message: str) -> None:
        self.console.print(message, highlight=False, markup=False, soft_wrap=True)

    def __enter__(self) -> Reporter:
        self.progress.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.progress.stop()


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
