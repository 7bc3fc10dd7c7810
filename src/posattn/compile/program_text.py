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
        return parse_program(text)
    except PosattnError as error:
        raise PosattnError(f"'{path}': {error}") from None


def parse_program(text: str) -> Program:
    """The program that a text describes, with the library's oracle where it is the library's."""
    try:
        program = Program.parse(text)
        return with_oracle(program, program.nodes)
    except (KeyError, TypeError) as error:
        raise PosattnError(f"the program's recipe cannot be read ({error!r:.80}): leave out that line.") from None
