"""Receive tables as attention heads: slots that read from the same nodes share one head."""

from collections.abc import Sequence
from dataclasses import dataclass

from posattn.compile.expressions import words_of
from posattn.compile.lowering.positions import SINK, Pattern
from posattn.compile.rounds import Round

#: A received word as the MLP sees it: the number of its head, and the column within that head.
Column = tuple[int, int]


@dataclass(frozen=True)
class Heads:
    """How one layer communicates: the pattern of each head, the registers it carries, and where slots arrive."""

    patterns: tuple[Pattern, ...]
    carried: tuple[tuple[str, ...], ...]
    slots: dict[str, tuple[Column, ...]]  # a slot is the sum of its columns; at each node at most one of them is not 0


def share_heads(round_: Round, after: set[str]) -> Heads:
    """One head for every set of nodes that is read from. A slot that reads several registers is split by register.

    `after`: the registers that are needed after the round; slots that none of them depends on get no head.
    """
    used = {name for register, e in round_.update.items() if register in after for name in words_of(e)}
    carried: dict[Pattern, list[str]] = {}
    split: dict[str, list[tuple[Pattern, str]]] = {}
    for slot, table in round_.receive.items():
        if slot not in used:
            continue
        split[slot] = []
        for register in dict.fromkeys(s[1] for s in table if s is not None):
            pattern = tuple(s[0] if s is not None and s[1] == register else SINK for s in table)
            split[slot].append((pattern, register))
            if register not in carried.setdefault(pattern, []):
                carried[pattern].append(register)
    patterns = list(carried)
    slots = {
        slot: tuple((patterns.index(pattern), carried[pattern].index(register)) for pattern, register in parts)
        for slot, parts in split.items()
    }
    return Heads(tuple(patterns), tuple(tuple(registers) for registers in carried.values()), slots)


def layer_heads(rounds: Sequence[Round], live: Sequence[set[str]]) -> list[Heads]:
    """The heads of every round. `live`: the registers needed before each round, and after the last."""
    return [share_heads(round_, after) for round_, after in zip(rounds, live[1:], strict=True)]


def needs_sink(heads: Sequence[Heads]) -> bool:
    """Whether some node receives nothing from some head, and so reads the sink."""
    return any(SINK in pattern for head in heads for pattern in head.patterns)


def distinct_patterns(heads: Sequence[Heads], nodes: int) -> list[Pattern]:
    """Every pattern of the program, and that of idle heads, whose nodes read themselves."""
    return list(dict.fromkeys([*(pattern for head in heads for pattern in head.patterns), tuple(range(nodes))]))
