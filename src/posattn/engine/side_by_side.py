"""Fleets that take turns on one device, and what happens where its memory is not enough for all of them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import torch

from posattn.engine.interrupt import Interrupted, Stop
from posattn.engine.training import Training

T = TypeVar("T")


def if_there_is_room(work: Callable[[], T]) -> T | None:
    """What `work` gives, or nothing where the device's memory is not enough; what it had taken is free again then."""
    try:
        return work()
    except torch.OutOfMemoryError:
        return None


@dataclass
class SideBySide:
    """Fleets that take turns, a step each. On a GPU their kernels overlap: one small fleet alone leaves it idle."""

    most: int
    stopping: Stop
    active: list[Training] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)  # trials that were stopped early, and why

    def begin(self, make: Callable[[], Training]) -> None:
        """Take one more in, and train until the next one would have a place."""
        self.stopping.listen()
        training = if_there_is_room(make) if self.active else make()
        if training is None:
            self.finish()
            training = make()
        self.active.append(training)
        for training in self.active:
            training.beside = max(training.beside, len(self.active))
        self._turn()  # its first step takes most of its memory, and what comes next is planned with the rest
        while len(self.active) >= self.most:
            self._turn()

    def finish(self) -> None:
        """Train all of them to their end."""
        while self.active:
            self._turn()

    def _turn(self) -> None:
        for training in tuple(self.active):
            if training in self.active:  # not where it has ended so that another one had room
                self._advance(training)
        if self.stopping.asked is not None and self.active:
            for training in self.active:
                training.save()
            first, others = self.active[0].fleet, len(self.active) - 1
            more = f", and {others} more fleet{'s' if others > 1 else ''} beside it" if others else ""
            raise Interrupted(
                f"stopped at step {first.step} of {first.steps}{more}. Run the same command again to go on from there.",
                self.stopping.asked,
            )

    def _advance(self, training: Training) -> None:
        """A step of one fleet; where the memory is not enough for that, after the others have ended."""
        alone = len(self.active) == 1
        more = training.advance() if alone else if_there_is_room(training.advance)
        if more is None:
            training.save()
            self.active.remove(training)
            self.finish()
            self.active.append(training)
            more = training.advance()
        if not more:
            self.active.remove(training)
            self.left_out |= training.left_out
        self.stopping.listen()
