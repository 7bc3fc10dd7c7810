"""The command `posattn`, thin: parse, call, print. A user's mistake ends with one line on stderr and exit code 2."""

import sys

from posattn.cli import output
from posattn.cli.app import app
from posattn.errors import PosattnError

# Commands are listed by --help in the order in which they are imported here.
# isort: split
from posattn.cli import tasks

# isort: split
from posattn.cli import train

# isort: split
from posattn.cli import studies

# isort: split
from posattn.cli import sweep

# isort: split
from posattn.cli import programs

# isort: split
from posattn.cli import new

# isort: split
from posattn.cli import trace_and_run as running

# isort: split
from posattn.cli import export

# isort: split
from posattn.cli import theory

# isort: split
from posattn.cli import bench

# isort: split
from posattn.cli import lab

__all__ = [
    "app",
    "bench",
    "export",
    "lab",
    "main",
    "new",
    "output",
    "programs",
    "running",
    "studies",
    "sweep",
    "tasks",
    "theory",
    "train",
]

#: What shells report of a process that SIGPIPE has ended.
CLOSED_PIPE = 141
#: And of one that Ctrl-C has ended.
CTRL_C = 130


def main() -> None:
    """Run the command line."""
    output.accept_any_letter()
    try:
        try:
            app()
        finally:
            output.flush()
    except PosattnError as error:
        _fail(str(error))
    except (MemoryError, RuntimeError) as error:
        from posattn import devices

        if not devices.memory_is_full(error):
            raise
        mend = "use a shorter length, fewer samples, a smaller batch or fewer seeds. What was finished before is kept."
        _fail(f"the memory is full{devices.memory_asked_for(error)}: {mend}")
    except BrokenPipeError:
        _end_at_closed_pipe()
    except KeyboardInterrupt:  # before a command begins, or after it has ended
        sys.exit(CTRL_C)
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # typer noticed it first
            _end_at_closed_pipe()
        raise
    except OSError as error:
        if error.errno not in output.FULL:
            raise
        output.drop(sys.stdout)
        _fail(f"cannot write the output: {error.strerror}. Send it elsewhere; files that were written are kept.")


def _fail(message: str) -> None:
    output.complain(f"posattn: {message}")
    sys.exit(2)


def _end_at_closed_pipe() -> None:
    """As of `posattn tasks | head -1`: whoever reads has read enough."""
    output.drop(sys.stdout)
    sys.exit(CLOSED_PIPE)
