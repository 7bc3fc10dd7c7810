"""Whether a user's task is still the one that a result was made with: a hash of what its author wrote."""

import hashlib
import inspect
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any


def source_hash(task: Any) -> str | None:
    """A hash of the source of a task's class and functions, as far as they are not posattn's; None if all of them are.

    Where Python has no source (a class typed into a shell), the compiled code stands for it.
    """
    written = [text for thing in _things(task) for text in (_named(thing), _source(thing))]
    return hashlib.sha256("\n".join(written).encode()).hexdigest()[:16] if written else None


def _things(task: Any) -> Iterator[type | Callable[..., Any]]:
    """What a user has written of a task: classes, then functions that it holds."""
    for base in type(task).__mro__:
        if not _is_ours(base) and base.__module__ not in ("builtins", "abc", "typing"):
            yield base
    for _, value in sorted(vars(task).items()):
        if callable(value) and not _is_ours(value):
            yield value


def _is_ours(thing: Any) -> bool:
    return str(getattr(thing, "__module__", "")).partition(".")[0] == "posattn"


def _named(thing: Any) -> str:
    return str(getattr(thing, "__qualname__", type(thing).__qualname__))


def _source(thing: Any) -> str:
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError):
        functions = vars(thing).values() if inspect.isclass(thing) else [thing]
        return "\n".join(_code(each.__code__) for each in functions if hasattr(each, "__code__"))


def _code(code: CodeType) -> str:
    constants = [_code(value) if isinstance(value, CodeType) else repr(value) for value in code.co_consts]
    return f"{code.co_name} {code.co_code.hex()} {code.co_names} {constants}"
