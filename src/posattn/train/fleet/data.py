"""The training data of a fleet: drawn, kept, shuffled and cut into batches on the device.

Each replica draws and shuffles from streams of its own. What a step needs of the data's state is the step's number.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from posattn import tasks
from posattn.errors import unknown
from posattn.tasks.base import sample_options
from posattn.train.random_streams import stream
from posattn.train.sample_options import Options
from posattn.train.trial import Trial
from posattn.train.users_task import drawn_by, is_users


class Batch(NamedTuple):
    """Inputs and targets with a leading replica axis."""

    inputs: tuple[Tensor, ...]
    target: Tensor


def draw(task: Any, count: int, options: Options, generator: torch.Generator, dtype: torch.dtype) -> list[Tensor]:
    """`count` samples of a task: the input tensors, then the target; numbers in `dtype`."""
    known = sample_options(task)
    for option in options:
        if option not in known:
            raise unknown(f"option of the samples of task '{task.name}'", option, known)
    if is_users(task):
        inputs, target = drawn_by(task, count, dict(options), generator)
    else:
        inputs, target = task.sample(count, **options, generator=generator)
    together = [*inputs, target] if isinstance(inputs, tuple) else [inputs, target]
    where = generator.device
    return [tensor.to(where, dtype) if tensor.is_floating_point() else tensor.to(where) for tensor in together]


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
        task = tasks.get(trial.task, **trial.task_options)
        options = trial.data.options if self.length is None else {**trial.data.options, "length": self.length}
        purpose = "data" if self.length is None else f"data of length {self.length}"
        generator = stream(trial.seed, purpose, epoch, device=self.device)
        for slot, tensor in enumerate(draw(task, self.counts[index], options, generator, self.dtype)):
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
    """A fleet's data of every length.

    Steps come in cycles: each takes every length once, in an order that depends on the cycle's number alone. So a
    replica's epoch, whatever its sample count, is a whole number of cycles, and no companion changes its lengths.
    """

    def __init__(self, trials: list[Trial], *, device: torch.device, dtype: torch.dtype) -> None:
        lengths = trials[0].data.lengths
        self.parts = [LengthData(trials, length, device=device, dtype=dtype) for length in lengths or (None,)]
        self._cached: tuple[int, list[int]] = (-1, [0])  # a cycle, and the parts in its order

    def turn(self, step: int) -> int:
        """Which part gives the batch of a step."""
        cycle, at = divmod(step, len(self.parts))
        if len(self.parts) > 1 and self._cached[0] != cycle:
            shuffled = torch.randperm(len(self.parts), generator=stream(0, "order of lengths", cycle))
            self._cached = (cycle, shuffled.tolist())
        return self._cached[1][at]

    def given(self, step: int) -> list[int]:
        """How many batches each part has given before a step."""
        cycle, at = divmod(step, len(self.parts))
        earlier = {self.turn(before) for before in range(step - at, step)}
        return [cycle + (part in earlier) for part in range(len(self.parts))]
