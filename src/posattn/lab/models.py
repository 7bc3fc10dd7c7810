"""The models that the lab offers by name: programs of the library, compiled, and trained models of the zoo."""

import math
from typing import Any

from posattn import zoo
from posattn.compile import library
from posattn.errors import require, unknown

PROGRAM, TRAINED = "program", "trained"


def programs() -> list[str]:
    return [f"{PROGRAM}: {name}" for name in library.PROGRAMS]


def trained() -> list[str]:
    """The zoo's models, whatever it has; looped ones first, as they take any length."""
    names = sorted(zoo.of_lists(), key=lambda name: (name[1] != "looped", name))
    return [f"{TRAINED}: {task}, {model}" for task, model in names]


def check_count(model: Any, name: str, count: int) -> None:
    """Raise where a trained model does not take so many numbers."""
    most = math.inf if getattr(model, "takes_any_length", True) else model.architecture.length
    require(
        count <= most,
        f"{count} numbers were typed: the model '{name}' takes at most {most}. Type fewer, or pick a looped model.",
    )


def named(choice: Any) -> tuple[str, ...]:
    """("program", "sort") or ("trained", "sort", "positional")."""
    known = [*programs(), *trained()]
    if choice not in known:
        raise unknown("model", choice if isinstance(choice, str) else repr(choice)[:40], known)
    kind, _, rest = str(choice).partition(": ")
    return (kind, *rest.split(", "))
