"""What every trial has in common, whether a fleet trains it, a language model reads it or a formula computes it.

A kind of trial is a frozen dataclass derived from `Runnable`, which says what is to be done, and a function that does
it, registered as `execute` beside the code that it needs:

    @execute.register
    def _(trial: Mine, *, device: torch.device, report: Report) -> Outcome: …

Engines, stores, studies and reports ask a trial nothing else, so a new kind needs no change there.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, singledispatch
from typing import Any, ClassVar, NamedTuple

import torch

from posattn.errors import PosattnError, kind_of
from posattn.nn import Architecture
from posattn.nn.initial_weights import Params
from posattn.train import identity
from posattn.train.sample_options import TestSets

#: Hears of every step: its number, and the losses of the replicas.
Report = Callable[[int, list[float]], None]


class TaskSource(NamedTuple):
    """What of a trial is a user's own: in words, and a hash of what it computes (`posattn.train.task_hash`)."""

    what: str
    hash: str


class Runnable(ABC):
    """A description of one run: a value, with an id that is the same on every machine."""

    #: Whether something is learned. What is computed is drawn otherwise in figures, and cannot diverge.
    trained: ClassVar[bool] = True
    #: What is done to it, as messages say it.
    verb: ClassVar[str] = "training"
    #: Whether those of one shape train as one fleet (`posattn.train.fleet`); the others run by themselves.
    batched: ClassVar[bool] = False

    @cached_property
    def id(self) -> str:
        """Sixteen hex digits, equal for equal trials: of the hash of what differs from the defaults, as JSON."""
        text = identity.dumps({"schema": identity.SCHEMA} | self.differing())
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def differing(self) -> dict[str, Any]:
        """The fields that are not as their defaults are."""
        return identity.reduced(self)

    @abstractmethod
    def to_json(self) -> str: ...

    @classmethod
    @abstractmethod
    def from_json(cls, text: str | bytes) -> "Runnable": ...

    @abstractmethod
    def seeded(self, seed: int) -> "Runnable":
        """The same for another seed; where chance has no part, it is the same for all."""

    @cached_property
    @abstractmethod
    def test_sets(self) -> TestSets:
        """What it is scored on, each set with all options that it is drawn with."""

    @property
    @abstractmethod
    def title(self) -> str:
        """What a progress bar calls it."""

    @property
    def shown_steps(self) -> int:
        """How many steps a progress bar counts; 0 where none is worth showing."""
        return 0

    @property
    def architecture(self) -> Architecture | None:
        """What the weights that are kept belong to; None where none are."""
        return None

    @property
    def needs(self) -> str | None:
        """The pretrained model that has to be at hand, by name or folder; trials that need one may be left out."""
        return None

    @property
    def task_source(self) -> TaskSource | None:
        """The task, and the module, where they are a user's own, as they are now, so that a change is noticed."""
        return None


class Unreachable(PosattnError):  # noqa: N818 (it is where the model lies that is wrong, not a value)
    """What a trial needs cannot be had here; the others go on."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came out of a trial: a row with set, step, loss and metric for every score, and the weights, if any."""

    scores: list[dict[str, Any]]
    weights: Params | None = None
    diverged_at: int | None = None


@singledispatch
def execute(trial: Runnable, *, device: torch.device, report: Report) -> Outcome:
    """Run one trial, by itself."""
    raise PosattnError(
        f"trial is {kind_of(trial)}, and nothing says how to run one: register a function, @execute.register of "
        "posattn.train.runnable."
    )
