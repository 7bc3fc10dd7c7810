"""What describes a model completely, except for its weights."""

import dataclasses
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from posattn.checks import choice
from posattn.errors import NoSuchField, PosattnError, require, unknown
from posattn.nn.initial_weights import Init, Params

#: Metadata of a field that came later than files that are read: it is written where it is not at its default.
LATER = {"later": True}
ARCHITECTURES: dict[str, type["Architecture"]] = {}


@dataclass(frozen=True, kw_only=True)
class Architecture(ABC):
    """Sizes and choices of a model, and its first weights.

    A frozen dataclass: equal fields are the same architecture, in a file, in a trial and in memory.
    """

    kind: ClassVar[str]
    #: Whether its module is a user's own, so that even its shapes are known only to code that has to be trusted.
    foreign: ClassVar[bool] = False
    #: Options of the module's forward pass while it is trained.
    training_options: ClassVar[Mapping[str, Any]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "kind" in cls.__dict__:
            held = ARCHITECTURES.get(cls.kind)
            taken = held is not None and held.__module__.startswith("posattn.") and held.__module__ != cls.__module__
            require(not taken, f"kind='{cls.kind}' of {cls.__name__} is a kind of posattn's own: choose another.")
            ARCHITECTURES[cls.kind] = cls

    def __post_init__(self) -> None:
        """NumPy's scalars are numbers. Subclasses check the values after this."""
        require(
            hasattr(self, "kind"),
            f"the architecture {type(self).__name__} has no kind: give its class one, a name of its own, as "
            "kind = 'mine'.",
        )
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.generic):
                object.__setattr__(self, field.name, value.item())

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any]) -> "Architecture":
        """The architecture with these fields, as JSON gives them."""
        # JSON knows no tuples
        return build(cls, {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()})

    @abstractmethod
    def parameters(self) -> dict[str, Init]:
        """Name, shape and first value of everything that is learned."""

    def constants_of(self, generator: torch.Generator | None) -> Params:
        """What the model holds and does not learn."""
        return {}

    def init(self, generator: torch.Generator | None) -> Params:
        """First values of one model, without a replica axis: what it holds, then what it learns."""
        return self.constants_of(generator) | {name: first.draw(generator) for name, first in self.parameters().items()}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of everything that `init` gives, without drawing it."""
        return {name: first.shape for name, first in self.parameters().items()}

    def measures(self, p: Params) -> dict[str, Tensor]:
        """Figures of the weights alone, one for every replica, that are worth watching while a model is trained."""
        return {}

    def label(self) -> str:
        """What a progress bar calls it."""
        return self.kind

    def family(self) -> str:
        """What must agree for two models to be computed as one: all but the biases, which may be zeros."""
        fields = json.loads(self.to_json())
        return json.dumps({name: True if name == "bias" else value for name, value in fields.items()})

    def covering(self, family: Sequence["Architecture"]) -> "Architecture":
        """One that can stand for every member of a family, which holds zeros for what it does not have itself."""
        return next((member for member in family if getattr(member, "bias", True)), self)

    def likely_failure(self, samples: int, shapes: Sequence[tuple[int, ...]]) -> str | None:
        """Why, among so many samples of these shapes, chance is likely to give one without an answer; else nothing."""
        return None

    def changed(self, **fields: Any) -> "Architecture":
        """The same with other values of some fields; one whose options are no fields says itself what can change.

        What the architecture has worked out by itself, as the width of an encoding, it works out anew.
        """
        known = [field.name for field in dataclasses.fields(self)]
        for name in fields:
            if name not in known:
                raise NoSuchField(str(unknown(f"field of the {self.kind} model", name, known)))
        open_fields = [field.name for field in dataclasses.fields(self) if field.default is None]
        own = {name: None for name in open_fields if dataclasses.replace(self, **{name: None}) == self}
        return dataclasses.replace(self, **(own | fields))

    def to_json(self) -> str:
        """Canonical: equal architectures give equal text."""
        later = {f.name for f in dataclasses.fields(self) if f.metadata == LATER and getattr(self, f.name) == f.default}
        held = {name: value for name, value in dataclasses.asdict(self).items() if name not in later}
        fields = {"kind": self.kind} | held
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))


def from_json(text: str) -> Architecture:
    """The architecture that `to_json` wrote."""
    try:
        fields = json.loads(text)
        kind = fields.pop("kind")
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        raise PosattnError(f"not the description of a model: {text!r:.80}. Architecture.to_json writes one.") from None
    choice("kind of model", kind, ARCHITECTURES)
    return ARCHITECTURES[kind].of_fields(fields)


def build(architecture: type[Architecture], options: dict[str, Any]) -> Architecture:
    """`architecture(**options)`, with a note on an option that it does not have."""
    known = [field.name for field in dataclasses.fields(architecture)]
    for option in options:
        if option not in known:
            raise unknown(f"option of the {architecture.kind} model", option, known)
    return architecture(**options)


def check_heads(embed_dim: int, heads: int) -> None:
    require(
        embed_dim % heads == 0,
        f"embed_dim={embed_dim} is not divisible by heads={heads}: every head takes embed_dim / heads of the values. "
        f"Use embed_dim={embed_dim + heads - embed_dim % heads} or another number of heads.",
    )
