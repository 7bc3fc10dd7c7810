"""Ctrl-C during a run: the step ends first, a checkpoint is written, and the message says how to go on."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, after a checkpoint was written. Says how to go on."""


class Stop:
    """Whether Ctrl-C was pressed. A second one stops at once."""

    def __init__(self) -> None:
        self.asked = False
        self.heard = True

    def __call__(self, *_: Any) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def listen(self) -> Any:
        """Take Ctrl-C over, again if need be: Triton's compiler has the signal end the process instead."""
        return signal.signal(signal.SIGINT, self) if self.heard else None


@contextmanager
def interruptible() -> Iterator[Stop]:
    """Let a step end before Ctrl-C takes effect: a checkpoint of half a step would be worth nothing."""
    stop = Stop()
    try:
        before = stop.listen()
    except ValueError:  # only the main thread may set a handler; elsewhere Ctrl-C never arrives anyway
        stop.heard = False
        yield stop
        return
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler if before is None else before)
