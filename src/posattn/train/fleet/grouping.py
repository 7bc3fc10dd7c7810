"""Which trials make one fleet: what they must have in common, and whether a trial's data fits its model.

Both are found out on one sample, before anything is trained.
"""

import dataclasses
import inspect
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from posattn import checks, tasks
from posattn.errors import PosattnError, kind_of, require
from posattn.nn import Architecture, HopTables, Looped, LoopedSlopes, Positional
from posattn.nn.importing import blame
from posattn.nn.module import module_of
from posattn.train import identity
from posattn.train.fleet.data import draw
from posattn.train.runnable import Runnable
from posattn.train.task_symmetry import SAMPLES, check_symmetry, has_symmetry
from posattn.train.trial import Trial
from posattn.train.users_task import check_repeatable, check_scores, is_users

Shapes = tuple[tuple[int, ...], ...]
#: What trials must have in common, by the name of each part.
Key = tuple[tuple[str, Any], ...]
#: Keys that are remembered: a trial's is asked for when fleets are planned, and again when its fleet begins.
REMEMBERED = 2**14


def batched(trial: Runnable) -> TypeGuard[Trial]:
    """Whether a trial trains in fleets."""
    return trial.batched


def shape_key(trial: Trial) -> Key:
    """What trials must have in common to be one fleet."""
    checks.instance("trial", trial, Trial, fix="describe a run, as posattn.train.Trial(task='sum', …)")
    task = tasks.get(trial.task, **trial.task_options)
    _check_hashable(task)
    return _key(trial, task)


def _check_hashable(task: Any) -> None:
    """Tasks are compared by their fields, so these are plain values that cannot be changed."""
    try:
        hash(task)
    except TypeError:
        for field in dataclasses.fields(task):
            if type(held := getattr(task, field.name)).__hash__ is None:
                raise PosattnError(
                    f"task '{task.name}': its field {field.name} is {kind_of(held)}, which may change while it is "
                    "trained on: use a tuple, or a tuple of pairs."
                ) from None
        fix = "write @dataclass(frozen=True) above its class, and tuples in its fields"
        raise PosattnError(f"task '{task.name}' can be changed while it is trained on: {fix}.") from None


@lru_cache(REMEMBERED)
def _key(trial: Trial, task: Any) -> Key:
    """The key of a trial while its name stands for this task."""
    require(
        task.version == trial.task_version,
        f"trial {trial.id} is of version {trial.task_version} of task '{task.name}', and version {task.version} is "
        "registered: register that one, or describe the trial anew.",
    )
    data, evaluation = trial.data, trial.evaluation
    lengths = {f"data of length {length}": {**data.options, "length": length} for length in data.lengths}
    drawn = {
        name: (options, trial.optimiser.steps * data.batch)
        for name, options in (lengths or {"data": data.options}).items()
    }
    trained = set(drawn) if trial.model.training_options else ()
    for one in sorted(trial.test_sets, key=lambda one: one.name):
        drawn[f"test set '{one.name}'"] = (one.options, evaluation.samples)
    shapes = []
    for name, (options, count) in drawn.items():
        try:
            shape = _tried(trial.model, task, _Options(options), training=name in trained)
            reason = trial.model.likely_failure(count, shape)
            require(reason is None, reason or "")
        except PosattnError as error:
            raise PosattnError(f"trial {trial.id}, {name}: {error}") from None
        shapes.append((name, shape))
    return (
        ("model", trial.model.family()),
        ("loss", task.loss_key),
        ("batch", data.batch),
        ("data", (data.fresh, data.lengths)),
        ("samples", tuple(shapes)),
        ("optimiser", dataclasses.replace(trial.optimiser, lr=1.0)),
        ("evaluation", (evaluation.samples, evaluation.every)),
        ("precision", trial.precision),
    )


