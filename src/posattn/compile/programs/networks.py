"""The communication that library programs share: scans, sorting networks, and words that travel with a key."""

from collections.abc import Iterator, Sequence

from posattn.compile.expressions import exchange, positive, select, word
from posattn.compile.rounds import Round, reads


def doublings(length: int) -> Iterator[int]:
    """1, 2, 4, … below length: the shifts of a scan."""
    shift = 1
    while shift < length:
        yield shift
        shift *= 2


def comparators(length: int) -> Iterator[tuple[int, int]]:
    """The (mask, bit) of every stage of a sorting network: node i meets i xor mask, and `bit` of i says who is upper.

    Bitonic sorting (Batcher 1968) with every merge begun by a reflection, i xor (2^k − 1): then the lower node always
    takes the smaller one, and partners beyond the length can be left out, as if they held infinity.
    """
    levels = (length - 1).bit_length()
    for level in range(1, levels + 1):
        yield from merging(1 << level)


def merging(places: int) -> Iterator[tuple[int, int]]:
    """The (mask, bit) of every stage that merges two sorted halves of a power of two."""
    level = (places - 1).bit_length()
    if level:
        yield places - 1, level - 1
    for bit in range(level - 2, -1, -1):
        yield 1 << bit, bit


def partners(length: int, mask: int) -> list[int]:
    """Whom each node meets; itself where the partner is not there."""
    return [i ^ mask if i ^ mask < length else i for i in range(length)]


def place_bits(places: Sequence[int]) -> dict[str, tuple[float, ...]]:
    """Registers upper0, lower0, upper1, …: the bits of every node's place, and their complements."""
    constants: dict[str, tuple[float, ...]] = {}
    for bit in range(max(places, default=0).bit_length()):
        constants[f"upper{bit}"] = tuple(float(place >> bit & 1) for place in places)
        constants[f"lower{bit}"] = tuple(float(1 - (place >> bit & 1)) for place in places)
    return constants


def sort_rounds(rows: Sequence[Sequence[int]], total: int, key: str) -> list[Round]:
    """Sort register `key` over rows of nodes, each row by itself, ascending in the order in which nodes are named.

    Rows may differ in length; `total` is the number of nodes of the program.
    """
    return [compare_exchange(key, _met(rows, total, mask), mask, bit) for mask, bit in comparators(max(map(len, rows)))]


def compare_exchange(key: str, met: Sequence[int | None], mask: int, bit: int) -> Round:
    """Every node meets another; `bit` of their places, which are `mask` apart, says who takes the larger one."""
    return Round(
        receive={"other": reads(key, met)},
        update={key: exchange(word(key), word("other"), upper=word(f"upper{bit}"), lower=word(f"lower{bit}"))},
        note=f"compare-exchange with place xor {mask}",
    )


def _met(rows: Sequence[Sequence[int]], total: int, mask: int) -> list[int | None]:
    met: list[int | None] = list(range(total))
    for row in rows:
        for place, other in enumerate(partners(len(row), mask)):
            met[row[place]] = row[other]
    return met


def carrying_sort_rounds(
    nodes: Sequence[int], total: int, *, key: str, carried: Sequence[str], grid: float
) -> list[Round]:
    """Sort by keys on a grid, no two of them equal, and move other registers along with them.

    Both nodes of a pair see the lower node's key and the upper one's, so both know whether to swap. Keys are moved, not
    computed: a comparison forgives rounding, and no round adds to it.
    """
    rounds = []
    for mask, _ in comparators(len(nodes)):
        met = _met([nodes], total, mask)
        lower: list[int | None] = list(range(total))
        upper: list[int | None] = list(range(total))
        for node in nodes:
            other = met[node]
            assert other is not None
            lower[node], upper[node] = min(node, other), max(node, other)
        swap = positive(word("low") - word("high"), grid=grid)
        moved = (key, *carried)
        rounds.append(
            Round(
                receive={
                    "low": reads(key, lower),
                    "high": reads(key, upper),
                    **{f"{name} there": reads(name, met) for name in moved},
                },
                update={name: select(swap, word(f"{name} there"), word(name)) for name in moved},
                note=f"compare-exchange with place xor {mask}, {', '.join(carried)} moving along",
            )
        )
    return rounds
