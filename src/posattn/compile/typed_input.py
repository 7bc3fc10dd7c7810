"""Numbers that somebody has typed, as the input of a program."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from posattn.compile.domain import check_kinds
from posattn.compile.program import Program
from posattn.compile.programs import library
from posattn.errors import PosattnError


def typed_rows(values: Sequence[str]) -> list[list[float]]:
    """One row per node, one column per input: 3 1 2, or 7:0 8:2 9:1 for a program with two inputs.

    >>> typed_rows(["7:0", "8:2"])
    [[7.0, 0.0], [8.0, 2.0]]
    """
    rows = [[_number(part, values) for part in value.split(":")] for value in values]
    if not all(math.isfinite(value) for row in rows for value in row):
        raise PosattnError(f"the values {' '.join(values)}: one is not finite. Give numbers, as 3 1 2.")
    if len({len(row) for row in rows}) > 1:
        raise PosattnError(f"the values {' '.join(values)}: give every node as many inputs.")
    return rows


def _number(part: str, values: Sequence[str]) -> float:
    try:
        return float(part)
    except ValueError:
        raise PosattnError(
            f"the values {' '.join(values)}: '{part}' is not a number. Give numbers, as 3 1 2."
        ) from None


def library_input(name: str, values: Sequence[str], options: dict[str, Any]) -> tuple[Program, np.ndarray]:
    """A library program as long as its input, and the input; one row per node, one column per register."""
    made = library.get(name, len(typed_rows(values)), **options)
    return made, checked_input(made, values)


def checked_input(made: Program, values: Sequence[str]) -> np.ndarray:
    """The values as an input of this program, which must be able to take them."""
    rows = np.array(typed_rows(values))
    if rows.shape[1] != len(made.inputs):
        named = ":".join(made.inputs)
        raise PosattnError(f"the values {' '.join(values)}: '{made.name}' takes {named} for every node.")
    check_kinds(made, torch.from_numpy(rows)[None], torch.float64)
    return rows
