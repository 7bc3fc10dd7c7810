"""The programs that come with posattn, by name, for any length of at least 1.

    cumsum, cummin, cummax, max-subarray     ⌈log₂ n⌉ rounds (`scans`)
    reduce                                   a scan, then a broadcast (`scans`)
    sort                                     ⌈log₂ n⌉(⌈log₂ n⌉ + 1)/2 rounds (`sorting`)
    argsort                                  one more; keys on a grid, ties keep their order (`sorting`)
    cummedian                                two more than sort, on n(n + 3)/2 nodes: it sorts every prefix (`sorting`)
    broadcast, permute                       1 round; permute by a Beneš network 2⌈log₂ n⌉ − 1 (`routing`)
    fetch                                    x[from[i]] at every i, for addresses that are data (`routing`, `mpc`)

Each has an oracle, the same function in NumPy.
"""

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from posattn.checks import choice
from posattn.compile.program import Program
from posattn.compile.programs.building import program_length
from posattn.compile.programs.routing import broadcast, fetch, permute
from posattn.compile.programs.scans import cummax, cummin, cumsum, max_subarray, reduce
from posattn.compile.programs.sorting import argsort, cummedian, sort
from posattn.errors import require, unknown

__all__ = [
    "PROGRAMS",
    "argsort",
    "broadcast",
    "cummax",
    "cummedian",
    "cummin",
    "cumsum",
    "fetch",
    "get",
    "max_subarray",
    "permute",
    "reduce",
    "sort",
]

PROGRAMS: dict[str, Callable[..., Program]] = {
    "cumsum": cumsum,
    "cummin": cummin,
    "cummax": cummax,
    "cummedian": cummedian,
    "sort": sort,
    "argsort": argsort,
    "max-subarray": max_subarray,
    "reduce": reduce,
    "broadcast": broadcast,
    "permute": permute,
    "fetch": fetch,
}


def get(name: str, length: int, **options: Any) -> Program:
    """The library's program of this name for a length."""
    choice("program", name, PROGRAMS)
    known = list(inspect.signature(PROGRAMS[name]).parameters)[1:]
    for option in options:
        require(bool(known), f"program '{name}' has no options: leave out '{option}'.")
        if option not in known:
            raise unknown(f"option of program '{name}'", option, known)
    length = program_length(name, length, options.get("route", "sort"))
    return replace(PROGRAMS[name](length, **options), recipe={"name": name, "length": length, **options})
