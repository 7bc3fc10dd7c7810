"""How a long run shows that it is alive: a bar for people, lines of JSON for programs, nothing for a log file."""

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
    """What a run tells: that a fleet starts, where it stands, and anything worth a line."""

    @abstractmethod
    def start(self, title: str, steps: int, done: int) -> None: ...

    @abstractmethod
    def update(self, step: int, losses: list[float]) -> None: ...

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
        self.task: TaskID | None = None
        self.began = (0.0, 0)

    def start(self, title: str, steps: int, done: int) -> None:
        if self.task is not None:
            self.progress.remove_task(self.task)
        self.began = (time.monotonic(), done)
        self.task = self.progress.add_task(title, total=steps, completed=done, rate="", loss="")

    def update(self, step: int, losses: list[float]) -> None:
        assert self.task is not None
        spent = time.monotonic() - self.began[0]
        rate = f"{(step - self.began[1]) / spent:.0f}/s" if spent > 0 else ""
        self.progress.update(self.task, completed=step, rate=rate, loss=summary(losses))

    def say(self, message: str) -> None:
        self.console.print(message, highlight=False, markup=False, soft_wrap=True)

    def __enter__(self) -> Reporter:
        self.progress.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.progress.stop()


class Lines(Reporter):
    """One line of JSON for every event, on standard output."""

    def start(self, title: str, steps: int, done: int) -> None:
        self._print(event="start", fleet=title, steps=steps, step=done)

    def update(self, step: int, losses: list[float]) -> None:
        self._print(event="progress", step=step, losses=[loss if math.isfinite(loss) else None for loss in losses])

    def say(self, message: str) -> None:
        self._print(event="message", message=message)

    def _print(self, **event: Any) -> None:
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()

    def __enter__(self) -> Reporter:
        return self

    def __exit__(self, *_: Any) -> None:
        return None
