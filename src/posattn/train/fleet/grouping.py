"""Whether a trial's data fits its model: tried on one sample, before anything is trained."""

import inspect
from functools import cache
from typing import Any

import torch

from posattn import tasks
from posattn.errors import PosattnError, require
from posattn.nn import Architecture, model_of
from posattn.train.fleet.data import draw, options_at
from posattn.train.trial import Trial

Shapes = tuple[tuple[int, ...], ...]


def sample_shapes(trial: Trial) -> dict[str, Shapes]:
    """Shapes of one sample's inputs and target: in the training data, by length, and in each test set."""
    task = tasks.get(trial.task, **trial.task_options)
    require(
        task.version == trial.task_version,
        f"trial {trial.id} is of version {trial.task_version} of task '{task.name}', and version {task.version} is "
        "registered: register that one, or describe the trial anew.",
    )
    drawn = {f"data of length {length}": options_at(trial, length) for length in trial.data.lengths}
    drawn = drawn or {"data": options_at(trial, None)}
    counts = dict.fromkeys(drawn, trial.optimiser.steps * trial.data.batch)
    drawn |= {f"test set '{name}'": trial.test_options(name) for name in sorted(trial.evaluation.sets)}
    found = {}
    for name, options in drawn.items():
        try:
            found[name] = _tried(trial.model, task, tuple(options.items()))
            reason = trial.model.likely_failure(counts.get(name, trial.evaluation.samples), found[name])
            require(reason is None, reason or "")
        except PosattnError as error:
            raise PosattnError(f"trial {trial.id}, {name}: {error}") from None
    return found


@cache
def _tried(architecture: Architecture, task: Any, options: tuple[tuple[str, Any], ...]) -> Shapes:
    generator = torch.Generator().manual_seed(0)
    *inputs, target = draw(task, 1, dict(options), generator, torch.float32)
    model = model_of(architecture, architecture.init(generator))
    places = inspect.signature(model.forward).parameters.values()
    taken = sum(place.kind is place.POSITIONAL_OR_KEYWORD for place in places)
    require(
        len(inputs) == taken,
        f"task '{task.name}' gives {len(inputs)} tensors and the {architecture.kind} model takes {taken}: "
        "choose another model.",
    )
    with torch.no_grad():
        prediction = model(*inputs)
    if not target.is_floating_point():  # one class of several: there must be a logit for each
        require(
            task.vocabulary <= prediction.shape[-1],
            f"task '{task.name}' has {task.vocabulary} tokens and the model {prediction.shape[-1]}: "
            f"use vocabulary={task.vocabulary}.",
        )
        prediction = prediction[..., 0]
    require(
        prediction.shape == target.shape,
        f"the model answers with shape {tuple(prediction.shape)} where task '{task.name}' has {tuple(target.shape)}: "
        "choose its out_dim by the task.",
    )
    return tuple(tuple(tensor.shape[1:]) for tensor in (*inputs, target))
