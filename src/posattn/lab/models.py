"""The models that the lab offers by name: programs of the library, compiled, and trained models of the zoo."""

from typing import Any

from posattn import zoo
from posattn.compile import library
from posattn.errors import unknown

PROGRAM, TRAINED = "program", "trained"


def programs() -> list[str]:
    return [f"{PROGRAM}: {name}" for name in library.PROGRAMS]


def trained() -> list[str]:
    """The zoo's models, whatever it has; looped ones first, as they take any length."""
    names = sorted(zoo.names(), key=lambda name: (name[1] != "looped", name))
    return [f"{TRAINED}: {task}, {model}" for task, model in names]


def named(choice: Any) -> tuple[str, ...]:
    """("program", "sort") or ("trained", "sort", "positional")."""
    known = [*programs(), *trained()]
    if choice not in known:
        raise unknown("model", choice if isinstance(choice, str) else repr(choice)[:40], known)
    kind, _, rest = str(choice).partition(": ")
    return (kind, *rest.split(", "))
