"""What a task is: it samples inputs, knows the exact target, and owns loss, metric and the scored nodes."""

import dataclasses
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from posattn import checks, devices, user_code
from posattn.errors import require
from posattn.tasks import scoring


class Shape(NamedTuple):
    """What a model for a task needs: how many nodes, and how wide each one's input and output are."""

    nodes: int
    in_dim: int
    out_dim: int


#: Metadata of a task's field that makes the task what it is, so that it cannot be given as an option.
FIXED = {"option": False}
#: Metadata of a field that neither loss nor metric reads: tasks that differ in nothing else may share a fleet.
UNSCORED = {"scored": False}
#: Fields that every task has. They are not options, and no score depends on them.
DESCRIPTION = ("name", "summary", "version")


class Task(ABC):
    """Something to be computed: a frozen dataclass, whose fields are its options.

    A task of your own needs a name, a summary, `sample` and `target`. Losses and metrics take predictions and targets
    with any number of leading (replica) axes and return one value for each of them, so that one model and a fleet of
    models are scored by the same line. That line is one task's for the whole fleet, and `loss_key` says which tasks
    agree on it.
    """

    name: str
    summary: str
    metric_name: str = "accuracy"
    #: How many classes there are where targets are whole numbers; a model has a logit for each.
    classes: int | None = None
    #: Raised by whoever changes what a task computes: results of another version are other results.
    version: int = 1

    @property
    def options(self) -> tuple[str, ...]:
        """The fields that `tasks.get(name, option=…)` may replace: all but those marked `FIXED`."""
        task: Any = self  # a dataclass, as `tasks.register` makes sure
        marks = {field.name: field.metadata for field in dataclasses.fields(task) if field.name not in DESCRIPTION}
        return tuple(name for name, marked in marks.items() if marked.get("option", True))

    @property
    def loss_key(self) -> tuple[Any, ...]:
        """What tasks must have in common to share a fleet: how they score, and every field that may enter a score.

        A task that says nothing about that is safe. Its loss may ask its class for anything, so classes that are not
        posattn's own share no fleet with another; and only fields marked `UNSCORED` are left out, where the mark is of
        the class whose loss and metric they are.
        """
        task: Any = self
        kind = type(task)
        ours = kind.__module__.startswith("posattn.tasks.")
        key: list[Any] = [kind.loss, kind.metric, None if ours else kind]
        for field in dataclasses.fields(task):
            owner: Any = next(one for one in kind.__mro__ if field.name in inspect.get_annotations(one))
            marked = not field.metadata.get("scored", True) and [owner.loss, owner.metric] == key[:2]
            if field.name not in DESCRIPTION and not marked:
                key.append((field.name, getattr(task, field.name)))
        return tuple(key)

    #: `sample(count, *, generator, ...)` draws `count` inputs and their exact targets. Its other options belong to
    #: the task; the same generator state gives the same data.
    sample: Callable[..., tuple[Any, Tensor]]

    @abstractmethod
    def target(self, inputs: Any) -> Tensor:
        """The exact answer."""

    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        """What training minimises: the mean squared error of numbers, the cross-entropy of classes."""
        axes = self._scored_axes(prediction, target)
        score = scoring.squared_error if target.is_floating_point() else scoring.cross_entropy
        return score(prediction, target, axes=axes)

    def metric(self, prediction: Tensor, target: Tensor) -> Tensor:
        """What people quote: the share of samples with all numbers within rtol = atol = 0.1, or of right classes.

        `metric_name` says what it is.
        """
        axes = self._scored_axes(prediction, target)
        score = scoring.solved if target.is_floating_point() else scoring.share_right
        return score(prediction, target, axes=axes)

    def _scored_axes(self, prediction: Tensor, target: Tensor) -> int:
        """How many axes a batch of targets has; those before them are replicas."""
        axes = _one_sample(self)[1].dim()
        floating = checks.tensor(f"task '{self.name}': the target", target).is_floating_point()
        check = scoring.check_scored if floating else scoring.check_classified
        check(self.name, prediction, target, axes=axes)
        return axes

    def example(self) -> str:
        """One small input and its target, computed on the spot."""
        inputs, target = _one_sample(self)
        shown = map(_shown, inputs if isinstance(inputs, tuple) else (inputs,))
        return f"{', '.join(shown)} → {_shown(target)}"

    def choosing(self, options: Mapping[str, Any]) -> "Task":
        """The same task with other options, which are its fields."""
        task: Any = self
        return dataclasses.replace(task, **options) if options else task

    def settled_options(self, options: dict[str, Any]) -> dict[str, Any]:
        """The options that a trial's id holds: those that were chosen, and whatever else tells which task it is."""
        return options


