"""Lists with an entry for every node: receive tables and constants, whole but short.

0 1 2 0.5          entries one by one; '.' in a receive table: reads nothing
0..7, 7..0         whole numbers, counted up or down
0 * 4, (0 1) * 4   an entry or a list, so many times
x@3 . y@0          entries of a receive table that reads several registers
i, i + 2, i - 1    node i reads node i, i + 2 or i − 1; nothing where there is no such node
i xor 3            node i reads node i xor 3; itself where there is no such node
"""

from collections.abc import Callable, Sequence
from typing import Any

from posattn.compile.arguments import Source
from posattn.compile.text.tokens import Reader, shown_name, shown_number

#: Lists of up to so many entries are written out one by one.
WRITTEN_OUT = 16
#: Entries that a text may stand for in all its lists: a short text cannot fill the memory.
MOST_ENTRIES = 2**24


def shown_constants(values: Sequence[float]) -> str:
    return _shown(values, shown_number)


def shown_table(table: Sequence[Source]) -> str:
    """What a slot reads: "x of i - 1"."""
    registers = {source[1] for source in table if source is not None}
    if len(registers) != 1:
        return _shown(table, lambda s: "." if s is None else f"{shown_name(s[1])}@{s[0]}")
    nodes = [None if source is None else source[0] for source in table]
    return (
        f"{shown_name(registers.pop())} of {_formula(nodes) or _shown(nodes, lambda n: '.' if n is None else str(n))}"
    )


def _formula(nodes: list[int | None]) -> str | None:
    first = next((place for place, node in enumerate(nodes) if node is not None), 0)
    shift = (nodes[first] or 0) - first
    if nodes == shifted(len(nodes), shift):
        return "i" if shift == 0 else f"i {'+' if shift > 0 else '-'} {abs(shift)}"
    # the first node that does not read itself has the mask, if there is one
    masks = (node ^ place for place, node in enumerate(nodes) if node is not None and node != place)
    mask = next(masks, 0)
    return f"i xor {mask}" if nodes == across(len(nodes), mask) else None


def shifted(nodes: int, shift: int) -> list[int | None]:
    return [i + shift if 0 <= i + shift < nodes else None for i in range(nodes)]


def across(nodes: int, mask: int) -> list[int | None]:
    return [i ^ mask if i ^ mask < nodes else i for i in range(nodes)]


def _shown(entries: Sequence[Any], show: Callable[[Any], str]) -> str:
    texts = list(map(show, entries))
    if len(texts) <= WRITTEN_OUT:
        return " ".join(texts)
    for period in range(1, len(texts) // 2 + 1):
        if len(texts) % period == 0 and texts[period:] == texts[:-period]:
            inner = _runs(entries[:period], texts)
            return f"{f'({inner})' if period > 1 else inner} * {len(texts) // period}"
    return _runs(entries, texts)


def _runs(entries: Sequence[Any], texts: list[str]) -> str:
    """Repeated entries and whole numbers that count up or down, from left to right."""
    found, at = [], 0
    while at < len(entries):
        equal = at + 1
        while equal < len(entries) and texts[equal] == texts[at]:
            equal += 1
        counted = max(_counted(entries, at, 1), _counted(entries, at, -1))
        if equal - at >= 3:
            found.append(f"{texts[at]} * {equal - at}")
            at = equal
        elif counted - at >= 4:
            found.append(f"{texts[at]}..{texts[counted - 1]}")
            at = counted
        else:
            found.append(texts[at])
            at += 1
    return " ".join(found)


def _counted(entries: Sequence[Any], at: int, step: int) -> int:
    """Where whole numbers end that count up or down from here."""
    end = at + 1
    while end < len(entries) and _whole(entries[end - 1]) and _whole(entries[end]):
        if entries[end] != entries[end - 1] + step:
            break
        end += 1
    return end


def _whole(value: Any) -> bool:
    """Whether a number can be part of a range; −0 cannot."""
    return isinstance(value, int | float) and abs(value) < 2**53 and value == int(value) and f"{value:g}" != "-0"


class Lists:
    """Reads lists, and counts what all of them stand for."""

    def __init__(self, nodes: int) -> None:
        self.nodes, self.left = nodes, MOST_ENTRIES

    def constants(self, reader: Reader) -> tuple[float, ...]:
        return tuple(self._complete(reader, lambda: reader.number("a number")))

    def table(self, reader: Reader) -> tuple[Source, ...]:
        """x of i - 1; x of . 0 1; x@1 . y@0."""
        if reader.starts_with(".", "(") or reader.after_next.text == "@":
            return tuple(self._complete(reader, lambda: _source(reader)))
        register = reader.name("a register to read, as in x of i - 1")
        reader.expect("of", f" and nodes to read '{register}' from")
        nodes = self._by_formula(reader) if reader.starts_with("i") else self._complete(reader, lambda: _node(reader))
        return tuple(None if node is None else (node, register) for node in nodes)

    def _by_formula(self, reader: Reader) -> list[int | None]:
        reader.expect("i")
        sign = reader.take("+", "-", "xor")
        by = 0 if sign is None else reader.whole("a whole number")
        reader.end("the end of the line after i, i + 2, i - 1 or i xor 3")
        self._count(reader, self.nodes)
        return across(self.nodes, by) if sign == "xor" else shifted(self.nodes, -by if sign == "-" else by)

    def _complete(self, reader: Reader, entry: Callable[[], Any]) -> list[Any]:
        found = self._list(reader, entry)
        reader.end("another entry, '* n' or the end of the line")
        if len(found) != self.nodes:
            raise reader.error(f"the list has {len(found)} entries for {self.nodes} nodes.")
        return found

    def _list(self, reader: Reader, entry: Callable[[], Any]) -> list[Any]:
        found: list[Any] = []
        while reader.next.kind != "end" and not reader.starts_with(")"):
            if reader.take("("):
                some = self._list(reader, entry)
                reader.expect(")")
            else:
                some = self._range(reader, entry)
            times = reader.whole("how many times") if reader.take("*") else 1
            self._count(reader, len(some) * times)
            found += some * times
        return found

    def _range(self, reader: Reader, entry: Callable[[], Any]) -> list[Any]:
        start = reader.next
        first = entry()
        if not reader.take(".."):
            return [first]
        last = entry()
        if not (_whole(first) and _whole(last)):
            raise reader.error("a range goes from a whole number to a whole number, as 0..7.", start)
        self._count(reader, int(abs(last - first)))
        step = 1 if last >= first else -1
        return [type(first)(value) for value in range(int(first), int(last) + step, step)]

    def _count(self, reader: Reader, entries: int) -> None:
        self.left -= entries
        if self.left < 0:
            raise reader.error(f"the lists of a text have at most {MOST_ENTRIES:,} entries in all. Use fewer nodes.")


def _node(reader: Reader) -> int | None:
    return None if reader.take(".") else reader.whole("a node's number, or '.' for nothing")


def _source(reader: Reader) -> Source:
    if reader.take("."):
        return None
    register = reader.name("register@node, or '.' for nothing")
    reader.expect("@", f" and the node to read '{register}' from")
    return reader.whole("a node's number"), register
