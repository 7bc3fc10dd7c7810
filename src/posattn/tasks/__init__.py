"""What is to be computed. `get(name)` gives a task, `names()` lists them, `register(task)` adds one of your own.

>>> import torch
>>> task = get("sort")
>>> generator = torch.Generator().manual_seed(0)
>>> x, y = task.sample(1000, length=8, low=-6.0, high=6.0, avoid=(-2.0, 2.0), generator=generator)
>>> torch.equal(y, task.target(x))
True
"""

import dataclasses
from typing import Any

from posattn.checks import choice, instance
from posattn.errors import require, unknown
from posattn.tasks.base import Shape, Task, check_described
from posattn.tasks.khop import KHOP_TASKS, KHopInputs, KHopTask
from posattn.tasks.mixed import MIXED_TASKS, MixedInputs, MixedTask
from posattn.tasks.numeric import NUMERIC_TASKS, NumericTask
from posattn.tasks.selection import SELECTION_TASKS, SelectionInputs, SelectionTask
from posattn.tasks.shortest_path import ShortestPathTask

REGISTRY: dict[str, Any] = {
    task.name: task for task in (*NUMERIC_TASKS, ShortestPathTask(), *KHOP_TASKS, *MIXED_TASKS, *SELECTION_TASKS)
}
#: The tasks that posattn itself registers.
OURS = dict(REGISTRY)

#: What makes a task that task, and is no option.
FIXED = ("name", "summary", "function", "nodes_per_number", "every_token", "operations", "version")


def names() -> list[str]:
    """Every task's name."""
    return list(REGISTRY)


def register(task: Task) -> None:
    """Let `get`, and so every trial, know a task of your own; registering its name again replaces it.

    A task is a frozen dataclass derived from `Task`. Often a `NumericTask` with a function of your own is enough:

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
    fields = [field.name for field in dataclasses.fields(task) if field.name not in FIXED]
    for option in options:
        require(bool(fields), f"option '{option}': task '{name}' has no options. Leave it out.")
        if option not in fields:
            raise unknown(f"option of task '{name}'", option, fields)
    return dataclasses.replace(task, **options)


__all__ = [
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
