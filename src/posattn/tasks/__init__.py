"""What is to be computed. `get(name)` gives a task, `names()` lists them, `register(task)` adds one of your own.

>>> import torch
>>> task = get("sort")
>>> generator = torch.Generator().manual_seed(0)
>>> x, y = task.sample(1000, length=8, low=-6.0, high=6.0, avoid=(-2.0, 2.0), generator=generator)
>>> torch.equal(y, task.target(x))
True
"""

import dataclasses
import importlib
import pkgutil
from typing import Any

from posattn.checks import choice, instance
from posattn.errors import require, unknown
from posattn.tasks.base import FIXED, UNSCORED, Shape, Task, check_described
from posattn.tasks.khop import KHopInputs, KHopTask
from posattn.tasks.mixed import MixedInputs, MixedTask
from posattn.tasks.numeric import NumericTask
from posattn.tasks.selection import SelectionInputs, SelectionTask
from posattn.tasks.shortest_path import ShortestPathTask

#: The order in which lists show the modules; those that are not named here come last.
ORDER = ("numeric", "shortest_path", "khop", "mixed", "selection")


def _discovered() -> dict[str, Any]:
    """The tasks in `TASKS` of every module of this package, by name: a file that is put here needs nothing else."""
    modules = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules.sort(key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))
    found = [importlib.import_module(f"{__name__}.{module}") for module in modules]
    return {task.name: task for module in found for task in getattr(module, "TASKS", ())}


REGISTRY: dict[str, Any] = _discovered()
#: The tasks that posattn itself registers.
OURS = dict(REGISTRY)


def names() -> list[str]:
    """Every task's name."""
    return list(REGISTRY)


def register(task: Task) -> None:
    """Let `get`, and so every trial, know a task of your own; registering its name again replaces it.

    A task is a frozen dataclass derived from `Task`. Its fields are its options, but for those marked `FIXED`, and
    `Task.loss_key` says which trials of it may share a fleet. Often a `NumericTask` with a function of your own is
    enough:

    >>> import torch
    >>> register(NumericTask(name="negate", summary="every number's negative", function=lambda x: -x))
    >>> get("negate").target(torch.tensor([[[1.0], [-2.0]]])).flatten().tolist()
    [-1.0, 2.0]
    >>> del REGISTRY["negate"]
    """
    instance("task", task, Task, fix="pass a task, as NumericTask(name='negate', summary='', function=torch.neg)")
    check_described(task)
    require(
        dataclasses.is_dataclass(task) and not isinstance(task, type),
        f"task '{task.name}' is a {type(task).__name__}, and that is not a dataclass: options replace a task's fields. "
        "Put @dataclass(frozen=True) above the class.",
    )
    require(task.name not in OURS, f"name='{task.name}' is a task of posattn's own: choose another name.")
    REGISTRY[task.name] = task


def get(name: str, **options: Any) -> Any:
    """The task called `name`; options replace its fields, as in `get("sum", cumulative=False)`."""
    choice("task", name, REGISTRY)
    task = REGISTRY[name]
    for option in options:
        if option not in task.options:
            require(bool(task.options), f"option '{option}': task '{name}' has no options. Leave it out.")
            raise unknown(f"option of task '{name}'", option, task.options)
    return dataclasses.replace(task, **options) if options else task


__all__ = [
    "FIXED",
    "UNSCORED",
    "KHopInputs",
    "KHopTask",
    "MixedInputs",
    "MixedTask",
    "NumericTask",
    "SelectionInputs",
    "SelectionTask",
    "Shape",
    "ShortestPathTask",
    "Task",
    "get",
    "names",
    "register",
]
