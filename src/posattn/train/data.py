"""The training data of a fleet: drawn, kept, shuffled and cut into batches on the device.

Each replica draws and shuffles from streams of its own. What a step needs of the data's state is the step's number.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from posattn import tasks
from posattn.train.streams import stream
from posattn.train.trial import Trial


class Batch(NamedTuple):
    """Inputs and targets with a leading replica axis."""

    inputs: tuple[Tensor, ...]
    target: Tensor


def draw(trial: Trial, count: int, options: Any, generator: torch.Generator, dtype: torch.dtype) -> list[Tensor]:
    """`count` samples of a trial's task: the input tensors, then the target; numbers in `dtype`."""
    task = tasks.get(trial.task, **trial.task_options)
    inputs, target = task.sample(count, **options, generator=generator)
    together = [*inputs, target] if isinstance(inputs, tuple) else [inputs, target]
    return [tensor.to(dtype) if tensor.is_floating_point() else tensor for tensor in together]


class LengthData:
    """All replicas' samples of one length, and the order in which the current epoch meets them."""

    def __init__(self, trials: list[Trial], length: int | None, *, device: torch.device, dtype: torch.dtype) -> None:
        self.trials, self.length, self.device, self.dtype = trials, length, device, dtype
        self.batch = trials[0].data.batch
        self.counts = [trial.data.share for trial in trials]
        self.order = torch.zeros(len(trials), max(self.counts), dtype=torch.int64, device=device)
        self.tensors: list[Tensor] = []
        self.epochs: list[int | None] = [None] * len(trials)
        for index in range(len(trials)):
            self._fill(index, epoch=0)
        self.per_epoch = torch.tensor([count // self.batch for count in self.counts], device=device)
        self.within = torch.arange(self.batch, device=device)
        # Where each replica's samples start when all replicas' samples stand in one row.
        self.starts = torch.arange(len(trials), device=device).unsqueeze(1) * max(self.counts)

    def _fill(self, index: int, epoch: int) -> None:
        """Draw the samples of a replica; those of fresh data belong to one epoch."""
        trial = self.trials[index]
        options = dict(trial.data.options) | ({} if self.length is None else {"length": self.length})
        purpose = "data" if self.length is None else f"data of length {self.length}"
        generator = stream(trial.seed, purpose, epoch, device=self.device)
        for slot, tensor in enumerate(draw(trial, self.counts[index], options, generator, self.dtype)):
            if slot == len(self.tensors):
                shape = (len(self.trials), max(self.counts), *tensor.shape[1:])
                self.tensors.append(torch.zeros(shape, dtype=tensor.dtype, device=self.device))
            self.tensors[slot][index, : self.counts[index]] = tensor

    def prepare(self, visit: int) -> None:
        """Before the batch with this number among those of this length: shuffle where a replica starts an epoch."""
        for index, trial in enumerate(self.trials):
            epoch = visit // (self.counts[index] // self.batch)
            if epoch == self.epochs[index]:
                continue
            self.epochs[index] = epoch
            if trial.data.fresh:
                self._fill(index, epoch)
                order = torch.arange(self.counts[index], device=self.device)
            else:
                purpose = "shuffle" if self.length is None else f"shuffle of length {self.length}"
                generator = stream(trial.seed, purpose, epoch, device=self.device)
                order = torch.randperm(self.counts[index], generator=generator, device=self.device)
            self.order[index, : self.counts[index]] = order

    def take(self, visit: Tensor) -> Batch:
        """The batch with this number: tensor arithmetic alone, so that a captured step can replay it."""
        place = (visit % self.per_epoch * self.batch).unsqueeze(1) + self.within
        chosen = (self.order.gather(1, place) + self.starts).flatten()
        picked = [
            tensor.flatten(0, 1).index_select(0, chosen).unflatten(0, (len(self.trials), self.batch))
            for tensor in self.tensors
        ]
        return Batch(tuple(picked[:-1]), picked[-1])


class FleetData:
    """A fleet's data of every length. Which length a step has is the same for all replicas and all fleets."""

    def __init__(self, trials: list[Trial], *, device: torch.device, dtype: torch.dtype) -> None:
        lengths = trials[0].data.lengths
        self.parts = [LengthData(trials, length, device=device, dtype=dtype) for length in lengths or (None,)]
        self.batches = trials[0].data.batches
        self._cached: tuple[int, list[int]] = (-1, [])

    def turn(self, step: int) -> int:
        """Which part gives the batch of a step."""
        if len(self.parts) == 1:
            return 0
        epoch, at = divmod(step, self.batches)
        return self._order(epoch)[at]

    def given(self, step: int) -> list[int]:
        """How many batches each part has given before a step."""
        if len(self.parts) == 1:
            return [step]
        epoch, at = divmod(step, self.batches)
        earlier = self._order(epoch)[:at]
        return [epoch * (self.batches // len(self.parts)) + earlier.count(part) for part in range(len(self.parts))]

    def _order(self, epoch: int) -> list[int]:
        """The parts in the order of one epoch: every part equally often, shuffled."""
        if self._cached[0] != epoch:
            shuffled = torch.randperm(self.batches, generator=stream(0, "order of lengths", epoch))
            self._cached = (epoch, (shuffled % len(self.parts)).tolist())
        return self._cached[1]
