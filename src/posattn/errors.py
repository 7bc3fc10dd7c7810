"""The one error that posattn raises for a mistake its caller can mend."""

import difflib
from collections.abc import Iterable


class PosattnError(ValueError):
    """A mistake of the caller's. The message names the value, the reason and the fix."""


def require(condition: bool, message: str) -> None:
    """Raise `PosattnError(message)` unless `condition` holds."""
    if not condition:
        raise PosattnError(message)


def unknown(kind: str, name: object, known: Iterable[str]) -> PosattnError:
    """The error for a name that is in no registry: says what is known and which name is nearest.

    >>> print(unknown("task", "sotr", ["sum", "sort"]))
    unknown task 'sotr': did you mean 'sort'? Known: sum, sort.
    """
    known = list(known)
    near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return PosattnError(f"unknown {kind} {name!r}: {hint}Known: {', '.join(known)}.")
