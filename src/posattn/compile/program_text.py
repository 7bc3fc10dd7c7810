"""Programs in text files, as people write them."""

import os

from posattn.checks import path as checked_path
from posattn.compile.program import Program
from posattn.compile.programs.recipes import with_oracle
from posattn.errors import PosattnError

#: How the names of such files end.
SUFFIX = ".pos"


def read_program(path: str | os.PathLike[str]) -> Program:
    """The program in a text file, with the library's oracle where it is the library's."""
    path = checked_path("path", path)
    try:
        text = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise PosattnError(f"'{path}' cannot be read as the text of a program ({error}).") from None
    try:
        program = Program.parse(text)
        return with_oracle(program, program.nodes)
    except (PosattnError, KeyError, TypeError) as error:
        raise PosattnError(f"'{path}': {error}") from None
