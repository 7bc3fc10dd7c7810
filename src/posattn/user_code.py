"""What users wrote: where in their files something is defined, and where it failed."""

import inspect
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from posattn.devices import memory_is_full
from posattn.errors import PosattnError

#: Where the standard library and installed packages lie, and where posattn does: no line of a user's is there.
HOUSE = str(Path(__file__).parent)
NOT_A_USERS = (HOUSE, *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")))


#: Letters of an error's message that are quoted: PyTorch's can have thousands.
LONGEST = 300


def defined_at(function: Callable[..., Any]) -> str | None:
    """File and line where a user's function begins; None where it is not a user's, or is not written in Python."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None or code.co_filename.startswith(HOUSE):
        return None
    return f"{code.co_filename}, line {code.co_firstlineno}"


def failed_at(error: BaseException, *, own: str | None = None) -> str | None:
    """File and line of the last step of an error that was a user's, in the file `own` or outside installed packages.

    >>> failed_at(SyntaxError("invalid syntax", ("mine.py", 3, 1, "def")))
    'mine.py, line 3'
    """
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{error.filename}, line {error.lineno}"
    steps = traceback.extract_tb(error.__traceback__)
    theirs = [step for step in steps if not step.filename.startswith((*NOT_A_USERS, "<frozen"))]
    last = next(reversed([step for step in steps if step.filename == own] or theirs), None)
    return None if last is None else f"{last.filename}, line {last.lineno}"


def said(error: BaseException) -> str:
    """An error in one line, as Python's last line of a traceback."""
    message = " ".join(str(error.msg if isinstance(error, SyntaxError) else error).split())
    message = message if len(message) <= LONGEST else f"{message[:LONGEST]} …"
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


@contextmanager
def named(what: str, *, owner: Any = None) -> Iterator[None]:
    """Turn an exception of a user's code into one error that says what failed, and in which line.

    `owner` is a function or an object of the user's; its file counts as the user's own, wherever it is installed.
    Errors of posattn's own and a full memory stay as they are.
    """
    try:
        yield
    except PosattnError:
        raise
    except Exception as error:
        place = failed_at(error, own=_file_of(owner))
        if place is None or memory_is_full(error):
            raise
        raise PosattnError(f"{what} failed: {said(error)} ({place}). Mend that line.") from error


def _file_of(owner: Any) -> str | None:
    try:
        file = inspect.getfile(owner if inspect.isfunction(owner) else type(owner))
    except (TypeError, OSError):
        return None
    return None if file.startswith(HOUSE) else file
