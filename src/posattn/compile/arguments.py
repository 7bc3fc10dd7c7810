"""Checks of what a program is given: names, tables of sources, expressions and constants, and what is kept of them.

Messages are composed only where something is wrong, because tables and expressions can be long.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from posattn.checks import number, whole
from posattn.compile.expressions import Expression, as_expression
from posattn.errors import PosattnError, require

#: Where a node reads from: (node, register), or None for nothing.
Source = tuple[int, str] | None


def names(name: str, value: Any) -> tuple[str, ...]:
    """What was passed as `name`: a tuple or a list of names."""
    listed = isinstance(value, tuple | list) and all(isinstance(entry, str) and entry for entry in value)
    if not listed:
        raise PosattnError(f"{name}={value!r}: give a tuple of names, as ('x',).")
    return tuple(value)


def expressions(name: str, value: Any) -> dict[str, Expression]:
    """What was passed as `name`: what each register becomes. A number is a constant."""
    mapped = isinstance(value, Mapping) and all(isinstance(entry, str) and entry for entry in value)
    if not mapped:
        raise PosattnError(f"{name}={value!r}: map registers to expressions, as {{'x': word('x') + 1}}.")
    return {register: as_expression(expression) for register, expression in value.items()}


def numbers(name: str, value: Any) -> dict[str, tuple[float, ...]]:
    """What was passed as `name`: a number for every node, for each of some registers."""
    mapped = isinstance(value, Mapping) and all(isinstance(entry, str) and entry for entry in value)
    if not mapped:
        raise PosattnError(f"{name}={value!r}: map registers to one number per node, as {{'c': (0.0, 1.0)}}.")
    for register, held in value.items():
        listed = isinstance(held, tuple | list | np.ndarray)
        if not listed:
            raise PosattnError(f"{name}: '{register}' is {held!r}, not a tuple with one number per node.")
    return {
        register: tuple(float(number(f"{name}: '{register}'", entry)) for entry in held)
        for register, held in value.items()
    }


def grids(value: Any) -> float | dict[str, float] | None:
    """What was passed as `grid`: None, a number, or a number for some of the inputs."""
    if isinstance(value, Mapping):
        for name, step in value.items():
            require(isinstance(name, str), f"grid={value!r}: map inputs to their grids, as {{'key': 0.5}}.")
            check_grid_and_oracle(step, None)
        return {name: float(step) for name, step in value.items() if step is not None} or None
    check_grid_and_oracle(value, None)
    return None if value is None else float(value)


def check_grid_and_oracle(grid: float | None, oracle: Any) -> None:
    if grid is not None:
        found = number("grid", grid)
        require(0 < found < math.inf, f"grid={grid}: the distance between neighbours must be a finite number above 0.")
    require(oracle is None or callable(oracle), f"oracle={oracle!r}: a function of NumPy arrays, or None.")


def sources(slot: Any, table: Any) -> tuple[Source, ...]:
    """A slot's table: for every node, whom it reads and which register."""
    require(isinstance(slot, str) and bool(slot), f"receive: {slot!r} is not the name of a slot.")
    if not isinstance(table, tuple | list):
        raise PosattnError(f"receive: '{slot}' is {table!r}, not a table. Use reads(register, nodes).")
    # there are nodes × rounds of these entries, and most are right
    return tuple(
        source
        if source is None or (type(source) is tuple and [type(part) for part in source] == [int, str])
        else _source(slot, source)
        for source in table
    )


def _source(slot: str, source: Any) -> tuple[int, str]:
    if not (isinstance(source, tuple | list) and len(source) == 2 and isinstance(source[1], str)):
        raise PosattnError(
            f"receive: '{slot}' reads {source!r}: each node reads (node, register), or None; reads(…) makes a table."
        )
    return whole("a node to read from", source[0]), source[1]
