"""What came out of a sweep: every setting of every case, judged by the median over seeds of its validation losses."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from posattn.studies.core.case import Case
from posattn.studies.sweep.request import Request
from posattn.studies.sweep.space import Setting


@dataclass(frozen=True, kw_only=True)
class Tried:
    """One setting of one case. `path` has the medians on the way, by step; `losses` are those at the last step.

    One that was stopped early has no losses at its last step, and is never the best.
    """

    case: Case  # as the study has it
    setting: Setting
    losses: tuple[float, ...] = ()
    path: Mapping[int, float] = field(default_factory=dict)
    stopped: int | None = None  # the step at which its fleet was stopped
    diverged: int = 0  # how many of its seeds

    @property
    def median(self) -> float:
        """What it is judged by. A stopped one is told to a search as it was when it was stopped."""
        if self.stopped is not None:
            return self.path.get(self.stopped, math.inf)
        return statistics.median(self.losses)


def best(tried: Sequence[Tried]) -> Tried | None:
    """The finished setting with the lowest median, the first of equals; None where none has a finite one."""
    whole = [one for one in tried if one.stopped is None and math.isfinite(one.median)]
    return min(whole, key=lambda one: one.median, default=None)


def limits(before: Sequence[Tried], *, least: int) -> dict[int, float]:
    """By step, the median of the medians of all settings before, once there are `least` of them."""
    steps = sorted({step for one in before for step in one.path})
    reached = {step: [one.path[step] for one in before if step in one.path] for step in steps}
    return {step: statistics.median(some) for step, some in reached.items() if len(some) >= least}


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A sweep as it was asked for, and every setting of every case."""

    request: Request
    tried: tuple[Tried, ...]

    @property
    def cases(self) -> list[Case]:
        """Those that have one of the fields."""
        return list({id(one.case): one.case for one in self.tried}.values())

    def of(self, case: Case) -> list[Tried]:
        return [one for one in self.tried if one.case is case]

    def best(self, case: Case) -> Tried | None:
        return best(self.of(case))
