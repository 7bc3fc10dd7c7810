"""What every library program starts from: a checked length, and the frame of a program on one register."""

from collections.abc import Callable, Sequence
from typing import Any

from posattn.checks import whole
from posattn.compile.program import Program
from posattn.compile.programs.size_limits import check_library_size
from posattn.compile.rounds import Round
from posattn.compile.specification import Specification


def program_length(name: str, length: Any, route: Any = "sort") -> int:
    """The length as a Python int, if a program of that length is small enough to be written out."""
    found = whole("length", length, least=1)
    check_library_size(name, found, route if isinstance(route, str) else "sort")
    return found


def one_register(
    name: str,
    length: int,
    rounds: Sequence[Round],
    oracle: Callable[..., Any],
    *,
    specification: Specification,
    constants: dict[str, tuple[float, ...]] | None = None,
    pad: float | None = 0.0,
) -> Program:
    """A program on one register."""
    constants = constants or {}
    return Program(
        name=name,
        length=length,
        nodes=length,
        registers=("x", *constants),
        rounds=tuple(rounds),
        constants=constants,
        pad=pad,
        oracle=oracle,
        specification=specification,
    )
