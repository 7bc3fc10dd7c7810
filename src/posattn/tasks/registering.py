"""What a task must have to be registered, and how a class of tasks becomes one."""

import dataclasses
import inspect
from typing import Any

from posattn.checks import instance, whole
from posattn.errors import PosattnError, require
from posattn.tasks.base import Task, check_described

FIX = "pass a task, as NumericTask(name='negate', summary='', function=torch.neg), or a class derived from Task"


def of_class(kind: type[Any]) -> Task:
    """The task that a class describes, with every option at its default; the class becomes a frozen dataclass."""
    if not issubclass(kind, Task):
        raise PosattnError(f"task is the class {kind.__name__}: {FIX}.")
    missing = sorted(getattr(kind, "__abstractmethods__", ()))
    require(not missing, f"task class {kind.__name__} has no {' and no '.join(missing)}: write {missing}.")
    if "__dataclass_fields__" not in vars(kind):
        try:
            dataclasses.dataclass(frozen=True)(kind)
        except (TypeError, ValueError) as error:
            raise PosattnError(f"task class {kind.__name__} cannot be a frozen dataclass: {error}.") from None
    made: Any = kind
    needed = [field.name for field in dataclasses.fields(made) if field.init and _has_no_default(field)]
    require(
        not needed,
        f"task class {kind.__name__}: {', '.join(needed)} has no default. Give it one, or register a task: "
        f"register({kind.__name__}({', '.join(f'{name}=…' for name in needed)})).",
    )
    return kind()


def check_registered(task: Any) -> None:
    """A task describes itself, is a frozen dataclass that can be hashed, and draws samples from a generator."""
    instance("task", task, Task, fix=FIX)
    for attribute in ("name", "summary"):
        require(
            hasattr(task, attribute),
            f"task class {type(task).__name__} has no {attribute}: write one into the class, as {attribute} = 'mine'.",
        )
    check_described(task)
    require(
        dataclasses.is_dataclass(task),
        f"task '{task.name}' is a {type(task).__name__}, and that is not a dataclass: options replace a task's fields. "
        "Put @dataclass(frozen=True) above the class.",
    )
    try:
        hash(task)
    except TypeError as error:
        raise PosattnError(
            f"task '{task.name}' cannot be told from others ({error}): put @dataclass(frozen=True) above its class and "
            "use tuples for lists in its fields."
        ) from None
    if task.classes is not None:
        whole("classes", task.classes, least=1)
    _check_sample(task)


def _check_sample(task: Any) -> None:
    sample = getattr(task, "sample", None)
    if not callable(sample):
        raise PosattnError(f"task '{task.name}' has no sample: write sample(self, count, *, generator).")
    places = list(inspect.signature(sample).parameters.values())
    named = [place for place in places if place.name == "generator" or place.kind is place.VAR_KEYWORD]
    require(
        len(named) > 0 and any(place not in named for place in places),
        f"task '{task.name}': sample{inspect.signature(sample)} must take a count and a generator: "
        "sample(self, count, *, generator).",
    )


def _has_no_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
