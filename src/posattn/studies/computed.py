"""What a study shows beside trained models without training it: compiled programs, closed forms."""

import hashlib
import json
from abc import ABC, abstractmethod
from typing import Any

import torch

import posattn
from posattn.engine import Store


class Computed(ABC):
    """A trial whose scores are computed. Kept in the store like any other, under a hash of its description."""

    @property
    def id(self) -> str:
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    @abstractmethod
    def to_json(self) -> str:
        """Canonical: equal trials give equal text. `optimiser.steps` is the step of the last scores."""

    @property
    @abstractmethod
    def test_sets(self) -> list[str]:
        """The names of its scores."""

    def seeded(self, seed: int) -> "Computed":
        """The one for a seed; where chance has no part, it is the same for all."""
        return self

    @abstractmethod
    def scores(self) -> list[dict[str, Any]]:
        """One entry with set, step, loss and metric for every score."""


def evaluate(trial: Computed, store: Store) -> None:
    """Compute a trial's scores and keep them, where the store does not hold them yet."""
    store.prepare()
    if store.finished(trial):
        return
    about = {"device": "cpu", "fleet": 1, "seconds": 0.0, "version": posattn.__version__, "torch": torch.__version__}
    found = {"scores": trial.scores(), "diverged_at": None}
    store.write(trial, None, found | json.loads(json.dumps(about, default=str)))
