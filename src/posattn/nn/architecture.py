"""What describes a model completely but for its weights."""

import dataclasses
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from posattn.errors import PosattnError, require, unknown
from posattn.nn.parts import Init, Params

ARCHITECTURES: dict[str, type["Architecture"]] = {}


@dataclass(frozen=True, kw_only=True)
class Architecture(ABC):
    """Sizes and choices of a model, its first weights, and its forward pass as a pure function.

    A frozen dataclass: equal fields are the same architecture, in a file, in a trial and in memory.
    """

    kind: ClassVar[str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "kind" in cls.__dict__:
            ARCHITECTURES[cls.kind] = cls

    @abstractmethod
    def parameters(self) -> dict[str, Init]:
        """Name, shape and first value of everything that is learned."""

    def constants_of(self, generator: torch.Generator | None) -> Params:
        """What the model holds and does not learn."""
        return {}

    def init(self, generator: torch.Generator | None) -> Params:
        """First values of one model, without a replica axis: what it holds, then what it learns."""
        return self.constants_of(generator) | {name: first.draw(generator) for name, first in self.parameters().items()}

    @abstractmethod
    def forward(self, p: Params, *inputs: Tensor) -> Tensor:
        """The output, from parameters and inputs that all have a leading replica axis. Checks no values."""

    @abstractmethod
    def check(self, *inputs: Tensor) -> None:
        """Raise where an input (without replica axis) does not fit the model."""

    def to_json(self) -> str:
        """Canonical: equal architectures give equal text."""
        fields = {"kind": self.kind} | dataclasses.asdict(self)
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))


def from_json(text: str) -> Architecture:
    """The architecture that `to_json` wrote."""
    try:
        fields = json.loads(text)
        kind = fields.pop("kind")
    except (json.JSONDecodeError, AttributeError, KeyError):
        raise PosattnError(f"not the description of a model: {text[:80]!r}") from None
    if kind not in ARCHITECTURES:
        raise unknown("kind of model", kind, ARCHITECTURES)
    return build(ARCHITECTURES[kind], fields)


def build(architecture: type[Architecture], options: dict[str, Any]) -> Architecture:
    """`architecture(**options)`, with a word about an option that it does not have."""
    known = [field.name for field in dataclasses.fields(architecture)]
    for option in options:
        if option not in known:
            raise unknown(f"option of the {architecture.kind} model", option, known)
    return architecture(**options)


def check_sizes(**sizes: Any) -> None:
    """Every size must be a whole number of at least 1."""
    for name, value in sizes.items():
        require(
            isinstance(value, int) and not isinstance(value, bool) and value >= 1,
            f"{name}={value!r}: it must be a whole number of at least 1.",
        )


def check_heads(embed_dim: int, heads: int) -> None:
    require(
        embed_dim % heads == 0,
        f"embed_dim={embed_dim} is not divisible by heads={heads}: every head takes embed_dim / heads of the values. "
        f"Use embed_dim={embed_dim + heads - embed_dim % heads} or another number of heads.",
    )
