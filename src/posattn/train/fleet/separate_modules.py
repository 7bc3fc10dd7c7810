"""Anybody's module, one replica after the other: as its user would train it, with a fleet's data and optimiser.

Whatever PyTorch can run trains so: batch norm, control flow that depends on data, `nn.GRU`. Dropout and its like draw
what they would draw in a fleet; other noise comes from the global generators, which are seeded by replica and step.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from posattn import devices, tasks, user_code
from posattn.errors import PosattnError
from posattn.nn.any_module import AnyModule, seeded
from posattn.nn.importing import blame
from posattn.nn.initial_weights import Params
from posattn.train.fleet.module_states import states
from posattn.train.fleet.own_randomness import OwnRandomness
from posattn.train.fleet.parameters import FlatParameters
from posattn.train.fleet.passes import Inputs
from posattn.train.random_streams import stream
from posattn.train.trial import Trial

#: Of a module that changes attributes of its own while it trains.
REMEMBERS = (
    "keeps something in its attributes that no checkpoint holds: interrupted, a run does not end where it would have."
)


class SeparatePasses:
    """Passes of as many modules as there are replicas, whose weights lie in the fleet's own memory."""

    repeatable = False

    def __init__(self, trials: list[Trial], parameters: FlatParameters, model: AnyModule, *, step: Tensor) -> None:
        self.trials, self.parameters, self.step, self.factory = trials, parameters, step, model.factory
        self._calls: dict[int, int] = {}
        self.task = tasks.get(trials[0].task, **trials[0].task_options)
        self.half = trials[0].precision == "bf16"
        self.notes: list[str] = []
        values = parameters.values
        self.modules = [model.module().to(values.device, values.dtype) for _ in trials]
        for replica, module in enumerate(self.modules):
            for name, held in module.named_parameters():
                flat = name in parameters.shapes
                held.data = parameters.view(values, name)[replica] if flat else parameters.fixed[name][replica]
        self.places = [
            {name: held[replica] for name, held in parameters.fixed.items()} for replica in range(len(trials))
        ]
        for replica, module in enumerate(self.modules):
            for path, part in module.named_modules():
                for name in dict(part.named_buffers(recurse=False)):
                    part._buffers[name] = self.places[replica][f"{path}.{name}".lstrip(".")]

    def prepare(self, chunk: int, inputs: Inputs, target: Tensor) -> None:
        pass

    def gradient(self, chunk: int, inputs: Inputs, target: Tensor) -> tuple[Tensor, list[Tensor | None]]:
        module = self.modules[chunk].train()
        seed, before = self._stream(chunk, int(self.step)), states(module)
        with self._explained("training"):
            with seeded(seed, self.step.device), self._noise(chunk, self.step):
                prediction = self._called(module, inputs)
            with user_code.named(f"task '{self.task.name}': loss", owner=self.task):
                loss = self.task.loss(prediction.to(self.parameters.values.dtype), target[0])
            held = dict(module.named_parameters())
            grads = torch.autograd.grad(loss, [held[name] for name in self.parameters.shapes], allow_unused=True)
            grads = [None if grad is None else grad.to_dense().unsqueeze(0) for grad in grads]
        self._keep_buffers(chunk)
        if self._calls.setdefault(chunk, 0) == 1 and states(module) != before and not self.notes:  # a cache fills once
            self.notes.append(f"{self.factory} {REMEMBERS}")
        self._calls[chunk] += 1
        return loss.detach().unsqueeze(0), grads

    def predict(self, chunk: int, inputs: Inputs) -> Tensor:
        noise = self._noise(chunk, -1 - self.step)  # of no training step
        with self._explained("evaluation"), seeded(self._stream(chunk, -1), self.step.device), noise:
            return self._called(self.modules[chunk].eval(), tuple(x.clone() for x in inputs)).unsqueeze(0)

    def _noise(self, chunk: int, step: Tensor) -> OwnRandomness:
        key = torch.tensor([self._stream(chunk, 0)], device=step.device)
        return OwnRandomness(key, step, single=True, others=True)

    def _stream(self, replica: int, index: int) -> int:
        return stream(self.trials[replica].seed, "noise inside the model", index).initial_seed()

    @contextmanager
    def _explained(self, when: str) -> Iterator[None]:
        try:
            yield
        except PosattnError:
            raise
        except Exception as error:
            if devices.memory_is_full(error):
                raise
            raise PosattnError(f"{self.factory} fails in {when}: {blame(error)}.") from error

    def _called(self, module: nn.Module, inputs: Inputs) -> Tensor:
        with torch.autocast(self.step.device.type, torch.bfloat16, enabled=self.half, cache_enabled=False):
            return module(*(x[0] for x in inputs))

    def _keep_buffers(self, replica: int) -> None:
        """Have a module's buffers lie in the fleet's memory again, whatever its forward pass has put in their place."""
        for path, part in self.modules[replica].named_modules():
            for name, held in part.named_buffers(recurse=False):
                place = self.places[replica][f"{path}.{name}".lstrip(".")]
                if held is not place:
                    place.copy_(held)
                    part._buffers[name] = place

    def state(self) -> Params:
        return dict(self.parameters.fixed)
