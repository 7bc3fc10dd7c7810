"""Whether a user's task or module is still the one that a result was made with: a hash of what decides its results."""

import dataclasses
import hashlib
from collections.abc import Iterable
from typing import Any

from posattn import tasks
from posattn.nn import AnyModule, Architecture
from posattn.nn.importing import named
from posattn.train.task_text import Teller, state

#: Says that a task holds something of which nothing lasting can be told. It equals nothing, itself included.
UNKNOWN = "unknown"
#: Fields that do not change what a task computes, or that a trial's id has already.
ASIDE = ("name", "summary", "version")


def source_hash(task: Any) -> str | None:
    """A hash of a task's class, functions and fields, and of what they have captured; None for posattn's own tasks.

    None, too, for fixed data: a trial's id has the hash of that already. `UNKNOWN` where a task computes by something
    that cannot be looked into, such as a traced function.
    """
    if type(task) is tasks.Fixed:
        return None
    own = tasks.OURS.get(task.name)
    if own is not None and tasks.REGISTRY.get(task.name) is own and type(task) is type(own):
        fixed = [field.name for field in dataclasses.fields(own) if field.name not in own.options]
        if all(getattr(task, name) == getattr(own, name) for name in fixed):
            return None
    fields = {name: value for name, value in state(task).items() if name not in ASIDE}
    return _hash(Teller([type(task), *fields.values()]), type(task), fields)


def module_hash(model: Architecture) -> str | None:
    """A hash of the function that makes a user's module, and of what it has captured; None for posattn's own models."""
    if not isinstance(model, AnyModule):
        return None
    factory = named(model.factory)
    return _hash(Teller([factory]), factory)


def joined_hash(hashes: Iterable[str]) -> str:
    """One hash of several; `UNKNOWN` where one of them is."""
    first, *others = hashes
    if not others or UNKNOWN in (first, *others):
        return UNKNOWN if UNKNOWN in (first, *others) else first
    return hashlib.sha256(" ".join((first, *others)).encode()).hexdigest()[:16]


def _hash(teller: Teller, *parts: Any) -> str:
    try:
        told = "\n".join(teller.tell(part) for part in parts)
    except RecursionError:
        return UNKNOWN
    return UNKNOWN if teller.unknown else hashlib.sha256(told.encode()).hexdigest()[:16]


def same(kept: str | None, now: str | None) -> bool:
    """Whether a task is the one that a hash was kept of; where none was kept, it counts as the same."""
    return now is None or (now != UNKNOWN and kept in (None, now))
