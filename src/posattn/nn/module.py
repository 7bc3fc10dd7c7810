"""A model as a PyTorch module: it holds the weights of one replica and checks what it is given."""

import math
import os
from typing import Any, ClassVar, Generic, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posattn import checks, devices
from posattn.errors import PosattnError, require
from posattn.nn.architecture import Architecture, build
from posattn.nn.functional import Params, owned
from posattn.nn.numeric import GIVEN, Numeric
from posattn.nn.weights import read_weights, write_weights

Described = TypeVar("Described", bound=Architecture)
DescribedNumeric = TypeVar("DescribedNumeric", bound=Numeric)

MODELS: dict[str, type["Model[Any]"]] = {}


class Model(nn.Module, Generic[Described]):
    """A module around an architecture (`describes`). Options are the architecture's fields, by name.

    First weights are drawn from `generator`, or, as in any PyTorch module, from the global one when there is none.
    """

    describes: ClassVar[type[Architecture]]
    architecture: Described

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "describes" in cls.__dict__:
            MODELS[cls.describes.kind] = cls

    def __init__(self, *, generator: torch.Generator | None = None, **options: Any) -> None:
        super().__init__()
        require(
            hasattr(self, "describes"),
            f"{type(self).__name__} is what all models share: build one of its kinds, as PositionalTransformer().",
        )
        if generator is not None:
            checks.generator(generator, why="first weights are drawn from it, or, without one, from the global one")
        architecture: Any = build(self.describes, options)
        try:
            self._hold(architecture, architecture.init(generator))
        except (MemoryError, RuntimeError) as error:
            if not devices.memory_is_full(error):
                raise
            count = sum(math.prod(shape) for shape in architecture.shapes().values())
            raise PosattnError(
                f"a {architecture.kind} model of {self._sizes(options)} holds {count:,} numbers, which do not fit in "
                f"memory{devices.memory_asked_for(error)}: make it smaller."
            ) from None

    @staticmethod
    def _sizes(options: dict[str, Any]) -> str:
        whole = {name: value for name, value in options.items() if isinstance(value, int)}
        return ", ".join(f"{name}={value}" for name, value in whole.items() if not isinstance(value, bool))

    def _hold(self, architecture: Described, tensors: Params) -> None:
        self.architecture = architecture
        learned = architecture.parameters()
        for name, tensor in tensors.items():
            if name in learned:
                self.register_parameter(name, nn.Parameter(owned(tensor)))
            else:
                self.register_buffer(name, owned(tensor))

    def replica(self) -> Params:
        """Everything the forward pass needs, as a fleet of one."""
        return {name: tensor.unsqueeze(0) for name, tensor in (*self.named_parameters(), *self.named_buffers())}

    def check(self, *inputs: Tensor) -> None:
        """Raise where an input does not fit: shape, values, dtype or device."""
        held = next(self.parameters())
        for x in inputs:
            checks.tensor("the input", x)
            require(
                x.device == held.device,
                f"the input is on '{x.device}' and the model on '{held.device}': use x.to('{held.device}').",
            )
            require(
                not x.is_floating_point() or x.dtype == held.dtype,
                f"the input has dtype {x.dtype} and the model {held.dtype}: use x.to({held.dtype}).",
            )
        self.architecture.check(*inputs)

    def run(self, *inputs: Tensor) -> Tensor:
        """Check the inputs, then run the forward pass as a fleet of one."""
        self.check(*inputs)
        return self.architecture.forward(self.replica(), *(x.unsqueeze(0) for x in inputs))[0]

    def extra_repr(self) -> str:
        return self.architecture.to_json()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write architecture and weights to a safetensors file, whole or not at all; `posattn.load` reads it."""
        held = {**dict(self.named_parameters()), **dict(self.named_buffers())}
        write_weights(checks.path("path", path), self.architecture, held)


def model_of(architecture: Architecture, tensors: Params) -> Model[Any]:
    """The module of a given architecture with a copy of given weights."""
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
    found = {name: tuple(_held(name, tensor).shape) for name, tensor in tensors.items()}
    for name in sorted(expected.keys() | found.keys()):
        require(
            expected.get(name) == found.get(name),
            f"tensor {name!r} has shape {found.get(name)}: the {architecture.kind} model takes {expected.get(name)} "
            "(None: there is none of that name). architecture.shapes() names them all.",
        )
    cls = MODELS[architecture.kind]
    model = cls.__new__(cls)
    nn.Module.__init__(model)
    model._hold(architecture, tensors)
    return model


def _held(name: str, value: Any) -> Tensor:
    tensor = checks.tensor(name, value)
    require(
        tensor.is_floating_point(), f"tensor {name!r} has dtype {tensor.dtype}: weights are floating point, x.float()."
    )
    return tensor


def load(path: str | os.PathLike[str]) -> Model[Any]:
    """The model in a file that `model.save` wrote. Nothing in the file is ever executed."""
    return model_of(*read_weights(checks.path("path", path)))


class NumericModel(Model[DescribedNumeric]):
    """A model for numeric tasks. `encoding` and `constants` may be matrices, one row a node, the scratchpad's last."""

    def __init__(
        self,
        *,
        encoding: str | Float[Tensor, "nodes width"] = "one-hot",
        constants: str | Float[Tensor, "nodes constants_width"] | None = None,
        generator: torch.Generator | None = None,
        **options: Any,
    ) -> None:
        matrices = {}
        for name, value in (("encoding", encoding), ("constants", constants)):
            if isinstance(value, Tensor):
                require(value.dim() == 2, f"{name} of shape {tuple(value.shape)}: it must be (nodes, width).")
                matrices[name] = value
                options |= {name: GIVEN, f"{name}_dim": value.shape[1]}
            else:
                named = not (isinstance(value, str) and value == GIVEN)
                require(named, f"{name}={GIVEN!r} stands for a matrix: pass the matrix itself, {name}=P.")
                options[name] = value
        super().__init__(generator=generator, **options)
        for name, value in matrices.items():
            nodes = self.architecture.nodes
            require(
                value.shape[0] == nodes,
                f"{name} has {value.shape[0]} rows: it needs one for each of the model's length + scratchpad = {nodes} "
                "nodes.",
            )
            checks.finite(name, value)
            self.get_buffer(name).copy_(value)

    def forward(
        self, x: Float[Tensor, "batch length in_dim"], *, encoding: Float[Tensor, "nodes width"] | None = None
    ) -> Float[Tensor, "batch length out_dim"]:
        """`encoding` replaces P for this call: one row for every number of x, then the scratchpad's."""
        self.check(x)
        p = self.replica()
        if encoding is not None:
            self._check_encoding(encoding, x.shape[1])
            p["encoding"] = encoding.unsqueeze(0)
        if encoding is None or "constants" in p:
            self._check_length(x)
        return self.architecture.forward(p, x.unsqueeze(0))[0]

    def _check_length(self, x: Tensor) -> None:
        """Raise where x has more nodes than P, or the constants, have rows."""
        length, longest = x.shape[1], self.architecture.length
        other = ", or pass a longer P: model(x, encoding=P)." if self.architecture.constants is None else "."
        require(
            length <= longest,
            f"the input has length {length} and the model {longest}: shorten it, or build the model with "
            f"length={length}{other}",
        )

    def _check_encoding(self, encoding: Tensor, length: int) -> None:
        checks.tensor("encoding", encoding)
        wanted = (length + self.architecture.scratchpad, self.architecture.encoding_width)
        held = self.get_buffer("encoding")
        require(
            tuple(encoding.shape) == wanted and encoding.dtype == held.dtype and encoding.device == held.device,
            f"encoding is {tuple(encoding.shape)}, {encoding.dtype}, on '{encoding.device}': this input needs {wanted} "
            f"(length + scratchpad rows), {held.dtype}, on '{held.device}'.",
        )
        checks.finite("encoding", encoding)
