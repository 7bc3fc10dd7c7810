"""Parallel algorithms that come with posattn, for any length of at least 1.

    cumsum, cummin, cummax, max-subarray     ⌈log₂ n⌉ rounds: scans by doubling (Hillis and Steele 1986)
    sort                                     ⌈log₂ n⌉(⌈log₂ n⌉ + 1)/2 rounds: bitonic
    argsort                                  one more; keys on a grid, ties in the order in which they came
    cummedian                                sort's and two more, on n(n + 3)/2 nodes: every prefix is sorted
    reduce                                   scan and broadcast
    broadcast, permute                       1 round; permute by a Beneš network 2⌈log₂ n⌉ − 1
    fetch                                    x[from[i]] at every i, for addresses that are data (`mpc`)

Each has an oracle, the same function in NumPy.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from posattn.checks import choice, real, whole
from posattn.compile.expressions import gate, maximum, minimum, relu, word
from posattn.compile.program import Program, Round, reads
from posattn.compile.programs import mpc
from posattn.compile.programs.benes import benes
from posattn.compile.programs.networks import carrying_sort_rounds, doublings, place_bits, sort_rounds
from posattn.compile.resources import check_library_size
from posattn.errors import require, unknown

x, left = word("x"), word("left")


def _length(name: str, length: Any, route: Any = "sort") -> int:
    """The length as a number of Python's own, if a program of that length can be written out."""
    found = whole("length", length, least=1)
    check_library_size(name, found, route if isinstance(route, str) else "sort")
    return found


def cumsum(length: int) -> Program:
    """Sums of all prefixes: add what is 1, then 2, then 4 … nodes to the left."""
    length = _length("cumsum", length)
    rounds = [
        Round(
            receive={"left": reads("x", [i - shift if i >= shift else None for i in range(length)])},
            update={"x": x + left},
            note=f"add the sum that ends {shift} to the left",
        )
        for shift in doublings(length)
    ]
    return _simple("cumsum", length, rounds, lambda v: np.cumsum(v, axis=1))


def cummin(length: int) -> Program:
    """Minima of all prefixes. Who has nobody that far to the left reads node 0: min does not mind reading twice."""
    return _extremum("cummin", length, minimum, np.minimum.accumulate, pad=1.0)


def cummax(length: int) -> Program:
    """Maxima of all prefixes."""
    return _extremum("cummax", length, maximum, np.maximum.accumulate, pad=-1.0)


def _extremum(name: str, length: int, combine: Callable[..., Any], oracle: Callable[..., Any], pad: float) -> Program:
    length = _length(name, length)
    rounds = [
        Round(
            receive={"left": reads("x", [max(i - shift, 0) for i in range(length)])},
            update={"x": combine(x, left)},
            note=f"compare with what ends {shift} to the left",
        )
        for shift in doublings(length)
    ]
    return _simple(name, length, rounds, lambda v: oracle(v, axis=1), pad=pad)


def max_subarray(length: int) -> Program:
    """Largest sum of a non-empty subarray of every prefix: blocks know their sum, best start, best end and best.

    A block and the one to its left make one: sum = sum₁ + sum₂, start = max(start₁, sum₁ + start₂), end = max(end₂,
    end₁ + sum₂), best = max(best₁, best₂, end₁ + start₂). Where there is nothing to the left, the words are 0, which
    is right but for start₁ and best₁: these are gated by `alone`, a bit for every round.
    """
    length = _length("max-subarray", length)
    names = ("sum", "start", "end", "best")
    alone = {f"alone{shift}": tuple(float(i < shift) for i in range(length)) for shift in doublings(length)}
    rounds = []
    for shift in doublings(length):
        sources = [i - shift if i >= shift else None for i in range(length)]
        before = dict.fromkeys(names, "x") if shift == 1 else {name: name for name in names}
        total, start, end, best = (word(before[name]) for name in names)
        total_, start_, end_, best_ = (word(f"{name} left") for name in names)
        shut = word(f"alone{shift}")
        joined = total_ + start
        rounds.append(
            Round(
                receive={f"{name} left": reads(before[name], sources) for name in names},
                update={
                    "sum": total_ + total,
                    "start": joined + gate(relu(start_ - joined), shut=shut),
                    "end": maximum(end, end_ + total),
                    "best": maximum(maximum(best, end_ + start), best + gate(relu(best_ - best), shut=shut)),
                },
                note=f"join with the block that ends {shift} to the left",
            )
        )
    rounds = rounds or [Round(update={"best": x}, note="a single number")]
    return Program(
        name="max-subarray",
        length=length,
        nodes=length,
        registers=("x", *names, *alone),
        rounds=tuple(rounds),
        outputs=("best",),
        constants=alone,
        pad=0.0,
        oracle=_best_subarrays,
    )


def _best_subarrays(v: np.ndarray) -> np.ndarray:
    """Over all pairs of ends, by brute force."""
    sums = np.concatenate([np.zeros_like(v[:, :1]), np.cumsum(v, axis=1)], axis=1)
    return np.stack(
        [
            np.max([sums[:, stop] - sums[:, :stop].min(axis=1) for stop in range(1, end + 1)], axis=0)
            for end in range(1, v.shape[1] + 1)
        ],
        axis=1,
    )


def sort(length: int) -> Program:
    """Numbers in ascending order."""
    length = _length("sort", length)
    constants = place_bits(range(length))
    return _simple(
        "sort",
        length,
        sort_rounds([range(length)], length, "x"),
        lambda v: np.sort(v, axis=1),
        constants=constants,
        pad=1.0,
    )


