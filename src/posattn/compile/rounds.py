"""One round of a program: every node receives words by a fixed table, then updates its registers, all at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from posattn.checks import whole
from posattn.compile.arguments import Source, expressions, sources
from posattn.compile.expressions import Expression, renamed, words_of
from posattn.errors import PosattnError, require


def reads(register: str, nodes: Sequence[int | None]) -> tuple[Source, ...]:
    """A receive table in which every node reads the same register. `nodes`: whom each node reads (None: nobody)."""
    require(isinstance(register, str) and bool(register), f"register={register!r}: name a register by a text, as 'x'.")
    listed = not isinstance(nodes, str) and isinstance(nodes, Sequence | np.ndarray)
    if not listed:
        raise PosattnError(f"nodes={nodes!r}: name the node that each node reads, as [1, 0, None].")
    return tuple(
        None if node is None else (node if type(node) is int else whole("a node to read from", node), register)
        for node in nodes
    )


@dataclass(frozen=True, kw_only=True)
class Round:
    """Receive, then update. Registers that `update` does not name keep their value."""

    receive: Mapping[str, tuple[Source, ...]] = field(default_factory=dict)
    update: Mapping[str, Expression] = field(default_factory=dict)
    note: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.receive, Mapping):
            raise PosattnError(f"receive={self.receive!r}: map slots to tables, as {{'left': reads('x', [None, 0])}}.")
        object.__setattr__(self, "receive", {name: sources(name, held) for name, held in self.receive.items()})
        object.__setattr__(self, "update", expressions("update", self.update))
        require(isinstance(self.note, str), f"note={self.note!r}: a note is a text.")

    def problems(self, *, nodes: int, registers: tuple[str, ...], written: set[str]) -> list[str]:
        """What is wrong with the round, in a program of these nodes and registers, some of them written before."""
        found = []
        for slot, table in self.receive.items():
            if slot in registers:
                found.append(f"slot '{slot}' has a register's name.")
            if len(table) != nodes:
                found.append(f"slot '{slot}' has {len(table)} sources for {nodes} nodes.")
            for node, source in enumerate(table):
                if source is None:
                    continue
                place, register = source
                if not 0 <= place < nodes:
                    found.append(f"slot '{slot}': node {node} reads from node {place}, outside 0 … {nodes - 1}.")
                    break
                if register not in written:
                    found.append(f"slot '{slot}': node {node} reads register '{register}', which was never written.")
                    break
        for register, expression in self.update.items():
            if register not in registers:
                found.append(f"'{register}' is updated, but it is not a register.")
            for name in sorted(words_of(expression)):
                if name in self.receive or name in written:
                    continue
                known = name in registers
                found.append(
                    f"'{register}' is computed from '{name}', which "
                    + ("was never written." if known else "is neither a register nor a slot.")
                )
        return found

    def renamed(self, names: Mapping[str, str]) -> "Round":
        """The same round with other names for its registers and slots."""
        return Round(
            receive={
                names[slot]: tuple(None if s is None else (s[0], names[s[1]]) for s in table)
                for slot, table in self.receive.items()
            },
            update={names[register]: renamed(e, names) for register, e in self.update.items()},
            note=self.note,
        )

    def lines(self) -> list[str]:
        """The round as text: what every slot reads, and what every register becomes."""
        lines = [f"{slot} ← {_table(table)}" for slot, table in self.receive.items()]
        return lines + [f"{register} = {expression}" for register, expression in self.update.items()]


def _table(table: tuple[Source, ...], most: int = 12) -> str:
    """A receive table as text: "x of 1 0 3 2"; – for nothing."""
    registers = {source[1] for source in table if source is not None}
    if len(registers) == 1:
        shown = " ".join("–" if source is None else str(source[0]) for source in table[:most])
        text = f"{registers.pop()} of {shown}"
    else:
        text = " ".join("–" if source is None else f"{source[1]}@{source[0]}" for source in table[:most])
    return text + (" …" if len(table) > most else "")
