"""A model as a PyTorch module: it holds the weights of one model, checks what it is given, and can be traced."""

import inspect
import math
import os
import re
from abc import abstractmethod
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch._C._functorch import is_functorch_wrapped_tensor
from torch._subclasses.fake_tensor import FakeTensor

from posattn import checks, devices
from posattn.errors import PosattnError, kind_of, require, unknown
from posattn.nn.any_module import AnyModule
from posattn.nn.architecture import Architecture
from posattn.nn.initial_weights import Params
from posattn.nn.layout import slots, stack, unstack
from posattn.nn.pretrained import Pretrained
from posattn.nn.weights import read_weights, write_weights

Described = TypeVar("Described", bound=Architecture)
Loaded = TypeVar("Loaded", bound="Model[Any]")

MODELS: dict[str, type["Model[Any]"]] = {}


@dataclass(frozen=True)
class Step:
    """The state after one part of a model, and the attention weights that led there."""

    name: str  # of the submodule
    state: Tensor
    attention: Float[Tensor, "*batch readers nodes"] | None = None


class Model(nn.Module, Pretrained, Generic[Described]):
    """A module around an architecture (`describes`). A subclass says what it is made of (`build`) and its `forward`.

    First weights are drawn from `generator`, or, as in any PyTorch module, from the global one when there is none.
    """

    describes: ClassVar[type[Architecture]]
    reader = "nn.Model"
    architecture: Described

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "describes" in cls.__dict__:
            MODELS[cls.describes.kind] = cls

    def __init__(self, architecture: Described, generator: torch.Generator | None) -> None:
        super().__init__()
        if generator is not None:
            checks.generator(generator, why="first weights are drawn from it, or, without one, from the global one")
        try:
            self._begin_empty(architecture)
            self._fill(architecture.init(generator))
        except (MemoryError, RuntimeError) as error:
            if not devices.memory_is_full(error):
                raise
            count = sum(math.prod(shape) for shape in architecture.shapes().values())
            raise PosattnError(
                f"a {architecture.kind} model of these sizes holds {count:,} numbers, which do not fit in "
                f"memory{devices.memory_asked_for(error)}: make it smaller. {architecture.to_json()}"
            ) from None

    @abstractmethod
    def build(self, architecture: Described) -> None:
        """Make the submodules and buffers. Their values come afterwards, so this runs on PyTorch's meta device."""

    def _begin_empty(self, architecture: Described) -> None:
        self.architecture = architecture
        with torch.device("meta"):
            self.build(architecture)
        self.register_load_state_dict_pre_hook(_unstacked)

    def _fill(self, tensors: Params) -> None:
        held = unstack(self.architecture, tensors)
        self.load_state_dict({name: owned(tensor) for name, tensor in held.items()}, assign=True)

    def weights(self) -> Params:
        """Every tensor in the stacked layout of fleets and files (`posattn.nn.layout`)."""
        return stack(self.architecture, dict((*self.named_parameters(), *self.named_buffers())))

    def replica(self) -> Params:
        """The same as those of a fleet of one: with a leading replica axis."""
        return {name: tensor.unsqueeze(0) for name, tensor in self.weights().items()}

    def check(self, *inputs: Tensor) -> None:
        """Raise where an input does not fit the model: by its kind, device or dtype."""
        held = next(self.parameters())
        for x in inputs:
            if not isinstance(x, Tensor):
                raise PosattnError(f"the input is {kind_of(x)}: use torch.as_tensor(x).")
            if x.device != held.device:
                raise PosattnError(
                    f"the input is on '{x.device}' and the model on '{held.device}': use x.to('{held.device}')."
                )
            if x.is_floating_point() and x.dtype != held.dtype:
                raise PosattnError(f"the input has dtype {x.dtype} and the model {held.dtype}: use x.to({held.dtype}).")

    def parts(self) -> list[tuple[str, str | None]]:
        """What `trace` stops at: the submodules in the order in which they run, each with that of its attention."""
        layers = [name for name, _ in self.named_modules() if re.fullmatch(r"layers\.\d+", name)]
        return [("encoder", None), *((name, f"{name}.attention") for name in layers), ("decoder", None)]

    @torch.no_grad()
    def trace(self, *inputs: Tensor, **options: Tensor) -> list[Step]:
        """The state after the encoder, each layer and the decoder, with the attention that led there.

        Takes what `forward` takes. Parts that a model does not have are left out.
        """
        taken = inspect.signature(self.forward).parameters
        for option in options:
            if option not in taken:
                raise unknown(f"option of the {self.architecture.kind} model's forward pass", option, taken)
        states: dict[str, Tensor] = {}
        hooks = [
            module.register_forward_hook(lambda _, __, out, name=name: states.__setitem__(name, out.detach()))
            for name, module in self.named_modules()
        ]
        try:
            self(*inputs, **options)
        finally:
            for hook in hooks:
                hook.remove()
        return [
            Step(name, states[name], None if attention is None else states.get(attention))
            for name, attention in self.parts()
            if name in states
        ]

    def extra_repr(self) -> str:
        return self.architecture.to_json()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write architecture and weights to a safetensors file, whole or not at all; `posattn.load` reads it."""
        write_weights(checks.path("path", path), self.architecture, self.weights())

    @classmethod
    def _read(cls: type["Loaded"], path: Path) -> "Loaded":
        found = load(path)
        if not isinstance(found, cls):
            raise PosattnError(
                f"'{path.parent}' holds a {found.architecture.kind} model, not a {cls.__name__}: read it by its own "
                f"class, {type(found).__name__}.from_pretrained, or as any kind, posattn.nn.Model.from_pretrained."
            )
        return found

    def _described(self) -> tuple[Architecture, str]:
        return self.architecture, ""


def _unstacked(model: Model[Any], state: dict[str, Any], *_: Any) -> None:
    """Give the tensors of a `state_dict` from before models had submodules, stacked over layers, their names of now."""
    if state.keys() == model.architecture.shapes().keys() != slots(model.architecture).keys():
        held = unstack(model.architecture, dict(state))
        state.clear()
        state.update(held)


def values_known(x: Tensor) -> bool:
    """Whether a tensor's values can be looked at: not while it is compiled, exported, captured or transformed."""
    traced = torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0 or isinstance(x, FakeTensor)
    hidden = traced or x.is_meta or is_functorch_wrapped_tensor(x)
    return not hidden and not (x.is_cuda and torch.cuda.is_current_stream_capturing())


