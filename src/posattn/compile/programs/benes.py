"""Beneš network: any permutation of N words in 2⌈log₂ N⌉ − 1 rounds in which nodes only ever swap with fixed partners.

Which nodes may swap depends on N alone; whether they do is set by the looping algorithm, once the permutation is known.
Lines are split into an upper half of ⌊N/2⌋ and a lower half of ⌈N/2⌉, so N need not be a power of two (Chang and
Melhem 1997); with N odd, the last line has no partner and stays in the lower half.

Beneš, "Mathematical theory of connecting networks and telephone traffic", 1965.
"""

from collections.abc import Sequence
from numbers import Integral

import numpy as np

from posattn.errors import PosattnError, require


def benes(destinations: Sequence[int]) -> list[tuple[int, ...]]:
    """Rounds that bring the word at node i to node destinations[i]; in each, node i takes the word of node round[i].

    >>> benes([2, 0, 1])
    [(1, 0, 2), (0, 2, 1), (0, 1, 2)]
    """
    listed = isinstance(destinations, Sequence | np.ndarray) and not isinstance(destinations, str)
    if not listed:
        raise PosattnError(f"destinations={destinations!r}: name the node that each number goes to, as [2, 0, 1].")
    count = len(destinations)
    whole = all(isinstance(d, Integral) and not isinstance(d, bool) for d in destinations)
    require(
        count >= 1 and whole and set(destinations) == set(range(count)),
        f"destinations {list(destinations)[:12]}: every node of 0 … {count - 1} must be named once.",
    )
    stages = [list(range(count)) for _ in range(rounds_of(count))]
    _set_switches(stages, 0, 0, [int(place) for place in destinations])
    return [tuple(stage) for stage in stages]


def rounds_of(count: int) -> int:
    """2⌈log₂ N⌉ − 1, and 0 for a single node."""
    return max(0, 2 * (count - 1).bit_length() - 1)


def _set_switches(stages: list[list[int]], level: int, start: int, destinations: list[int]) -> None:
    """Set the switches of lines start, start + 1, …; `destinations` are relative to start."""
    count = len(destinations)
    if count == 1:
        return
    half = count // 2
    if count == 2:
        if destinations[0] == 1:
            _swap(stages[level], start, start + 1)
        return
    goes_down = _colour(destinations, half)
    upper, lower = [0] * half, [0] * (count - half)
    entry, exit_ = stages[level], stages[len(stages) - 1 - level]
    for line, destination in enumerate(destinations):
        switch, target = line % half, destination % half
        if line == count - 1 and count % 2:
            switch = half
        if destination == count - 1 and count % 2:
            target = half
        if goes_down[line]:
            lower[switch] = target
        else:
            upper[switch] = target
        if line < half and goes_down[line]:
            _swap(entry, start + line, start + line + half)
        if destination < half and goes_down[line]:
            _swap(exit_, start + destination, start + destination + half)
    _set_switches(stages, level + 1, start, upper)
    _set_switches(stages, level + 1, start + half, lower)


def _colour(destinations: list[int], half: int) -> list[bool]:
    """Which lines go through the lower half: one of each pair at the entry and one of each pair at the exit.

    The looping algorithm: partners at the exit go through different halves, so do partners at the entry; follow these
    constraints around. With an odd count the chain that begins at the entry's single line ends at the exit's.
    """
    count = len(destinations)
    arrives = [0] * count
    for line, destination in enumerate(destinations):
        arrives[destination] = line
    colours: list[bool | None] = [None] * count
    singles = [count - 1] if count % 2 else []
    for first in (*singles, *range(count)):
        line: int | None = first
        while line is not None and colours[line] is None:
            colours[line] = True
            beside = _partner(destinations[line], half)
            if beside is None:
                break
            other = arrives[beside]
            if colours[other] is not None:
                break
            colours[other] = False
            line = _partner(other, half)
    return [bool(colour) for colour in colours]


def _partner(place: int, half: int) -> int | None:
    """The line that a line meets at its switch; the last of an odd number meets none."""
    if place == 2 * half:
        return None
    return place + half if place < half else place - half


def _swap(stage: list[int], one: int, other: int) -> None:
    stage[one], stage[other] = stage[other], stage[one]
