"""How a fleet gets from weights and a batch to losses and gradients: forward and backward passes, a chunk at a time."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from posattn import user_code
from posattn.nn.fast.any_model import mapped
from posattn.nn.initial_weights import Params
from posattn.train.fleet.parameters import FlatParameters

Inputs = tuple[Tensor, ...]


@runtime_checkable
class Passes(Protocol):
    """Passes over one chunk of replicas; inputs and targets have a leading replica axis."""

    #: Whether a step is the same device work every time, so that it can be captured and replayed.
    repeatable: bool
    #: What there is to say about how they are done.
    notes: list[str]

    def prepare(self, chunk: int, inputs: Inputs, target: Tensor) -> None:
        """Make ready for batches like this one, or say why there can be none."""
        ...

    def gradient(self, chunk: int, inputs: Inputs, target: Tensor) -> tuple[Tensor, list[Tensor | None]]:
        """The loss of each replica, and the gradients of what they learn; None for what a loss does not depend on."""
        ...

    def predict(self, chunk: int, inputs: Inputs) -> Tensor:
        """What the models answer, as they are tested."""
        ...

    def state(self) -> Params:
        """Tensors besides the weights that training changes."""
        ...


class FormulaPasses:
    """Passes of a model whose form is a function of stacked parameters and inputs (`posattn.nn.fast`)."""

    repeatable = True

    def __init__(self, parameters: FlatParameters, forward: Callable[..., Tensor], task: Any) -> None:
        self.parameters, self.forward, self.task = parameters, forward, task
        options = parameters.architecture.training_options
        self.training = mapped(parameters.architecture, options) if options else None
        self.notes: list[str] = []

    def prepare(self, chunk: int, inputs: Inputs, target: Tensor) -> None:
        pass

    def gradient(self, chunk: int, inputs: Inputs, target: Tensor) -> tuple[Tensor, list[Tensor | None]]:
        if self.training is None:
            prediction = self.predict(chunk, inputs)
        else:
            prediction = self.training(self.parameters.chunks[chunk], *inputs)
        loss = self.loss(prediction, target)
        leaves = [self.parameters.chunks[chunk][name] for name in self.parameters.shapes]
        return loss.detach(), list(torch.autograd.grad(loss.sum(), leaves, allow_unused=True))

    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        """The loss of each replica."""
        with user_code.named(f"task '{self.task.name}': loss", owner=self.task):
            return self.task.loss(prediction.to(self.parameters.values.dtype), target)

    def predict(self, chunk: int, inputs: Inputs) -> Tensor:
        return self.forward(self.parameters.chunks[chunk], *inputs)

    def state(self) -> Params:
        return {}
