"""Programs that sort, by bitonic networks of ⌈log₂ n⌉(⌈log₂ n⌉ + 1)/2 rounds (`networks`)."""

import numpy as np

from posattn.checks import real, whole
from posattn.compile.expressions import word
from posattn.compile.program import Program
from posattn.compile.programs.building import one_register, program_length
from posattn.compile.programs.networks import carrying_sort_rounds, compare_exchange, merging, place_bits, sort_rounds
from posattn.compile.rounds import Round, reads
from posattn.compile.specification import ArgSorted, Merged, PrefixMedians, Ranked, Sorted
from posattn.errors import require


def sort(length: int) -> Program:
    """Numbers in ascending order."""
    length = program_length("sort", length)
    constants = place_bits(range(length))
    return one_register(
        "sort",
        length,
        sort_rounds([range(length)], length, "x"),
        lambda v: np.sort(v, axis=1),
        constants=constants,
        pad=1.0,
        specification=Sorted(),
    )


def kth(length: int, k: int = 1) -> Program:
    """The k-th smallest number, at every node: all are sorted, then node k − 1 tells."""
    length = program_length("kth", length)
    k = whole("k", k, least=1)
    require(k <= length, f"k={k}: there are {length} numbers. Choose a k of 1 … {length}.")
    tell = Round(
        receive={"told": reads("x", [k - 1] * length)}, update={"x": word("told")}, note=f"node {k - 1} tells all"
    )

    def oracle(v: np.ndarray) -> np.ndarray:
        return np.repeat(np.sort(v, axis=1)[:, k - 1 : k], v.shape[1], axis=1)

    rounds = [*sort_rounds([range(length)], length, "x"), tell]
    pad = 1.0 if k == 1 else None  # a shorter input may have fewer than k numbers
    constants, ranked = place_bits(range(length)), Ranked((k - 1,) * length)
    return one_register("kth", length, rounds, oracle, constants=constants, pad=pad, specification=ranked)


def merge(length: int) -> Program:
    """Two sorted halves as one sorted sequence; the first half has the number in the middle, where there is one.

    Bitonic merging (Batcher 1968): the last ⌈log₂ n⌉ rounds of sorting. The halves meet in the middle of 2^⌈log₂ n⌉
    places; what is missing before them counts as −∞ and what is missing behind them as ∞, and neither ever moves.
    """
    length = program_length("merge", length)
    places = 1 << (length - 1).bit_length()
    begin = places // 2 - (length + 1) // 2 if length > 1 else 0
    rounds = []
    for mask, bit in merging(places):
        met = [(begin + i ^ mask) - begin for i in range(length)]
        rounds.append(compare_exchange("x", [j if 0 <= j < length else i for i, j in enumerate(met)], mask, bit))

    def oracle(v: np.ndarray) -> np.ndarray:
        """The comparators themselves: on other inputs than sorted halves, merging does not sort."""
        held = np.full((len(v), places), np.inf, v.dtype)
        held[:, :begin] = -np.inf
        held[:, begin : begin + length] = v.reshape(len(v), length)
        for mask, bit in merging(places):
            upper = np.arange(places) >> bit & 1 == 1
            other = held[:, np.arange(places) ^ mask]
            held = np.where(upper, np.maximum(held, other), np.minimum(held, other))
        return held[:, begin : begin + length].reshape(v.shape)

    bits = place_bits(range(begin, begin + length))
    runs = (length - length // 2, length // 2) if length > 1 else (1,)
    return one_register("merge", length, rounds, oracle, constants=bits, pad=None, specification=Merged(runs))


def argsort(length: int, grid: float = 1.0) -> Program:
    """Where each number of the sorted sequence was. Equal numbers keep their order; numbers lie on a grid."""
    length = program_length("argsort", length)
    require(real("grid", grid) > 0, f"grid={grid!r}: the distance between two neighbouring numbers, above 0.")
    grid = real("grid", grid)
    finer = grid / (1 << (length - 1).bit_length())
    constants = {
        "tie": tuple(finer * i for i in range(length)),
        "place": tuple(float(i) for i in range(length)),
    }
    first = Round(update={"x": word("x") + word("tie"), "index": word("place")}, note="break ties by place")
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
        specification=ArgSorted(),
    )


def cummedian(length: int) -> Program:
    """Medians of all prefixes. Node (i, j) gets x_j, every row i is sorted; an even count gives the midpoint of two."""
    length = program_length("cummedian", length)
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
        specification=PrefixMedians(),
    )
