"""The one error that posattn raises for a mistake its caller can mend."""

import difflib
from collections.abc import Iterable


class PosattnError(ValueError):
    """A mistake of the caller's. The message names the value, the reason and the fix."""


class NoSuchField(PosattnError):  # noqa: N818 (it says what is missing)
    """A field was named that a trial or a model does not have; others may have it."""


class NoSpace(PosattnError):  # noqa: N818 (it is the disk that is wrong, not a value)
    """A file could not be written because the disk, or the user's share of it, is full."""


def require(condition: bool, message: str) -> None:
    """Raise `PosattnError(message)` unless `condition` holds."""
    if not condition:
        raise PosattnError(message)


def counted(count: int, what: str) -> str:
    """So many of something, in words.

    >>> counted(0, "round"), counted(1, "round"), counted(2, "round")
    ('no round', '1 round', '2 rounds')
    """
    return f"{count or 'no'} {what}" if count < 2 else f"{count} {what}s"


def plural(count: int, what: str) -> str:
    """Something, as it is called where there are so many of it.

    >>> plural(1, "step"), plural(2, "step"), plural(0, "step")
    ('step', 'steps', 'steps')
    """
    return what if count == 1 else f"{what}s"


def kind_of(value: object) -> str:
    """What a value is, by the name of its class.

    >>> kind_of(3), kind_of("three")
    ('an int', 'a str')
    """
    name = type(value).__name__
    return f"{'an' if name.lower().startswith((*'aeio', 'nd')) else 'a'} {name}"


def unknown(kind: str, name: object, known: Iterable[str]) -> PosattnError:
    """The error for a name that is in no registry: says what is known and which name is nearest.

    >>> print(unknown("task", "sotr", ["sum", "sort"]))
    unknown task 'sotr': did you mean 'sort'? Known: sum, sort.
    """
    known = list(known)
    near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return PosattnError(f"unknown {kind} {name!r}: {hint}Known: {', '.join(known)}.")


def missing_extra(what: str, extra: str) -> PosattnError:
    """The error for something that needs a package which only an extra installs.

    >>> print(missing_extra("writing ONNX files", "onnx"))
    writing ONNX files needs packages that are not installed: pip install 'posattn[onnx]'.
    """
    return PosattnError(f"{what} needs packages that are not installed: pip install 'posattn[{extra}]'.")
