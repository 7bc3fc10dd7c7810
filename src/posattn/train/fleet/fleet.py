"""A fleet: trials of one shape, trained together as one batched program.

Replica k of a fleet gives the result of trial k alone, up to rounding: it has its own weights, data, shuffling,
learning rate and schedule, and nothing it computes depends on the others. A product over several replicas may be added
up in another order than that of one, so the last bits may differ. A replica whose loss or gradient is no longer finite
is marked and frozen, and the others go on.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from posattn import checks, devices, tasks
from posattn.errors import require
from posattn.nn import AnyModule, Architecture
from posattn.nn.fast.choose import fast_form
from posattn.nn.fast.two_stages import TwoStages
from posattn.nn.initial_weights import Params
from posattn.train.fleet.cpu import Workers, chunk_size, keep_freed_memory, without_tiny_numbers
from posattn.train.fleet.cuda_graph import captured
from posattn.train.fleet.data import Batch, FleetData
from posattn.train.fleet.evaluate import FleetTests, Score
from posattn.train.fleet.grouping import check_one_shape
from posattn.train.fleet.optimiser import Update
from posattn.train.fleet.parameters import FlatParameters
from posattn.train.fleet.passes import FormulaPasses, Passes
from posattn.train.fleet.pieces import PiecePasses
from posattn.train.fleet.schedule import Schedule
from posattn.train.random_streams import stream
from posattn.train.trial import Trial

#: Test samples that go through a model at once, or a training batch's number where that is larger.
EVALUATED_TOGETHER = 250


class Fleet:
    """Trials of one shape and step count, trained together. `run()` trains, `scores()` evaluates.

    Without `together`, replicas take their turns one after the other. `compiled` allows `torch.compile` where it pays,
    which takes its time before the first step.
    """

    def __init__(
        self, trials: list[Trial], *, device: str | torch.device = "auto", together: bool = True, compiled: bool = True
    ) -> None:
        checks.several("trials", trials, Trial, fix="pass a list of posattn.train.Trial")
        require(len(trials) >= 1, "trials=[]: a fleet needs at least one trial.")
        checks.switch("together", together)
        checks.switch("compiled", compiled)
        check_one_shape(trials)
        self.trials = trials
        self.device = devices.resolve(device)
        self.precision = trials[0].precision
        self.steps = trials[0].optimiser.steps
        dtype = torch.float64 if self.precision == "float64" else torch.float32
        cuda = self.device.type == "cuda"
        if not cuda:
            keep_freed_memory()
        first = [_placed(t.model.init(stream(t.seed, "weights")), self.device, dtype) for t in trials]
        size = len(trials) if together and cuda else self._chunk(first[0]) if together else 1
        self.parameters = FlatParameters([t.model for t in trials], first, chunk=size)
        for name in self.parameters.architecture.measures(self.parameters.chunks[0]):
            taken = any(one.name == name for one in trials[0].test_sets)
            require(not taken, f"a test set is called '{name}', which is a figure of the weights: rename it.")
        self.task = tasks.get(trials[0].task, **trials[0].task_options)
        self.data = FleetData(trials, device=self.device, dtype=dtype)
        self.tests = FleetTests(trials, device=self.device, dtype=dtype)
        rates = torch.tensor([t.optimiser.lr for t in trials], dtype=dtype, device=self.device)
        batches = torch.tensor([t.data.batches for t in trials], device=self.device)
        self.schedule = Schedule(trials[0].optimiser, rates, batches)
        self.update = Update(trials[0].optimiser, self.parameters)
        self.step = 0
        self.loss = torch.zeros_like(rates)
        self.counter = torch.zeros((), dtype=torch.int64, device=self.device)
        self.visits = [torch.zeros_like(self.counter) for _ in self.data.parts]
        self.passes = self._passes(together, compiled)
        apart = not cuda and self.passes.repeatable  # others may draw from a generator that threads would share
        self.workers = Workers(len(self.parameters.spans) if apart else 1)
        self.alive = torch.ones(len(trials), dtype=torch.bool, device=self.device)
        self.diverged_at = torch.full((len(trials),), -1, dtype=torch.int64, device=self.device)
        self._graphs: dict[int, Callable[[], None]] = {}
        if self.parameters.architecture.foreign:
            self._prepare()

    def _chunk(self, first: Params) -> int:
        """How many replicas a CPU takes together."""
        model = self.trials[0].model
        if not model.foreign:
            return chunk_size(self.trials[0], len(self.trials), self._form(model))
        from posattn.train.fleet.any_module import chunk_size as measured

        return measured(self.trials, first)

    def _passes(self, together: bool, compiled: bool) -> Passes:
        model = self.parameters.architecture
        if isinstance(model, AnyModule):
            from posattn.train.fleet.any_module import any_passes  # torch's tracer takes half a second to import

            given = {"step": self.counter, "together": together, "compiled": compiled}
            return any_passes(self.trials, self.parameters, **given)
        form = self._form(model)
        kind = PiecePasses if isinstance(form, TwoStages) and self.device.type != "cuda" else FormulaPasses
        return kind(self.parameters, form, self.task)

    def _form(self, model: Architecture) -> Callable[..., Tensor]:
        """How the models are computed."""
        precision = devices.arithmetic(self.device, self.precision)
        return fast_form(model, device=self.device, precision=precision)

    def _prepare(self) -> None:
        """Have the passes made ready for the batches of every part, before the first step."""
        for part, visit in zip(self.data.parts, self.visits, strict=True):
            part.prepare(0)
            batch = part.take(visit)
            for chunk, (start, end) in enumerate(self.parameters.spans):
                inputs = tuple(x[start:end] for x in batch.inputs)
                with self._arithmetic():
                    self.passes.prepare(chunk, inputs, batch.target[start:end])

    def state(self) -> Params:
        """Every tensor that the next step depends on, by name; weights and data order follow from it and the seeds."""
        return {
            "values": self.parameters.values,
            "alive": self.alive,
            "diverged_at": self.diverged_at,
            **{f"model.{name}": tensor for name, tensor in self.passes.state().items()},
            **{f"update.{name}": tensor for name, tensor in self.update.state.items()},
            **{f"schedule.{name}": tensor for name, tensor in self.schedule.state.items()},
        }

    def restore(self, state: Params, step: int) -> None:
        """Go back to a state that `state()` gave before the step with this number."""
        for name, tensor in self.state().items():
            require(
                name in state and state[name].shape == tensor.shape and state[name].dtype == tensor.dtype,
                f"the saved state has no '{name}' of shape {tuple(tensor.shape)} and {tensor.dtype}.",
            )
        for name, tensor in self.state().items():
            tensor.copy_(state[name])
        self.step = step
        self.counter.fill_(step)
        for visit, count in zip(self.visits, self.data.given(step), strict=True):
            visit.fill_(count)

    def run(self, until: int | None = None) -> Iterator[int]:
        """Train, yielding the number of steps done after each one. Nothing waits for the device in between."""
        while self.step < (self.steps if until is None else min(self.steps, until)):
            part = self.data.turn(self.step)
            self.data.parts[part].prepare(self.data.given(self.step)[part])
            with self._arithmetic():
                if self.device.type != "cuda" or not self.passes.repeatable:
                    with self.workers.undisturbed():
                        self._step(part)
                else:
                    if part not in self._graphs:
                        kept = {name: tensor.clone() for name, tensor in self.state().items()}
                        undo = partial(self.restore, kept, self.step)
                        self._graphs[part] = captured(partial(self._step, part), undo=undo)
                    self._graphs[part]()
            self.step += 1
            yield self.step

    def _step(self, part: int) -> None:
        """One step as device work alone: it reads its number, its batch and its state from tensors."""
        batch = self.data.parts[part].take(self.visits[part])
        self.workers.each(partial(self._differentiate, batch), len(self.parameters.spans))
        with torch.no_grad():
            finite = self.update.healthy() & self.loss.isfinite()
            self.diverged_at.copy_(torch.where(self.alive & ~finite, self.counter, self.diverged_at))
            self.alive.logical_and_(finite)
            self.update.apply(self.counter, self.schedule.rate(self.counter), self.alive)
            self.schedule.observe(self.counter, self.loss)
            self.counter.add_(1)
            self.visits[part].add_(1)

    def _differentiate(self, batch: Batch, chunk: int) -> None:
        """Loss and gradient of one chunk of replicas."""
        start, end = self.parameters.spans[chunk]
        inputs = tuple(x[start:end] for x in batch.inputs)
        loss, grads = self.passes.gradient(chunk, inputs, batch.target[start:end])
        self.parameters.keep(chunk, grads)
        self.loss[start:end] = loss

    @contextmanager
    def _arithmetic(self) -> Iterator[None]:
        """Products of float32 as the trial's precision says, whatever the process has set; a CPU has no TF32."""
        cuda, backends = self.device.type == "cuda", torch.backends
        others: Any = backends.cudnn if cuda else backends.mkldnn
        places: list[Any] = [backends.cuda.matmul if cuda else others.matmul, others.conv, others.rnn]
        wanted = "tf32" if cuda and self.precision not in ("float32", "float64") else "ieee"
        before = [place.fp32_precision for place in places]
        try:
            for place in places:
                place.fp32_precision = wanted
            yield
        finally:
            for place, held in zip(places, before, strict=True):
                place.fp32_precision = held

    @torch.no_grad()
    def scores(self) -> list[dict[str, Score]]:
        """Each replica's loss and metric on each of its test sets, and its training loss over the last epoch."""
        found: list[dict[str, Score]] = [
            {"train": Score(loss, float("nan"))} for loss in self.schedule.state["last_epoch_loss"].tolist()
        ]
        chunks = zip(self.parameters.spans, self.parameters.chunks, strict=True)
        for chunk, ((start, end), params) in enumerate(chunks):
            for name, values in self.parameters.architecture.measures(params).items():
                for replica, value in enumerate(values.tolist(), start):
                    found[replica][name] = Score(value, float("nan"))
            for names, (*inputs, target) in self.tests.groups:
                size = max(self.trials[0].data.batch, EVALUATED_TOGETHER)
                pieces = zip(*(tensor[start:end].split(size, dim=1) for tensor in inputs), strict=True)
                with self._arithmetic(), without_tiny_numbers():
                    prediction = torch.cat([self.passes.predict(chunk, piece) for piece in pieces], dim=1)
                scored = self.tests.scores(names, prediction.to(self.loss.dtype), target[start:end])
                for name, scores in scored.items():
                    for replica, score in enumerate(scores, start):
                        found[replica][name] = score
        return found

    def weights(self, replica: int) -> Params:
        """The weights of one replica as its own model holds them, on the CPU."""
        last = len(self.trials) - 1
        require(0 <= checks.whole("replica", replica) <= last, f"replica={replica}: this fleet has 0 … {last}.")
        return {name: tensor.cpu() for name, tensor in self.parameters.replica(replica).items()}

    def divergence(self) -> list[int | None]:
        """The step at which each replica stopped being finite, if it did."""
        return [None if step < 0 else step for step in self.diverged_at.tolist()]


def _placed(tensors: Params, device: torch.device, dtype: torch.dtype) -> Params:
    """Tensors on a device, numbers in the dtype that is computed in."""
    return {
        name: tensor.to(device, dtype) if tensor.is_floating_point() else tensor.to(device)
        for name, tensor in tensors.items()
    }