def check_one_shape(trials: Sequence[Trial]) -> None:
    """Raise where trials do not make one fleet."""
    key = shape_key(trials[0])
    for trial in trials[1:]:
        for (name, first), (_, other) in zip(key, shape_key(trial), strict=True):
            require(
                first == other,
                f"trials {trials[0].id} and {trial.id} differ in their {name} and do not form a fleet: {first} against "
                f"{other}. posattn.engine.run sorts trials into fleets by itself.",
            )


class _Options(dict[str, Any]):
    """Options of samples that nobody changes any more, so that they can be remembered."""

    def __hash__(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return hash(identity.dumps(self))


@cache
def _tried(architecture: Architecture, task: Any, options: _Options, *, training: bool) -> Shapes:
    generator = torch.Generator().manual_seed(0)
    *inputs, target = drawn = draw(task, 1, dict(options), generator, torch.float32)
    if is_users(task):
        check_repeatable(task, drawn, draw(task, 1, dict(options), generator.manual_seed(0), torch.float32))
    model = module_of(architecture, architecture.init(generator))
    prediction = answer = _answer(architecture, task, model, inputs, training=training)
    if not target.is_floating_point():  # one class of several: there must be a logit for each
        given = "vocabulary" if hasattr(architecture, "vocabulary") else "out_dim"
        classes, tables = prediction.shape[-1], isinstance(architecture, HopTables)  # whose last tokens have a meaning
        require(
            task.classes == classes if tables else task.classes <= classes,
            f"task '{task.name}' has {task.classes} classes and the model {classes}: "
            + ("choose its letters and hops by the task." if tables else f"use {given}={task.classes}."),
        )
        answer = prediction[..., 0]
    blocks = "'blocks': True in training and False in test sets" if "every" in architecture.training_options else ""
    require(
        answer.shape == target.shape,
        f"the model answers with shape {tuple(answer.shape)} where task '{task.name}' has {tuple(target.shape)}: "
        + (f"set the samples' option {blocks}." if blocks else "choose its out_dim by the task."),
    )
    check_scores(task, prediction, target)
    if training and isinstance(architecture, Looped | LoopedSlopes) and architecture.schedule != "pairs":
        require(
            inputs[0].shape[1] > 1,
            f"task '{task.name}' with one number: a looped model takes no step there, so nothing is learned. Use more.",
        )
    if isinstance(architecture, Looped):
        check_symmetry(architecture, task, draw(task, SAMPLES, dict(options), generator, torch.float32)[0])
    elif isinstance(architecture, Positional) and architecture.carried:
        for symmetry in architecture.symmetries:
            has_symmetry(symmetry, task, draw(task, SAMPLES, dict(options), generator, torch.float32)[0])
    return tuple(tuple(tensor.shape[1:]) for tensor in (*inputs, target))


@torch.no_grad()
def _answer(architecture: Architecture, task: Any, model: nn.Module, inputs: list[Tensor], *, training: bool) -> Tensor:
    """What a model answers, in training or not, which must take as many tensors as the task gives."""
    places = inspect.signature(model.forward).parameters.values()
    wanted = [place for place in places if place.kind is place.POSITIONAL_OR_KEYWORD]
    least = sum(place.default is place.empty for place in wanted) if architecture.foreign else len(wanted)
    most = len(inputs) if any(place.kind is place.VAR_POSITIONAL for place in places) else len(wanted)
    require(
        least <= len(inputs) <= most,
        f"task '{task.name}' gives {len(inputs)} tensors and the {architecture.label()} model takes {least}: "
        "choose another model.",
    )
    if not architecture.foreign:
        return model(*inputs, **architecture.training_options) if training else model(*inputs)
    try:
        found = model(*inputs)
    except Exception as error:
        shapes = ", ".join(str(tuple(one.shape)) for one in inputs)
        raise PosattnError(
            f"{architecture.label()} fails on inputs of shape {shapes} of task '{task.name}': {blame(error)}."
        ) from error
    if not isinstance(found, Tensor):
        raise PosattnError(f"{architecture.label()} returns {kind_of(found)}: its forward pass must return one tensor.")
    return found
