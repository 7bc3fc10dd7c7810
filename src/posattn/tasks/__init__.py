"""What is to be computed. `get(name)` gives a task, `names()` lists them.

>>> import torch
>>> task = get("sort")
>>> generator = torch.Generator().manual_seed(0)
>>> x, y = task.sample(1000, length=8, low=-6.0, high=6.0, avoid=(-2.0, 2.0), generator=generator)
>>> torch.equal(y, task.target(x))
True
"""

import dataclasses
from typing import Any

from posattn.checks import choice
from posattn.errors import require, unknown
from posattn.tasks.base import Shape, Task
from posattn.tasks.khop import KHOP_TASKS, KHopInputs, KHopTask
from posattn.tasks.mixed import MIXED_TASKS, MixedInputs, MixedTask
from posattn.tasks.numeric import NUMERIC_TASKS, NumericTask
from posattn.tasks.selection import SELECTION_TASKS, SelectionInputs, SelectionTask
from posattn.tasks.shortest_path import ShortestPathTask

REGISTRY: dict[str, Any] = {
    task.name: task for task in (*NUMERIC_TASKS, ShortestPathTask(), *KHOP_TASKS, *MIXED_TASKS, *SELECTION_TASKS)
}

#: What makes a task that task, and is no option.
FIXED = ("name", "summary", "function", "nodes_per_number", "every_token", "operations", "version")


def names() -> list[str]:
    """Every task's name."""
    return list(REGISTRY)


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
]