@cache
def _one_sample(task: Any) -> tuple[Any, Tensor]:
    """One sample with default options, from which a task's loss and example know what its targets look like."""
    needed = [name for name, default in sample_options(task).items() if default is inspect.Parameter.empty]
    require(
        not needed,
        f"task '{task.name}': sample needs {', '.join(needed)}, and a default loss or example draws one sample without "
        f"options. Give {needed[0] if needed else ''} a default, or write loss, metric and example.",
    )
    with user_code.named(f"task '{task.name}': sample", owner=task):
        return task.sample(1, generator=torch.Generator().manual_seed(0))


def _shown(tensor: Tensor, most: int = 8) -> str:
    numbers = tensor.flatten().tolist()
    return " ".join(f"{number:.3g}" for number in numbers[:most]) + (" …" if len(numbers) > most else "")


#: What `sample` of every task may take besides the count, which comes first, and the options of its own.
NO_OPTIONS = ("generator", "device", "dtype")


def sample_options(task: Any) -> dict[str, Any]:
    """The options that a task's samples are drawn with, and their defaults (`Parameter.empty` where there is none)."""
    _, *places = inspect.signature(task.sample).parameters.values()
    return {place.name: place.default for place in places if place.name not in NO_OPTIONS}


def drawing_device(count: int, generator: torch.Generator, device: str | torch.device | None) -> torch.device:
    """The device to draw on: the generator's, checked against the one that was asked for."""
    require(checks.whole("count", count) >= 1, f"count={count}: draw at least one sample.")
    checks.generator(generator)
    if device is None:
        return generator.device
    wanted = devices.resolve(device)
    require(
        wanted.type == generator.device.type,
        f"device='{wanted}' but the generator lives on '{generator.device}': make it with torch.Generator('{wanted}').",
    )
    return wanted


def check_described(task: Task) -> None:
    """A task has a name and says in a few words what it computes."""
    checks.text("name", task.name)
    checks.instance("summary", task.summary, str, fix="say in a few words what the task computes")
    checks.whole("version", task.version, least=1)


def check_inputs(name: str, inputs: Any, kind: Any) -> tuple[Tensor, ...]:
    """The tensors of a task's inputs, which come as a tuple of its own kind."""
    checks.instance(f"task '{name}': the input", inputs, kind, fix=f"pass a {kind.__name__}, as sample() draws it")
    tensors = {field: value for field, value in zip(kind._fields, inputs, strict=True) if value is not None}
    return tuple(checks.tensor(f"task '{name}': {field}", value) for field, value in tensors.items())


def check_dtype(dtype: torch.dtype) -> None:
    """The dtype of random numbers must be floating point."""
    require(
        isinstance(dtype, torch.dtype) and dtype.is_floating_point,
        f"dtype={dtype!r}: numbers are floating point, whole or not. Use torch.float32.",
    )


def check_numbers(name: str, x: Tensor, *, width: int | None) -> None:
    """x must be finite floating-point numbers of shape (batch, nodes, width)."""
    checks.tensor(f"task '{name}': the input", x)
    shown = "width" if width is None else width
    require(
        x.dim() == 3 and x.shape[1] >= 1 and (width is None or x.shape[2] == width),
        f"task '{name}': the input has shape {tuple(x.shape)}, it must be (batch, nodes, {shown}).",
    )
    require(
        x.is_floating_point(),
        f"task '{name}': the input has dtype {x.dtype}, it must be floating point: use x.float().",
    )
    checks.finite(f"task '{name}': the input", x)
