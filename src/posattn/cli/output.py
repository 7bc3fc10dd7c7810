"""Standard output and error: any letter can be printed, and what cannot be printed at all is said once."""

import errno
import io
import os
import sys
from typing import TextIO

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

#: Reasons why output cannot be written that are not a bug: the disk is full, a quota or a limit is reached.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def accept_any_letter() -> None:
    """Print ≤ as \\u2264 where the terminal's encoding has no such letter, in place of a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def print_table(table: Table) -> None:
    """Print a table, wider than the terminal where its words and numbers would else be broken into pieces."""
    console = Console()
    needed = Measurement.get(console, console.options.update(max_width=10_000), table).minimum
    console.width = max(console.width, needed)
    console.print(table)


def flush() -> None:
    """Write out what was printed: at the end of the process it would be too late to say that this fails."""
    if sys.stdout is not None:
        sys.stdout.flush()


def complain(message: str) -> None:
    """Print to standard error; where that cannot be written either, only the exit code is left to say it."""
    if sys.stderr is None:
        return
    try:
        print(message, file=sys.stderr, flush=True)
    except OSError:
        drop(sys.stderr)


def drop(stream: TextIO) -> None:
    """Forget what could not be written, or Python would try again when the process ends, and complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
