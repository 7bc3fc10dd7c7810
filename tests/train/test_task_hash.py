"""What tells a user's task from another one: the source, and all that its functions have captured."""

import dataclasses
import functools
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from posattn import PosattnError, tasks
from posattn.tasks import NumericTask
from posattn.train.task_hash import UNKNOWN, same, source_hash


def hashed(function: Any) -> str | None:
    return source_hash(NumericTask(name="mine", summary="", function=function))


def scaled(x: torch.Tensor, k: float) -> torch.Tensor:
    return x * k


def made(k: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: x * k


class Scaling:
    def __init__(self, k: float) -> None:
        self.k = k

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.k


class Slotted:
    __slots__ = ("k",)

    def __init__(self, k: float) -> None:
        self.k = k

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.k


@dataclasses.dataclass(frozen=True)
class Fielded(NumericTask):
    factor: float = 1.0


def in_module(text: str) -> Any:
    scope: dict[str, Any] = {"torch": torch, "__name__": "users"}
    exec(text, scope)
    return scope["function"]


def with_default(k: float) -> Any:
    return in_module(f"def function(x, k={k}): return x * k")


def with_global(k: float) -> Any:
    return in_module(f"K = {k}\ndef function(x): return x * K")


def with_nested_global(k: float) -> Any:
    return in_module(f"K = {k}\ndef function(x): return torch.stack([row * K for row in x])")


def with_helper(k: float) -> Any:
    return in_module(f"def helper(x): return x * {k}\ndef function(x): return helper(x)")


def with_class_attribute(k: float) -> Any:
    return in_module(f"class C:\n    k = {k}\n    def __call__(self, x): return x * self.k\nfunction = C()")


def wrapping_ours(k: float) -> Any:
    """A wrapper takes over the name and the module of what it wraps."""

    @functools.wraps(tasks.get("sort").function)
    def wrapper(x: torch.Tensor) -> torch.Tensor:
        return x * k

    return wrapper


CAPTURING: dict[str, Callable[[float], Any]] = {
    "partial": lambda k: functools.partial(scaled, k=k),
    "partial's argument": lambda k: functools.partial(scaled, torch.ones(1) * k),
    "closure": made,
    "closure over an array": lambda k: made(np.full(3, k)),
    "closure over a tensor": lambda k: made(torch.full((3,), k)),
    "object": Scaling,
    "object with slots": Slotted,
    "bound method": lambda k: Scaling(k).__call__,
    "default": with_default,
    "global": with_global,
    "global of an inner function": with_nested_global,
    "helper": with_helper,
    "class attribute": with_class_attribute,
    "wrapper": wrapping_ours,
    "cached": lambda k: functools.lru_cache(made(k)),
    "lambdas on one line": lambda k: {2.0: (lambda x: x * 2), 3.0: (lambda x: x * 3)}[k],
    "functions of ours": lambda k: tasks.get({2.0: "min", 3.0: "max"}[k]).function,
    "functions of torch": lambda k: {2.0: torch.neg, 3.0: torch.abs}[k],
}


@pytest.mark.parametrize("how", CAPTURING)
def test_a_function_that_has_captured_something_else_is_another_function(how: str) -> None:
    first, again, second = (hashed(CAPTURING[how](k)) for k in (2.0, 2.0, 3.0))
    assert first == again
    assert first is not None
    assert first != UNKNOWN
    assert first != second


def test_a_field_of_a_users_task_counts_and_its_summary_does_not() -> None:
    task = Fielded("mine", "", made(2.0))
    assert source_hash(task) == source_hash(dataclasses.replace(task, summary="other words", version=2))
    assert source_hash(task) != source_hash(dataclasses.replace(task, factor=2.0))


def test_only_the_task_that_posattn_registers_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert source_hash(tasks.get("sort")) is None
    assert source_hash(dataclasses.replace(tasks.get("sort"), name="mine")) is not None
    monkeypatch.setitem(tasks.REGISTRY, "sort", dataclasses.replace(tasks.get("sort")))
    assert source_hash(tasks.get("sort")) is not None


def test_what_cannot_be_looked_into_equals_nothing() -> None:
    found = hashed(np.vectorize(abs))
    assert found == UNKNOWN
    assert not same(found, found)
    assert same(None, None)
    assert same("a", "a")
    assert same(None, "a")
    assert not same("a", "b")


def test_what_runs_change_and_what_holds_itself_do_not_disturb() -> None:
    counting = in_module("n, seen = 0, []\ndef function(x):\n  global n\n  n += 1\n  seen.append(n)\n  return x")
    before = hashed(counting)
    counting(1)
    assert hashed(counting) == before
    held: list[Any] = []
    held.append(held)
    assert hashed(made(held)) not in (None, UNKNOWN)


def test_the_hash_is_the_same_in_every_process() -> None:
    program = """
from posattn.tasks import NumericTask
from posattn.train.task_hash import source_hash
WORDS = frozenset({"a", "b", "c", "d"})
def function(x, words={"u", "v", "w"}):
    return x if "q" in {"k", "l", "m"} or WORDS else -x
print(source_hash(NumericTask("mine", "", function)))
"""
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


# ---- register


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "REGISTRY", dict(tasks.REGISTRY))


@pytest.mark.usefixtures("registry")
def test_a_task_of_a_users_own_can_be_registered_and_replaced() -> None:
    x = torch.tensor([[[1.0], [-2.0]]])
    for factor in (2.0, 3.0):
        tasks.register(NumericTask(name="mine", summary="", function=made(factor)))
        assert torch.equal(tasks.get("mine").target(x), factor * x)
    assert tasks.names()[-1] == "mine"


@pytest.mark.usefixtures("registry")
def test_a_task_under_a_name_of_posattns_is_refused() -> None:
    ours = tasks.get("sum")
    with pytest.raises(PosattnError, match=r"name='sum' is a task of posattn's own: choose another name\."):
        tasks.register(NumericTask(name="sum", summary="", function=torch.neg))
    assert tasks.get("sum") == ours


@pytest.mark.usefixtures("registry")
def test_a_task_that_is_no_dataclass_is_refused() -> None:
    class Bare(tasks.Task):
        name, summary, metric_name = "bare", "", "error"

        def target(self, inputs: Any) -> torch.Tensor:
            return inputs

        def loss(self, prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            return prediction - target

        def metric(self, prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            return prediction - target

        def example(self) -> str:
            return ""

    with pytest.raises(PosattnError, match=r"task 'bare' is a Bare, and that is not a dataclass.*@dataclass"):
        tasks.register(Bare())
