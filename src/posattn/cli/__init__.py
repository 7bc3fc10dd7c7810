"""The command `posattn`, thin: parse, call, print. A user's mistake ends with one line on stderr and exit code 2."""

import sys

from posattn.cli.app import app
from posattn.errors import PosattnError

# Commands are listed by --help in the order in which they are imported here.
# isort: split
from posattn.cli import studies

# isort: split
from posattn.cli import programs

# isort: split
from posattn.cli import theory

# isort: split
from posattn.cli import bench

__all__ = ["app", "bench", "main", "programs", "studies", "theory"]


def main() -> None:
    """Run the command line."""
    try:
        app()
    except PosattnError as error:
        print(f"posattn: {error}", file=sys.stderr)
        sys.exit(2)
