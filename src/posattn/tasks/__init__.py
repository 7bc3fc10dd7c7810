"""What is to be computed. `get(name)` gives a task, `names()` lists them, `register(task)` adds one of your own.

>>> import torch
>>> task = get("sort")
>>> generator = torch.Generator().manual_seed(0)
>>> x, y = task.sample(1000, length=8, low=-6.0, high=6.0, avoid=(-2.0, 2.0), generator=generator)
>>> torch.equal(y, task.target(x))
True
"""

import importlib
import pkgutil
from typing import Any, TypeVar

from posattn.checks import choice
from posattn.errors import require, unknown
from posattn.tasks.alignment import AlignmentTask
from posattn.tasks.base import FIXED, UNSCORED, Shape, Task
from posattn.tasks.fixed import Fixed
from posattn.tasks.graphs import AllPairsTask, ReachabilityTask, WidestPathTask
from posattn.tasks.khop import KHopInputs, KHopTask
from posattn.tasks.mixed import MixedInputs, MixedTask
from posattn.tasks.numeric import NumericTask
from posattn.tasks.registering import check_registered, of_class
from posattn.tasks.selection import SelectionInputs, SelectionTask
from posattn.tasks.shortest_path import ShortestPathTask

T = TypeVar("T", bound=Task | type[Task])

#: The order in which lists show the modules; those that are not named here come last.
ORDER = ("numeric", "shortest_path", "graphs", "alignment", "khop", "mixed", "selection")


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


def register(task: T) -> T:
    """Let `get`, and so every trial, know a task of your own; registering its name again replaces it.

    Works on a task and, as a decorator, on a class of tasks, which it makes a frozen dataclass:

    >>> import torch
    >>> @register
    ... class Parity(Task):
    ...     name = "parity"
    ...     summary = "whether each prefix has an odd number of ones"
    ...     def sample(self, count, *, length=8, generator):
    ...         x = torch.randint(2, (count, length, 1), generator=generator, device=generator.device).float()
    ...         return x, self.target(x)
    ...     def target(self, inputs):
    ...         return inputs.cumsum(1) % 2
    >>> get("parity").target(torch.tensor([[[1.0], [1.0], [0.0]]])).flatten().tolist()
    [1.0, 0.0, 0.0]
    >>> del REGISTRY["parity"]

    A task's fields are its options, but for those marked `FIXED`, and `Task.loss_key` says which trials of it may share
    a fleet. Often a `NumericTask` with a function of your own is enough:
    `register(NumericTask(name="negate", summary="every number's negative", function=torch.neg))`.
    """
    made = of_class(task) if isinstance(task, type) else task
    check_registered(made)
    require(made.name not in OURS, f"name='{made.name}' is a task of posattn's own: choose another name.")
    REGISTRY[made.name] = made
    return task


def get(name: str, **options: Any) -> Any:
    """The task called `name`; options replace its fields, as in `get("sum", cumulative=False)`."""
    choice("task", name, REGISTRY)
    task = REGISTRY[name]
    for option in options:
        if option not in task.options:
            require(bool(task.options), f"option '{option}': task '{name}' has no options. Leave it out.")
            raise unknown(f"option of task '{name}'", option, task.options)
    return task.choosing(options)


__all__ = [
    "FIXED",
    "UNSCORED",
    "AlignmentTask",
    "AllPairsTask",
    "Fixed",
    "KHopInputs",
    "KHopTask",
    "MixedInputs",
    "MixedTask",
    "NumericTask",
    "ReachabilityTask",
    "SelectionInputs",
    "SelectionTask",
    "Shape",
    "ShortestPathTask",
    "Task",
    "WidestPathTask",
    "get",
    "names",
    "register",
]
