"""Ctrl-C and SIGTERM during a run: the step ends first, a checkpoint is written, and the message says how to go on.

Batch systems send SIGTERM some seconds before they end a job for good.
"""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)

#: A signal so soon after the first one repeats it: batch systems send one to a job's every process, and the shell
#: among them passes it on.
REPEAT_SECONDS = 1.0


class Interrupted(KeyboardInterrupt):
    """Ctrl-C or SIGTERM, after a checkpoint was written. Says how to go on, and which signal it was."""

    def __init__(self, message: str, number: int = signal.SIGINT) -> None:
        super().__init__(message)
        self.signal = int(number)

    @property
    def exit_code(self) -> int:
        """What shells report of a process that a signal ended: 130 for Ctrl-C, 143 for SIGTERM."""
        return 128 + self.signal


@dataclass
class Stop:
    """Which signal asked for an end, if one did. Another one later than `REPEAT_SECONDS` stops at once."""

    asked: int | None = None
    asked_at: float = 0.0
    heard: bool = True

    def __call__(self, number: int, *_: Any) -> None:
        if self.asked is None:
            self.asked, self.asked_at = number, time.monotonic()
        elif time.monotonic() - self.asked_at > REPEAT_SECONDS:
            raise Interrupted("stopped at once, without a checkpoint of the last steps.", self.asked)

    def listen(self) -> list[Any]:
        """Take the signals over, again if need be: Triton's compiler has them end the process instead."""
        return [signal.signal(number, self) for number in SIGNALS] if self.heard else []


@contextmanager
def interruptible() -> Iterator[Stop]:
    """Let a step end before a signal takes effect: a checkpoint of half a step would be worth nothing."""
    stop = Stop()
    try:
        before = stop.listen()
    except ValueError:  # only the main thread may set a handler; elsewhere signals never arrive anyway
        stop.heard = False
        yield stop
        return
    try:
        yield stop
    finally:
        for number, handler in zip(SIGNALS, before, strict=True):
            usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, usual if handler is None else handler)


@contextmanager
def terminable() -> Iterator[None]:
    """Have SIGTERM stop what is done here as Ctrl-C does, at once."""

    def stop(number: int, *_: Any) -> None:
        raise Interrupted("stopped.", number)

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)
