"""What a study shows beside trained models without training it: compiled programs, closed forms."""

import dataclasses
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from posattn.train import identity
from posattn.train.runnable import Outcome, Report, Runnable, execute


@dataclass(frozen=True, kw_only=True)
class Computed(Runnable):
    """A trial whose scores are computed: a frozen dataclass, kept in the store like any other trial."""

    trained: ClassVar[bool] = False
    verb: ClassVar[str] = "computing"
    kind: ClassVar[str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "kind" in cls.__dict__:
            identity.register(cls)

    @property
    def title(self) -> str:
        return self.kind

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

    def seeded(self, seed: int) -> "Computed":
        return self

    @abstractmethod
    def scores(self) -> list[dict[str, Any]]:
        """One entry with set, step, loss and metric for every score."""


@execute.register
def _(trial: Computed, *, device: torch.device, report: Report) -> Outcome:
    return Outcome(scores=trial.scores())