def full_precision(x: Tensor) -> AbstractContextManager[Any]:
    """Without autocast, on a device that has it."""
    return nullcontext() if x.is_meta else torch.autocast(x.device.type, enabled=False)


def check_codes(what: str, codes: Tensor, vocabulary: int) -> None:
    """Every code must be in the vocabulary."""
    if not values_known(codes):
        return
    outside = codes[(codes < 0) | (codes >= vocabulary)]
    if outside.numel():
        raise PosattnError(
            f"{what} {outside[0].item()} lies outside 0 … {vocabulary - 1}: correct it, or build the model with a "
            f"larger vocabulary than {vocabulary}."
        )


def owned(tensor: Tensor) -> Tensor:
    """A copy in memory of its own, aligned as torch aligns every new tensor.

    Tensors from a file, a NumPy array or a larger buffer may start at any address, and some CPUs round the product of
    such a tensor differently: the same weights would give another output.
    """
    return tensor.detach().clone(memory_format=torch.contiguous_format)


def model_of(architecture: Architecture, tensors: Params) -> Model[Any]:
    """The module of a given architecture with a copy of given weights, in the stacked layout."""
    checks.instance("architecture", architecture, Architecture, fix="describe the model, as posattn.nn.Positional()")
    described = type(architecture).__name__
    require(
        architecture.kind in MODELS,
        f"the architecture {described} (kind '{architecture.kind}') has no model: write its module, a subclass of "
        f"posattn.nn.Model with describes = {described}.",
    )
    checks.instance(
        "tensors", tensors, dict, fix="pass the weights by name, as architecture.init(generator) draws them"
    )
    expected = architecture.shapes()
    found = {name: tuple(_floating(name, tensor).shape) for name, tensor in tensors.items()}
    for name in sorted(expected.keys() | found.keys()):
        require(
            expected.get(name) == found.get(name),
            f"tensor {name!r} has shape {found.get(name)}: the {architecture.kind} model takes {expected.get(name)} "
            "(None: there is none of that name). architecture.shapes() names them all.",
        )
    model = without_weights(architecture)
    model._fill(tensors)
    return model


def without_weights(architecture: Architecture) -> Model[Any]:
    """The module of an architecture, with tensors that have shapes and no values."""
    cls = MODELS[architecture.kind]
    model = cls.__new__(cls)
    nn.Module.__init__(model)
    model._begin_empty(architecture)
    return model


def _floating(name: str, value: Any) -> Tensor:
    tensor = checks.tensor(name, value)
    require(
        tensor.is_floating_point(), f"tensor {name!r} has dtype {tensor.dtype}: weights are floating point, x.float()."
    )
    return tensor


def load(path: str | os.PathLike[str], *, trust: bool = False) -> Any:
    """The model in a file that `model.save` or a training run wrote. Nothing in the file is ever executed.

    A file may name a module of your own (`AnyModule`). Only with `trust` is the function that makes it imported and
    called.
    """
    checks.switch("trust", trust)
    architecture, tensors = read_weights(checks.path("path", path))
    if not isinstance(architecture, AnyModule):
        return model_of(architecture, tensors)
    require(
        trust,
        f"'{path}' holds a module that '{architecture.factory}' makes, and no command imports that. In Python, "
        "posattn.load(path, trust=True) does.",
    )
    return architecture.with_weights(tensors)


def module_of(architecture: Architecture, tensors: Params) -> nn.Module:
    """The module of any architecture, with a copy of given weights; a user's own is in evaluation mode."""
    if isinstance(architecture, AnyModule):
        return architecture.with_weights(tensors)
    return model_of(architecture, tensors)
