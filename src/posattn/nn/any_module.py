"""Anybody's module as a model: an importable function that returns a `torch.nn.Module`, and what it is called with.

>>> AnyModule("torch.nn:Linear", in_features=3, out_features=2).shapes()
{'weight': (2, 3), 'bias': (2,)}

The description alone imports nothing. Asking for shapes or first weights, and so training, calls the function.
"""

import json
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from posattn import checks
from posattn.errors import PosattnError, kind_of, require
from posattn.nn import importing
from posattn.nn.architecture import Architecture
from posattn.nn.initial_weights import Init, Params


@dataclass(frozen=True, init=False)
class AnyModule(Architecture):
    """What `factory`, as "package.module:function", returns when it is called with `options`.

    First weights are those that the function draws from PyTorch's, NumPy's and Python's global generators, which are
    seeded for the call and put back after it. Every parameter that requires a gradient is learned, and weight decay
    applies to all of them, even to one that no loss depends on, which `torch.optim` would leave alone.
    """

    kind = "any-module"
    foreign = True

    factory: str
    options: Mapping[str, Any]

    def __init__(self, factory: str, **options: Any) -> None:
        importing.split(checks.text("factory", factory))
        object.__setattr__(self, "factory", factory)
        object.__setattr__(self, "options", _plain(factory, options))

    def __hash__(self) -> int:
        return hash(self.to_json())

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any]) -> "AnyModule":
        options = fields.get("options", {})
        described = isinstance(fields.get("factory"), str) and isinstance(options, Mapping)
        require(described and fields.keys() <= {"factory", "options"}, f"not the description of a module: {fields}.")
        return cls(fields["factory"], **options)

    def changed(self, **options: Any) -> "AnyModule":
        """The same function with other options."""
        return type(self)(self.factory, **{**self.options, **options})

    def module(self) -> nn.Module:
        """The module, in memory of its own, with weights of no meaning."""
        return self._built(0)

    def with_weights(self, tensors: Params) -> nn.Module:
        """The module with given weights and buffers, for use: in evaluation mode."""
        module = self.module()
        held = _held(module)
        for name in held.keys() | tensors.keys():
            found = [None if name not in some else tuple(some[name].shape) for some in (held, tensors)]
            require(
                found[0] == found[1],
                f"tensor '{name}' has shape {found[1]}, and {self.factory} makes one of {found[0]} (None: there is "
                "none). It has changed since.",
            )
        with torch.no_grad():
            for name, tensor in held.items():
                tensor.data = tensors[name].detach().clone()
        return module.eval()

    def parameters(self) -> dict[str, Init]:
        return {name: Init(shape, decays=True) for name, shape in _sizes(self).learned.items()}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        sizes = _sizes(self)
        return sizes.learned | sizes.kept

    def init(self, generator: torch.Generator | None) -> Params:
        expected, seed = self.shapes(), int(torch.randint(2**62, (), generator=generator))
        held = {name: tensor.detach().clone() for name, tensor in _held(self._built(seed)).items()}
        found = {name: tuple(tensor.shape) for name, tensor in held.items()}
        for name in sorted(found.keys() | expected.keys()):
            require(
                found.get(name) == expected.get(name),
                f"{self.factory} gives tensor '{name}' the shape {expected.get(name)} in one call and "
                f"{found.get(name)} in another (None: there is none): it must make the same module every time, but for "
                "the values.",
            )
        return {name: held[name] for name in expected}

    def _built(self, seed: int) -> nn.Module:
        factory = importing.named(self.factory)
        with seeded(seed):
            try:
                found = factory(**self.options)
            except PosattnError:
                raise
            except Exception as error:
                options = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
                raise PosattnError(f"{self.factory}({options}) fails: {importing.blame(error)}.") from error
        if not isinstance(found, nn.Module):
            raise PosattnError(f"{self.factory} returns {kind_of(found)}: it must return a torch.nn.Module.")
        return found

    def label(self) -> str:
        return self.factory.partition(":")[2]


@dataclass(frozen=True)
class _Sizes:
    """Shapes by name: of what is learned, and of buffers and frozen parameters."""

    learned: dict[str, tuple[int, ...]]
    kept: dict[str, tuple[int, ...]]


@lru_cache(256)
def _sizes(architecture: AnyModule) -> _Sizes:
    module, factory = architecture.module(), architecture.factory
    for name, held in _held(module).items():
        lazy = isinstance(held, (nn.UninitializedParameter, nn.UninitializedBuffer))
        require(not lazy, f"{factory}: '{name}' is lazy, and a trial has to know its size: give it.")
        real = not (held.is_complex() and held.requires_grad)
        require(real, f"{factory}: parameter '{name}' is complex, and fleets learn real numbers: use two real ones.")
    learned = {name: tuple(held.shape) for name, held in module.named_parameters() if held.requires_grad}
    require(bool(learned), f"{factory} returns a module that has no parameters to learn.")
    kept = {name: tuple(held.shape) for name, held in _held(module).items() if name not in learned}
    return _Sizes(learned, kept)


def _held(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name, tied ones once."""
    return dict((*module.named_parameters(), *module.named_buffers()))


def _plain(factory: str, options: dict[str, Any]) -> dict[str, Any]:
    """Options as JSON gives them back, lists as tuples."""
    for name, value in options.items():
        try:
            json.dumps(value, default=_number)
        except (TypeError, ValueError):
            raise PosattnError(
                f"option {name} of {factory} is {kind_of(value)}: a trial holds numbers, text, True, False, None, and "
                "lists and dicts of those."
            ) from None
    return {name: _frozen(json.loads(json.dumps(value, default=_number))) for name, value in options.items()}


def _number(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _frozen(entry) for name, entry in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


@contextmanager
def seeded(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """All global generators that a module may draw from, seeded for a time; on a GPU, too, where one is named."""
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[device] if device is not None and device.type == "cuda" else []):
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)
