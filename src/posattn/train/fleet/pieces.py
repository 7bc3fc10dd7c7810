"""Passes on a CPU, of a form in two stages: replicas are folded together, and samples go through in pieces."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from posattn.nn.fast.two_stages import TwoStages
from posattn.tasks.base import Task
from posattn.tasks.nodewise import NodewiseTask
from posattn.train.fleet.passes import FormulaPasses, Inputs

#: Numbers that a layer keeps of a piece: two pieces of a batch for positional models of the paper's size, three for
#: standard ones. With twice as many, and with half as many, two cores with 32 MB of cache took 2 to 8 % longer.
KEPT_NUMBERS = 1_350_000


class Piece(NamedTuple):
    """Replicas of a chunk, and samples of a batch."""

    replicas: slice
    samples: list[slice]


def pieces(replicas: int, batch: int, kept: int, *, whole: bool) -> Iterator[Piece]:
    """Small batches of several replicas together, a large one cut into equal parts, unless it must stay `whole`."""
    together = max(1, KEPT_NUMBERS // max(1, batch * kept))
    most = batch if whole else min(batch, max(1, KEPT_NUMBERS // kept))
    size = -(-batch // -(-batch // most)) if batch else 1
    samples = [slice(start, min(start + size, batch)) for start in range(0, batch, size)]
    for start in range(0, replicas, together):
        yield Piece(slice(start, min(start + together, replicas)), samples)


class PiecePasses(FormulaPasses):
    """Folds all replicas of a chunk at once; gradients of the folded matrices are collected piece by piece."""

    forward: TwoStages

    def gradient(self, chunk: int, inputs: Inputs, target: Tensor) -> tuple[Tensor, list[Tensor | None]]:
        params = self.parameters.chunks[chunk]
        maps = self.forward.fold(params, *inputs)
        learned = {name: tensor for name, tensor in maps.items() if tensor.requires_grad}
        grads = {name: torch.zeros_like(tensor) for name, tensor in learned.items()}
        replicas, batch = target.shape[:2]
        losses = self.parameters.values.new_zeros(replicas)
        for at, samples in pieces(replicas, batch, self.forward.kept, whole=not is_mean(self.task, target)):
            own = {name: tensor[at].detach().requires_grad_(name in learned) for name, tensor in maps.items()}
            leaves = [own[name] for name in learned]
            for part in samples:
                prediction = self.forward.apply(own, *(x[at, part] for x in inputs))
                loss = self.loss(prediction, target[at, part]) * ((part.stop - part.start) / batch)
                loss.sum().backward(inputs=leaves)
                losses[at] += loss.detach()
            for grad, leaf in zip(grads.values(), leaves, strict=True):
                if leaf.grad is not None:
                    grad[at] = leaf.grad
        given = [params[name] for name in self.parameters.shapes]
        return losses, list(torch.autograd.grad([*learned.values()], given, [*grads.values()], allow_unused=True))

    def predict(self, chunk: int, inputs: Inputs) -> Tensor:
        maps = self.forward.fold(self.parameters.chunks[chunk], *inputs)
        replicas, batch = inputs[0].shape[:2]
        answers = []
        for at, samples in pieces(replicas, batch, self.forward.kept, whole=False):
            own = {name: tensor[at] for name, tensor in maps.items()}
            parts = [self.forward.apply(own, *(x[at, part] for x in inputs)) for part in samples]
            answers.append(torch.cat(parts, dim=1))
        return torch.cat(answers)


def is_mean(task: Task, target: Tensor) -> bool:
    """Whether the loss of samples with such targets is the mean of their losses, so that a batch may be cut.

    posattn's own are, where no target is NaN, which only those of several channels are. Nothing is assumed of a
    user's loss.
    """
    own = getattr(task.loss, "__func__", None)
    return own is Task.loss or (own is NodewiseTask.loss and target.shape[-1] == 1)
