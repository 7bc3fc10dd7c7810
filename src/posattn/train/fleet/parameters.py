"""The parameters of a fleet: one flat buffer per replica, so an optimiser is a few lines over (replicas, total)."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from posattn.nn import Architecture
from posattn.nn.initial_weights import Params

#: Every parameter starts on a multiple of this many numbers: what vectorised loads and tensor cores ask for.
ALIGNMENT = 32


class FlatParameters:
    """Weights, gradients and a mask of what each replica learns, each (replicas, total).

    `chunks` are parameter dicts over consecutive replicas, whose tensors are leaves that share memory with `values`.
    """

    def __init__(self, architectures: list[Architecture], tensors: list[Params], *, chunk: int) -> None:
        self.architecture = architectures[0].covering(architectures)
        self.architectures = architectures
        self.own_shapes = [architecture.shapes() for architecture in architectures]
        learned = self.architecture.parameters()
        replicas = len(tensors)
        example = next(tensor for tensor in tensors[0].values() if tensor.is_floating_point())
        self.shapes = {name: init.shape for name, init in learned.items()}
        self.offsets: dict[str, int] = {}
        total = 0
        for name, shape in self.shapes.items():
            self.offsets[name] = total
            total += math.ceil(math.prod(shape) / ALIGNMENT) * ALIGNMENT
        self.values: Float[Tensor, "replicas total"] = example.new_zeros(replicas, total)
        self.grad: Float[Tensor, "replicas total"] = example.new_zeros(replicas, total)
        self.learned: Bool[Tensor, "replicas total"] = example.new_zeros(replicas, total, dtype=torch.bool)
        for replica, held in enumerate(tensors):
            for name in self.shapes:
                if name in held:
                    self._own(self.values, name, replica).copy_(held[name])
                    self._own(self.learned, name, replica).fill_(True)
        self.masked = not all(bool(self.view(self.learned, name).all()) for name in self.shapes)
        self.fixed: Params = {
            name: torch.stack([held[name] for held in tensors]) for name in tensors[0] if name not in self.shapes
        }
        self.spans = [(start, min(start + chunk, replicas)) for start in range(0, replicas, chunk)]
        self.chunks: list[Params] = []
        for start, end in self.spans:
            leaves = {name: tensor[start:end] for name, tensor in self.fixed.items()}
            for name in self.shapes:
                leaves[name] = self.view(self.values, name)[start:end].detach().requires_grad_()
            self.chunks.append(leaves)

    def view(self, flat: Tensor, name: str) -> Tensor:
        """One parameter of all replicas, as a view of a flat buffer."""
        shape, start = self.shapes[name], self.offsets[name]
        return flat[:, start : start + math.prod(shape)].unflatten(1, shape) if shape else flat[:, start]

    def _own(self, flat: Tensor, name: str, replica: int) -> Tensor:
        """What a replica has of one parameter: all of it, or a corner where others are wider."""
        corner = tuple(slice(size) for size in self.own_shapes[replica][name])
        return self.view(flat, name)[replica][corner]

    def keep(self, chunk: int, grads: Sequence[Tensor | None]) -> None:
        """Write one chunk's gradients into its part of `grad`.

        A parameter that the loss does not depend on keeps the gradient 0 that it started with.
        """
        start, end = self.spans[chunk]
        for name, grad in zip(self.shapes, grads, strict=True):
            if grad is not None:
                self.view(self.grad, name)[start:end].copy_(grad)

    def decaying(self) -> Bool[Tensor, " total"]:
        """Where weight decay applies: in the parameters that say so."""
        mask = self.learned.new_zeros(1, self.values.shape[1])
        for name, first in self.architecture.parameters().items():
            if first.decays:
                self.view(mask, name).fill_(True)
        return mask[0]

    def replica(self, index: int) -> Params:
        """The tensors of one replica: those it holds, without the zeros that stand for what it does not have."""
        held = {name: tensor[index].clone() for name, tensor in self.fixed.items()}
        learned = self.architectures[index].parameters()
        return held | {name: self._own(self.values, name, index).detach().clone() for name in learned}
