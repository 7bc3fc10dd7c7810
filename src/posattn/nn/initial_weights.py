"""First values of a model's parameters, and the dict of tensors that they are drawn into."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

#: A model's tensors by name, stacked over its layers (`posattn.nn.layout`).
Params = dict[str, Tensor]


class Init(NamedTuple):
    """Shape and first value of one parameter: uniform in ±`uniform`, or normal with deviation `normal`, or 0.

    The first `layers` axes count layers. `decays` says whether weight decay applies, as it does to the matrices of
    linear maps.
    """

    shape: tuple[int, ...]
    uniform: float = 0.0
    normal: float = 0.0
    layers: int = 0
    decays: bool = False

    def draw(self, generator: torch.Generator | None) -> Tensor:
        if self.uniform:
            return torch.empty(self.shape).uniform_(-self.uniform, self.uniform, generator=generator)
        if self.normal:
            return torch.empty(self.shape).normal_(0.0, self.normal, generator=generator)
        return torch.zeros(self.shape)


def linear_init(name: str, into: int, out: int, *, bias: bool, layers: tuple[int, ...] = ()) -> dict[str, Init]:
    """PyTorch's default for a linear map: weight and bias uniform in ±1/√into."""
    bound = 1 / math.sqrt(into)
    found = {f"{name}_weight": Init((*layers, into, out), uniform=bound, layers=len(layers), decays=True)}
    if bias:
        found[f"{name}_bias"] = Init((*layers, out), uniform=bound, layers=len(layers))
    return found


def xavier_init(
    name: str, into: int, out: int, *, bias: bool, layers: tuple[int, ...], stacked: int = 1
) -> dict[str, Init]:
    """Xavier-uniform weight and zero bias; `stacked` such maps side by side count as one when the bound is set."""
    bound = math.sqrt(6 / (into + stacked * out))
    found = {f"{name}_weight": Init((*layers, into, out), uniform=bound, layers=len(layers), decays=True)}
    if bias:
        found[f"{name}_bias"] = Init((*layers, out), layers=len(layers))
    return found


def normal_init(name: str, into: int, out: int, *, deviation: float, layers: tuple[int, ...]) -> dict[str, Init]:
    """Normal weight and zero bias."""
    return {
        f"{name}_weight": Init((*layers, into, out), normal=deviation, layers=len(layers), decays=True),
        f"{name}_bias": Init((*layers, out), layers=len(layers)),
    }
