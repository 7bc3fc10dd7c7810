"""Spoil a valid call in one place, and say what must come of it."""

import inspect
import re
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .calls import Arguments, Later
from .rules import EXTRA, FINE, matching
from .values import Bad, by_kind
from .walk import parameters

Public = Mapping[str, Callable[..., Any]]
Case = tuple[str, str, Bad]

#: What an answer to a mistake may take, on a machine that is busy.
SECONDS = 4.0


def cases(name: str, function: Callable[..., Any], valid: Arguments) -> list[Case]:
    """Every wrong value of every parameter, without those that are right there, and with those of its own."""
    found: list[Case] = []
    for parameter in parameters(function).values():
        good = valid.get(parameter.name, None if parameter.default is parameter.empty else parameter.default)
        fine = {label for labels in matching(FINE, name, parameter.name) for label in labels}
        usual = [] if "all" in fine else [bad for bad in by_kind(parameter, good) if bad.label not in fine]
        own = [bad for several in matching(EXTRA, name, parameter.name) for bad in several]
        found += [(name, parameter.name, bad) for bad in (*usual, *own)]
    return found


def missing(public: Public, calls: Mapping[str, Callable[[], Arguments]]) -> list[str]:
    """What is public without a valid call, and the parameters without a bad value."""
    found = []
    for name, function in public.items():
        if not parameters(function):
            continue
        if name not in calls:
            found.append(f"{name}: no valid call")
            continue
        covered = {parameter for _, parameter, _ in cases(name, function, calls[name]())}
        found += [f"{name}({parameter}): no bad case" for parameter in parameters(function) if parameter not in covered]
    return found


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """A mistake is answered at once: work that goes on for longer ends as a failure, not as a hanging test."""

    def stop(*_: object) -> None:
        raise AssertionError(f"still at work after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def call(name: str, function: Callable[..., Any], arguments: Arguments) -> Any:
    """Call it with arguments as the table writes them."""
    given = {key: value.make() if isinstance(value, Later) else value for key, value in arguments.items()}
    owner, method = given.pop("self", None), name.rpartition(".")[2]
    called = function if owner is None else owner if method in ("forward", "__call__") else getattr(owner, method)
    taken = inspect.signature(function).parameters.values()
    several = next((parameter.name for parameter in taken if parameter.kind is parameter.VAR_POSITIONAL), None)
    options = next((parameter.name for parameter in taken if parameter.kind is parameter.VAR_KEYWORD), None)
    positional: list[Any] = []
    if several in given:  # what stands before them must be passed by place as well
        order = [parameter.name for parameter in taken]
        positional = [given.pop(key) for key in order[: order.index(several)] if key in given]
        inputs = given.pop(several)
        positional += inputs if isinstance(inputs, tuple) else [inputs]
    return called(*positional, **(given | given.pop(options, {}) if options in given else given))


def tells(message: str, bad: Bad) -> list[str]:
    """What the message leaves out of value, reason and fix."""
    lacking = []
    if not any(form in message for form in bad.forms):
        lacking.append(f"the value, as one of {bad.forms}")
    if bad.nearest is not None and f"did you mean '{bad.nearest}'" not in message:
        lacking.append(f"the nearest name, {bad.nearest!r}")
    if len(re.findall(r"\S[:;.,]\s+\S", message)) < 1 or len(message.split()) < 4:
        lacking.append("a reason and a fix")
    return lacking
