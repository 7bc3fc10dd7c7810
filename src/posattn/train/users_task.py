"""Whether a user's task draws what it is asked for and scores every replica: found out before anything is trained.

posattn's own tasks are tested and skip these checks; they would wait for the device at every draw.
"""

from typing import Any

import torch
from torch import Tensor

from posattn import tasks, user_code
from posattn.errors import PosattnError, kind_of, require


def is_users(task: Any) -> bool:
    """Whether a task is not one of posattn's own."""
    return task.name not in tasks.OURS


def drawn_by(task: Any, count: int, options: dict[str, Any], generator: torch.Generator) -> tuple[Any, Tensor]:
    """`task.sample(…)`, checked: `count` samples, finite numbers, classes that there are."""
    with user_code.named(f"task '{task.name}': sample", owner=task):
        drawn = task.sample(count, **options, generator=generator)
    sample = f"task '{task.name}': sample{_at(task.sample)}"
    if not isinstance(drawn, tuple) or len(drawn) != 2:
        raise PosattnError(f"{sample} gave {kind_of(drawn)}: return inputs and targets, as (x, self.target(x)).")
    inputs, target = drawn
    for name, tensor in (*(("input", one) for one in _several(inputs)), ("target", target)):
        if not isinstance(tensor, Tensor):
            raise PosattnError(f"{sample} gave {kind_of(tensor)} as {name}: return tensors, torch.as_tensor({name}).")
        require(
            tensor.dim() >= 1 and len(tensor) == count,
            f"{sample} gave {name}s of shape {tuple(tensor.shape)} where {count} samples were asked for: the first "
            "axis must be the samples.",
        )
        _check_finite(task, name, tensor)
    if not target.is_floating_point():
        _check_classes(task, target)
    return inputs, target


def check_repeatable(task: Any, first: list[Tensor], again: list[Tensor]) -> None:
    """The same generator gives the same samples, or a trial would be another one every time."""
    same = len(first) == len(again) and all(map(torch.equal, first, again))
    require(
        same,
        f"task '{task.name}': sample{_at(task.sample)} gives other samples for the same generator: draw all numbers "
        "from it, as torch.randn(…, generator=generator).",
    )


def check_scores(task: Any, prediction: Tensor, target: Tensor) -> None:
    """Loss and metric give one value for each replica, here two copies of a model's answer to one sample."""
    two = [tensor.expand(2, *tensor.shape).contiguous() for tensor in (prediction, target)]
    for name in ("loss", "metric"):
        score = getattr(task, name)
        with user_code.named(f"task '{task.name}': {name}", owner=task):
            found = score(*two)
        shape = tuple(found.shape) if isinstance(found, Tensor) else kind_of(found)
        axes = tuple(range(-target.dim(), 0))
        require(
            shape == (2,),
            f"task '{task.name}': {name}{_at(score)} gives {shape} for predictions of 2 replicas, "
            f"{tuple(two[0].shape)}, and targets {tuple(two[1].shape)}. Leading axes are replicas, and each needs a "
            f"value of its own, (2,): reduce over the target's last axes only, as .mean(dim={axes}).",
        )


def _several(inputs: Any) -> tuple[Any, ...]:
    return inputs if isinstance(inputs, tuple) else (inputs,)


def _at(function: Any) -> str:
    """Where a user's function is written, in brackets."""
    place = user_code.defined_at(function)
    return "" if place is None else f" ({place})"


def _check_finite(task: Any, name: str, tensor: Tensor) -> None:
    if tensor.is_floating_point() and not tensor.isfinite().all():
        at = (~tensor.isfinite()).nonzero()[0].tolist()
        made = task.target if name == "target" else task.sample
        place = _at(getattr(task, "function", made)) or _at(made) or _at(task.sample)
        raise PosattnError(
            f"task '{task.name}': the {name}s hold {tensor[tuple(at)].item()} at {at}{place}. Training needs finite "
            "numbers: remove NaN and infinite values first."
        )


def _check_classes(task: Any, target: Tensor) -> None:
    require(
        task.classes is not None,
        f"task '{task.name}' has targets of {target.dtype}, which are classes: say how many there are, as classes = 3. "
        "Numbers are floating point: use .float().",
    )
    least, most = int(target.min()), int(target.max())
    require(
        least >= 0 and most < task.classes,
        f"task '{task.name}' has a target of class {least if least < 0 else most}, and classes={task.classes}: classes "
        f"count from 0 to {task.classes - 1}.",
    )
