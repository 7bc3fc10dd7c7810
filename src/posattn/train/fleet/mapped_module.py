"""Anybody's module in a fleet: its forward pass mapped over the replicas, and the whole step traced once.

`torch.vmap` maps the module over stacked weights, `torch.autograd` differentiates the sum of all losses, and the trace
of both is one flat list of tensor operations, which is made shorter (`simplify`) and then run: no mapping and no
bookkeeping of gradients is left. On a GPU it is captured like every other fleet's step, compiled before if that pays.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.fx.experimental.proxy_tensor import make_fx

from posattn import devices, tasks
from posattn.errors import PosattnError
from posattn.nn.any_module import AnyModule, seeded
from posattn.nn.fast.mapped_functions import mapped_functions
from posattn.nn.initial_weights import Params
from posattn.train.fleet.mapping_checks import NoHooks, disorder, fixed_order, reason_of, watched
from posattn.train.fleet.module_states import hooked, states
from posattn.train.fleet.own_randomness import OwnRandomness
from posattn.train.fleet.parameters import FlatParameters
from posattn.train.fleet.passes import Inputs
from posattn.train.fleet.simplify import simplified
from posattn.train.trial import Trial

#: So many states of the global generators are tried where a module may depend on them.
SEEDS = 32
WAY_OUT = "Train one replica at a time: --fleet off (together=False)."

Traced = Callable[..., list[Any]]


class MappedPasses:
    """Passes of a user's module, all replicas of a chunk at once."""

    repeatable = True

    def __init__(
        self,
        trial: Trial,
        parameters: FlatParameters,
        model: AnyModule,
        *,
        keys: Tensor,
        step: Tensor,
        compiled: bool,
    ) -> None:
        self.model, self.parameters, self.keys, self.step, self.compiled = model, parameters, keys, step, compiled
        self.task = tasks.get(trial.task, **trial.task_options)
        self.half = trial.precision == "bf16"
        self.notes: list[str] = []
        self.single = not keys.is_cuda and parameters.spans[0] == (0, 1)
        self.module = model.module().to(keys.device, parameters.values.dtype)
        self._traces: dict[Any, Traced] = {}

    def prepare(self, chunk: int, inputs: Inputs, target: Tensor) -> None:
        """Trace a step. A trace puts tensors into the module for its time, so threads must not do it side by side."""
        key = _shapes(inputs, target)
        if key not in self._traces:
            short = self.traced(chunk, inputs, target)
            given = self._given(chunk, inputs, target)
            self._traces[key] = self._tried(short, given) if self.compiled else short

    def gradient(self, chunk: int, inputs: Inputs, target: Tensor) -> tuple[Tensor, list[Tensor | None]]:
        traced, given = self._traces[_shapes(inputs, target)], self._given(chunk, inputs, target)
        with torch.no_grad(), fixed_order():
            loss, *grads = traced(*given)
        return loss, grads

    def _given(self, chunk: int, inputs: Inputs, target: Tensor) -> tuple[Tensor, ...]:
        start, end = self.parameters.spans[chunk]
        held = (tensor.detach() for tensor in self.parameters.chunks[chunk].values())
        return (*held, *inputs, target, self.keys[start:end], self.step)

    def predict(self, chunk: int, inputs: Inputs) -> Tensor:
        start, end = self.parameters.spans[chunk]
        drawn = OwnRandomness(self.keys[start:end], -1 - self.step)  # of no training step
        with self._explained(), drawn, mapped_functions(compiled=False):
            return torch.vmap(self._evaluated, randomness="different")(
                self.parameters.chunks[chunk], *(x.clone() for x in inputs)
            )

    def state(self) -> Params:
        return {}

    def _evaluated(self, held: Params, *inputs: Tensor) -> Tensor:
        return self._called(self.module.eval(), held, inputs)

    def _mapped(self, held: Params, inputs: Inputs) -> Tensor:
        with mapped_functions(compiled=self.compiled):
            return torch.vmap(self._trained, randomness="different")(held, *inputs)

    def _single(self, held: Params, inputs: Inputs) -> Tensor:
        """One replica, by PyTorch's own functions: on a CPU its products are large enough by themselves."""
        one = {name: tensor[0] for name, tensor in held.items()}
        return self._trained(one, *(x[0] for x in inputs)).unsqueeze(0)

    def _trained(self, held: Params, *inputs: Tensor) -> Tensor:
        """The same in training mode, where a module that puts other buffers in the place of its own is refused."""

        def look(module: nn.Module, *_: Any) -> None:
            for name, now in module.named_buffers():
                if now is not held[name]:
                    raise PosattnError(f"its forward pass changes the buffer '{name}'")

        hook = self.module.register_forward_hook(look)
        try:
            with NoHooks():
                return self._called(self.module.train(), held, inputs)
        finally:
            hook.remove()

    def _called(self, module: nn.Module, held: Params, inputs: Inputs) -> Tensor:
        with torch.autocast(self.step.device.type, torch.bfloat16, enabled=self.half, cache_enabled=False):
            return functional_call(module, held, inputs)

    def traced(self, chunk: int, inputs: Inputs, target: Tensor) -> torch.fx.GraphModule:
        """The trace of a step, made shorter."""
        names, count, given = list(self.parameters.chunks[chunk]), len(inputs), self._given(chunk, inputs, target)
        with self._explained(), watched() as drawn, disorder() as found:
            hook = hooked(self.module)
            if hook is not None:
                raise PosattnError(f"it has a hook on the gradient of '{hook}', which a fleet would not call")
            before = [tensor._version for tensor in given]
            graph = make_fx(self._step(names, count))(*given)
            for name, tensor, version in zip(names, given, before, strict=False):
                if tensor._version != version:
                    raise PosattnError(f"its forward pass changes the buffer '{name}'")
            if drawn() and self._varies(names, count, given):
                raise PosattnError("its forward pass draws from a global generator of Python or NumPy")
            self._check_forgetful(names, count, given)
        self.notes += [f"{self.model.factory}: {one}" for one in dict.fromkeys(found)]
        return simplified(graph)

    def _check_forgetful(self, names: list[str], count: int, given: tuple[Tensor, ...]) -> None:
        """A second pass must find the module's attributes as the first left them: a trace keeps what they were."""
        before = states(self.module)
        self._step(names, count)(*_one_sample(names, count, given))
        for name, value in states(self.module).items():
            if before.get(name) != value:
                raise PosattnError(f"its forward pass changes its attribute '{name}', which all replicas share")

    def _varies(self, names: list[str], count: int, given: tuple[Tensor, ...]) -> bool:
        """Whether losses depend on the state of Python's and NumPy's global generators; type checkers draw, too."""
        step, one = self._step(names, count), _one_sample(names, count, given)
        found = []
        for seed in range(SEEDS):
            with seeded(seed):
                found.append(step(*one)[0])
        return any(not torch.equal(found[0], other) for other in found)

    def _step(self, names: list[str], count: int) -> Traced:
        """Losses and gradients as a function of tensors alone: the model's, `count` inputs, targets, keys, step."""
        learned = [names.index(name) for name in self.parameters.shapes]

        def step(*given: Tensor) -> list[Any]:
            tensors, inputs = list(given[: len(names)]), given[len(names) : len(names) + count]
            target, keys, number = given[len(names) + count :]
            for place in learned:
                tensors[place] = tensors[place].detach().requires_grad_()
            held = dict(zip(names, tensors, strict=True))
            with OwnRandomness(keys, number, single=self.single):
                prediction = self._single(held, inputs) if self.single else self._mapped(held, inputs)
            loss = self.task.loss(prediction.to(self.parameters.values.dtype), target)
            leaves = [tensors[place] for place in learned]
            return [loss.detach(), *torch.autograd.grad(loss.sum(), leaves, allow_unused=True)]

        return step

    def _tried(self, graph: torch.fx.GraphModule, given: tuple[Tensor, ...]) -> Traced:
        """The graph compiled, or as it is where the compiler fails."""
        quick = torch.compile(graph, dynamic=False, fullgraph=True)
        try:
            with torch.no_grad():
                quick(*given)
        except Exception as error:
            if devices.memory_is_full(error):
                raise
            said = f"{type(error).__name__}: {error}".splitlines()[0]
            self.notes.append(f"{self.model.factory} trains without torch.compile, which fails: {said:.200}")
            return graph
        return quick

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say why a module cannot be mapped, and what to do instead."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="There is a performance drop")
            try:
                yield
            except Exception as error:
                if devices.memory_is_full(error):
                    raise
                reason = reason_of(error, self.module)
                raise PosattnError(f"{self.model.factory} cannot train as a fleet: {reason}. {WAY_OUT}") from error


def _one_sample(names: list[str], count: int, given: tuple[Tensor, ...]) -> list[Tensor]:
    """What a step is given, with one sample of the batch."""
    places = range(len(names), len(names) + count + 1)
    return [tensor[:, :1].clone() if place in places else tensor for place, tensor in enumerate(given)]


def _shapes(inputs: Inputs, target: Tensor) -> tuple[Any, ...]:
    """What decides which trace a batch takes; the first axis counts replicas."""
    return tuple((tuple(one.shape), one.dtype) for one in (*inputs, target))
