"""A log of one JSON object per line, appended and flushed event by event.

    {"event": "begin", "trial": "3f2a…", "step": 0, "title": "positional on sum", "description": {…}, "time": …}
    {"event": "loss", "trial": "3f2a…", "step": 120, "loss": 0.031, "time": …}
    {"event": "scores", "trial": "3f2a…", "step": 500, "scores": [{"set": "c=1", "loss": …, "metric": …}], "time": …}
    {"event": "end", "trial": "3f2a…", "diverged_at": null, "time": …}

A trial that goes on after an interruption begins again with its step. It takes the steps since its last checkpoint once
more, and those that the file has of it already are not written again: no step stands there twice. A `begin` at step 0
starts over; what the file has of the trial before that is of an earlier run.
"""

import json
import math
import os
import time
from contextlib import suppress
from typing import Any, TextIO

from posattn import checks
from posattn.engine.logs import LOGS, Log
from posattn.errors import require
from posattn.train.runnable import Runnable


class JsonLines(Log):
    """Appends to a file, which is made at the first event."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = checks.path("path", path)
        folder = self.path.parent
        require(folder.is_dir(), f"log '{path}': there is no folder '{folder}'. Make it first, or name another file.")
        require(not self.path.is_dir(), f"log '{path}' is a folder: name a file in it, as {self.path}/run.jsonl.")
        writable = os.access(self.path if self.path.exists() else folder, os.W_OK)
        require(writable, f"log '{path}' cannot be written: check its permissions, or name another file.")
        self.file: TextIO | None = None
        self.held: dict[tuple[str, str], int] = {}  # the last step that the file has, by trial and event

    def begin(self, trial: Runnable, step: int) -> None:
        self._opened()
        if step == 0:
            self.held = {key: last for key, last in self.held.items() if key[0] != trial.id}
        described = json.loads(trial.to_json())
        self._write("begin", trial, step=step, title=trial.title, description=described)

    def loss(self, trial: Runnable, step: int, loss: float) -> None:
        if self._is_new("loss", trial, step):
            self._write("loss", trial, step=step, loss=loss if math.isfinite(loss) else None)

    def scores(self, trial: Runnable, step: int, rows: list[dict[str, Any]]) -> None:
        if self._is_new("scores", trial, step):
            self._write("scores", trial, step=step, scores=rows)

    def end(self, trial: Runnable, diverged_at: int | None) -> None:
        self._write("end", trial, diverged_at=diverged_at)

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None

    def _is_new(self, event: str, trial: Runnable, step: int) -> bool:
        key = trial.id, event
        if step <= self.held.get(key, -1):
            return False
        self.held[key] = step
        return True

    def _opened(self) -> TextIO:
        if self.file is None:
            whole = self._read()
            self.file = self.path.open("a", encoding="utf-8")
            if not whole:  # a process was ended in the middle of a line
                self.file.write("\n")
        return self.file

    def _read(self) -> bool:
        """Take note of the steps that the file has; whether its last line is whole."""
        if not self.path.is_file():
            return True
        text = self.path.read_text(encoding="utf-8", errors="replace")
        for line in text.splitlines():
            with suppress(ValueError, TypeError, KeyError, AttributeError):  # not ours, or cut short
                event = json.loads(line)
                if event["event"] == "begin" and event["step"] == 0:
                    self.held = {key: last for key, last in self.held.items() if key[0] != event["trial"]}
                elif event["event"] in ("loss", "scores"):
                    self.held[event["trial"], event["event"]] = int(event["step"])
        return text.endswith("\n") or not text

    def _write(self, event: str, trial: Runnable, **about: Any) -> None:
        file = self._opened()
        line = {"event": event, "trial": trial.id} | about | {"time": round(time.time(), 3)}
        file.write(json.dumps(line) + "\n")
        file.flush()


LOGS["jsonl"] = JsonLines
