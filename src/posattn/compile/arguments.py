"""What a program may be given: names, tables of sources, expressions and constants, and what is kept of them."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from posattn.checks import number, whole
from posattn.compile.expressions import Expression, as_expression
from posattn.errors import require

#: Where a node reads from: (node, register), or None for nothing.
Source = tuple[int, str] | None


def names(name: str, value: Any) -> tuple[str, ...]:
    """What was passed as `name`: a tuple or a list of names."""
    listed = isinstance(value, tuple | list) and all(isinstance(entry, str) and entry for entry in value)
    require(listed, f"{name}={value!r}: a tuple of names is meant, as ('x',).")
    return tuple(value)


def expressions(name: str, value: Any) -> dict[str, Expression]:
    """What was passed as `name`: what each register becomes. A number is a constant."""
    mapped = isinstance(value, Mapping) and all(isinstance(entry, str) and entry for entry in value)
    require(mapped, f"{name}={value!r}: it maps registers to expressions, as {{'x': word('x') + 1}}.")
    return {register: as_expression(expression) for register, expression in value.items()}


def numbers(name: str, value: Any) -> dict[str, tuple[float, ...]]:
    """What was passed as `name`: a number for every node, for each of some registers."""
    mapped = isinstance(value, Mapping) and all(isinstance(entry, str) and entry for entry in value)
    require(mapped, f"{name}={value!r}: it maps registers to a number for each node, as {{'c': (0.0, 1.0)}}.")
    for register, held in value.items():
        listed = isinstance(held, tuple | list | np.ndarray)
        require(listed, f"{name}: '{register}' is {held!r}, and a tuple with a number for each node is meant.")
    return {
        register: tuple(float(number(f"{name}: '{register}'", entry)) for entry in held)
        for register, held in value.items()
    }


def check_grid_and_oracle(grid: float | None, oracle: Any) -> None:
    if grid is not None:
        found = number("grid", grid)
        require(0 < found < math.inf, f"grid={grid}: the distance between two neighbours is a finite number above 0.")
    require(oracle is None or callable(oracle), f"oracle={oracle!r}: a function of NumPy arrays, or None.")


def sources(slot: Any, table: Any) -> tuple[Source, ...]:
    """A slot's table: for every node whom it reads, and which register."""
    require(isinstance(slot, str) and bool(slot), f"receive: {slot!r} is not the name of a slot.")
    require(
        isinstance(table, tuple | list), f"receive: '{slot}' is {table!r}, not a table. Use reads(register, nodes)."
    )
    for source in table:
        pair = isinstance(source, tuple | list) and len(source) == 2 and isinstance(source[1], str)
        require(
            source is None or pair,
            f"receive: '{slot}' reads {source!r}: each node reads (node, register), or None; reads(…) makes a table.",
        )
    return tuple(
        None if source is None else (whole(f"receive: '{slot}' reads from node", source[0]), source[1])
        for source in table
    )