def argsort(length: int, grid: float = 1.0) -> Program:
    """Where each number of the sorted sequence was. Equal numbers keep their order; numbers lie on a grid."""
    length = _length("argsort", length)
    require(real("grid", grid) > 0, f"grid={grid!r}: the distance between two neighbouring numbers, above 0.")
    grid = real("grid", grid)
    finer = grid / (1 << (length - 1).bit_length())
    constants = {
        "tie": tuple(finer * i for i in range(length)),
        "place": tuple(float(i) for i in range(length)),
    }
    first = Round(update={"x": x + word("tie"), "index": word("place")}, note="break ties by place")
    rounds = carrying_sort_rounds(range(length), length, key="x", carried=["index"], grid=finer)
    return Program(
        name="argsort",
        length=length,
        nodes=length,
        registers=("x", "index", *constants),
        rounds=(first, *rounds),
        outputs=("index",),
        constants=constants,
        pad=1.0,
        grid=grid,
        oracle=lambda v: np.argsort(v, axis=1, kind="stable").astype(v.dtype),
    )


def cummedian(length: int) -> Program:
    """Medians of all prefixes. Node (i, j) gets x_j, every row i is sorted; an even count gives the midpoint of two."""
    length = _length("cummedian", length)
    rows = [[length + i * (i + 1) // 2 + j for j in range(i + 1)] for i in range(length)]
    total = length + length * (length + 1) // 2
    places = [0] * total
    spread: list[int | None] = [None] * total
    lower, upper = spread.copy(), spread.copy()
    for i, row in enumerate(rows):
        lower[i], upper[i] = row[i // 2], row[(i + 1) // 2]
        for j, node in enumerate(row):
            places[node], spread[node] = j, j
    constants = place_bits(places)
    rounds = [
        Round(receive={"copy": reads("x", spread)}, update={"y": word("copy")}, note="every prefix gets its numbers"),
        *sort_rounds(rows, total, "y"),
        Round(
            receive={"below": reads("y", lower), "above": reads("y", upper)},
            update={"x": word("below") / 2 + word("above") / 2},
            note="the middle of every row",
        ),
    ]
    return Program(
        name="cummedian",
        length=length,
        nodes=total,
        registers=("x", "y", *constants),
        rounds=tuple(rounds),
        constants=constants,
        pad=0.0,
        oracle=lambda v: np.stack([np.median(v[:, : i + 1], axis=1) for i in range(v.shape[1])], axis=1),
    )


def reduce(length: int, operation: str = "sum") -> Program:
    """The sum, min or max of all numbers, at every node: a scan, then the last node tells."""
    scans = {"sum": (cumsum, np.sum), "min": (cummin, np.min), "max": (cummax, np.max)}
    scan, total = scans[choice("operation", operation, scans)]
    length = _length("reduce", length)
    made = scan(length)
    rounds = (*made.rounds, *broadcast(length, source=length - 1).rounds)

    def oracle(v: np.ndarray) -> np.ndarray:
        return np.repeat(total(v, axis=1, keepdims=True), v.shape[1], axis=1)

    return _simple(f"reduce-{operation}" if operation != "sum" else "reduce", length, rounds, oracle, pad=made.pad)


def broadcast(length: int, source: int = 0) -> Program:
    """One node's number, at every node."""
    length = _length("broadcast", length)
    source = whole("source", source, least=0)
    require(source < length, f"source={source!r}: it must be a node of 0 … {length - 1}.")
    tell = Round(
        receive={"told": reads("x", [source] * length)}, update={"x": word("told")}, note=f"node {source} tells all"
    )

    def oracle(v: np.ndarray) -> np.ndarray:
        return np.repeat(v[:, source : source + 1], v.shape[1], axis=1)

    return _simple("broadcast", length, [tell], oracle, pad=None if source else 0.0)


def permute(length: int, destinations: Sequence[int] | None = None, route: str = "benes") -> Program:
    """Numbers moved to other nodes, that of node i to destinations[i]. Default: reversed, by a Beneš network."""
    length = _length("permute", length, route)
    listed = isinstance(destinations, Sequence | np.ndarray) and not isinstance(destinations, str)
    require(
        destinations is None or (listed and len(destinations) == length),
        f"destinations={destinations!r}: name a node for each of the {length} numbers.",
    )
    targets = list(destinations) if destinations is not None else list(range(length))[::-1]
    stages = benes(targets)
    if choice("route", route, ("benes", "direct")) == "direct":
        stages = [tuple(int(source) for source in np.argsort(targets))]
    rounds = [
        Round(receive={"taken": reads("x", stage)}, update={"x": word("taken")}, note="switches") for stage in stages
    ]
    return _simple("permute", length, rounds, lambda v: v[:, np.argsort(targets)], pad=None)


def fetch(length: int, route: str = "sort") -> Program:
    """The number of the node that each node names. Addresses are data: ask, then answer, two rounds of an MPC."""
    length = _length("fetch", length, route)
    return mpc.to_program(mpc.fetch(length), route=route)


def _simple(
    name: str,
    length: int,
    rounds: Sequence[Round],
    oracle: Callable[..., Any],
    *,
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
    )


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
        require(bool(known), f"program '{name}' has no options, '{option}' was given: leave it out.")
        if option not in known:
            raise unknown(f"option of program '{name}'", option, known)
    length = _length(name, length, options.get("route", "sort"))
    return replace(PROGRAMS[name](length, **options), recipe={"name": name, "length": length, **options})
