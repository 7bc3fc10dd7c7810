"""What a step of a proof found, and how long it may look."""

import time
from enum import StrEnum
from typing import NamedTuple


class Outcome(StrEnum):
    """Whether a claim was shown, shown to be false, or left undecided."""

    STANDS = "stands"
    REFUTED = "refuted"
    OPEN = "open"
    ABSENT = "absent"  # there is nothing to show, as without a specification


class Finding(NamedTuple):
    """The outcome of one step: what was shown, for which inputs, by what."""

    outcome: Outcome
    claim: str
    inputs: str
    by: str
    detail: str = ""  # the first counterexample, or why a step is open


class OutOfTime(Exception):  # noqa: N818 (a state of the search, not an error)
    """A step's time is over, and the step is open."""


class TimeLimit:
    """How long a step may take, counted from now on; None: as long as it needs."""

    def __init__(self, seconds: float | None = None) -> None:
        self.end = None if seconds is None else time.monotonic() + seconds

    def check(self) -> None:
        """Raise where the time is over. Loops call it once per turn."""
        if self.end is not None and time.monotonic() > self.end:
            raise OutOfTime

    def milliseconds(self) -> int:
        """What is left, for a solver; a little over an hour where there is no limit."""
        self.check()
        return 1 << 22 if self.end is None else max(1, round(1000 * (self.end - time.monotonic())))
