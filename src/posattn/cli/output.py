"""Standard output and error: any letter can be printed, and what cannot be printed at all is said once."""

import errno
import io
import os
import sys
from typing import TextIO

import typer
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
    """Print a table; wider than the terminal if its words and numbers would otherwise be broken."""
    console = Console()
    needed = Measurement.get(console, console.options.update(max_width=10_000), table).minimum
    console.width = max(console.width, needed)
    console.print(table)


def warn_of_divergence(lost: list[str], trained: int) -> None:
    """Say which of the trained models diverged, and when; exit with code 1 if all of them did."""
    which = "all" if len(lost) == trained else f"{len(lost)} of {trained}"
    shown = "; ".join(lost[:10]) + (f"; and {len(lost) - 10} more" if len(lost) > 10 else "")
    mend = "What was finite last is kept. A lower learning rate may help."
    print(f"posattn: {which} diverged, no longer finite: {shown}. {mend}", file=sys.stderr)
    if len(lost) == trained:
        raise typer.Exit(1)


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
