"""What a study shows beside trained models without training it: compiled programs, closed forms."""

import dataclasses
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from posattn.engine import Store
from posattn.train import identity
from posattn.version import __version__


@dataclass(frozen=True, kw_only=True)
class Computed(ABC):
    """A trial whose scores are computed: a frozen dataclass, kept in the store like any other trial."""

    kind: ClassVar[str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "kind" in cls.__dict__:
            identity.register(cls)

    @property
    def id(self) -> str:
        return identity.identify(identity.reduced(self))

    @property
    def labels(self) -> dict[str, Any]:
        """What tables show of it besides its fields. `optimiser.steps` is the step of the last scores."""
        return {"optimiser": {"steps": 0}}

    def to_json(self) -> str:
        return identity.dumps({"schema": identity.SCHEMA} | self.labels | identity.described(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> "Computed":
        _, held = identity.loads(text)
        fields = [field.name for field in dataclasses.fields(cls)]
        try:
            found = cls(**{name: held[name] for name in fields if name in held})
            identity.check_known(held, found.to_json())
        except (TypeError, KeyError) as error:
            raise identity.no_trial(text, error) from None
        return found

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
    about = {"device": "cpu", "fleet": 1, "seconds": 0.0, "version": __version__, "torch": torch.__version__}
    found = {"scores": trial.scores(), "diverged_at": None}
    store.write(trial, None, found | json.loads(json.dumps(about, default=str)))
