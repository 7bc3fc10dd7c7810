"""What a program should compute, said apart from how: the claim that a proof of the program shows.

>>> from posattn.compile.programs import library
>>> library.get("cumsum", 4).specification
Scan(op='sum')

`expected` computes what a specification says, by brute force; `proof.specification` proves that the rounds do it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posattn.checks import choice, instance, several, whole
from posattn.compile.arguments import expressions, names
from posattn.compile.expressions import Expression, as_expression, maximum, minimum, word, words_of
from posattn.errors import PosattnError, counted, require


@dataclass(frozen=True)
class Specification:
    """What a program's outputs are, as a function of its inputs. With fewer outputs it speaks of the first nodes."""

    inputs = 1  # how many inputs it speaks of
    outputs = 1
    more_outputs = False  # whether more nodes may have outputs than have inputs; the first few of them always may

    def problems(
        self, *, length: int, output_nodes: int, inputs: tuple[str, ...], outputs: tuple[str, ...]
    ) -> list[str]:
        """Why a program with so many input and output nodes, and these registers there, cannot have it."""
        kind = type(self).__name__
        found = []
        for what, count, given in (("input", self.inputs, inputs), ("output", self.outputs, outputs)):
            if count != len(given):
                found.append(f"its specification {kind} has {counted(count, what)}, the program {len(given)}.")
        return found + self._length_problems(length, output_nodes) or self._misfits(length, output_nodes)

    def _length_problems(self, length: int, output_nodes: int) -> list[str]:
        if self.more_outputs or output_nodes <= length:
            return []
        kind = type(self).__name__
        return [
            f"its specification {kind} says nothing of outputs beyond length={length}: make output_length no larger."
        ]

    def _misfits(self, length: int, output_nodes: int) -> list[str]:
        del length, output_nodes
        return []


@dataclass(frozen=True)
class Sorted(Specification):
    """All numbers in ascending order."""


@dataclass(frozen=True)
class Merged(Specification):
    """All numbers in ascending order, for inputs that consist of ascending runs of these lengths."""

    runs: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "runs", _wholes("runs", self.runs, least=1))

    def _misfits(self, length: int, output_nodes: int) -> list[str]:
        return [] if sum(self.runs) == length else [f"its runs {self.runs} have {sum(self.runs)} of {length} numbers."]


@dataclass(frozen=True)
class Ranked(Specification):
    """At node i the number of rank ranks[i], counted from 0, the smallest."""

    ranks: tuple[int, ...]
    more_outputs = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "ranks", _wholes("ranks", self.ranks))

    def _misfits(self, length: int, output_nodes: int) -> list[str]:
        return _table_problems("ranks", self.ranks, length, entries=output_nodes)


@dataclass(frozen=True)
class ArgSorted(Specification):
    """Where each number of the ascending order was. Equal numbers keep their order."""


@dataclass(frozen=True)
class PrefixMedians(Specification):
    """At node i the median of the first i + 1 numbers; the midpoint of two where their count is even."""


@dataclass(frozen=True)
class Permuted(Specification):
    """At node i the number of node table[i]; every node is named once."""

    table: tuple[int, ...]

    def __post_init__(self) -> None:
        table = _wholes("table", self.table)
        object.__setattr__(self, "table", table)
        require(
            sorted(table) == list(range(len(table))),
            f"table={table!r:.60}: it must name every node of 0 … {len(table) - 1} once.",
        )

    def _misfits(self, length: int, output_nodes: int) -> list[str]:
        return _table_problems("table", self.table, length, entries=length)


@dataclass(frozen=True)
class Broadcast(Specification):
    """One node's number, at every node that has an output."""

    source: int = 0
    more_outputs = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", whole("source", self.source, least=0))

    def _misfits(self, length: int, output_nodes: int) -> list[str]:
        return [] if self.source < length else [f"its source {self.source} lies outside 0 … {length - 1}."]


@dataclass(frozen=True)
class Fetched(Specification):
    """At every node the first input of the node that the second input names, which is a permutation."""

    inputs = 2


@dataclass(frozen=True)
class Gathered(Specification):
    """At every node the first input of the node that the second input names; several may name the same.

    Addresses are whole numbers. Those below 0 count as 0, and those beyond the last node as the last.
    """

    inputs = 2


@dataclass(frozen=True, kw_only=True)
class Semigroup:
    """How neighbouring stretches of inputs are joined, as a tuple of `parts` for each stretch.

    `enter` makes the tuple of a single node from its inputs; `join` makes that of two neighbouring stretches from the
    words "left p" and "right p" for each part p; `leave` gives the outputs. `never_negative` are facts about every
    tuple that a proof may use, once it has shown that entering and joining keep them.

    >>> longest = Semigroup(
    ...     parts=("sum", "end"),
    ...     enter={"sum": word("x"), "end": word("x")},
    ...     join={"sum": word("left sum") + word("right sum"),
    ...           "end": maximum(word("right end"), word("left end") + word("right sum"))},
    ...     leave=(word("end"),),
    ... )
    """

    parts: tuple[str, ...]
    enter: Mapping[str, Expression]
    join: Mapping[str, Expression]
    leave: tuple[Expression, ...]
    never_negative: tuple[Expression, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", names("parts", self.parts))
        for name in ("enter", "join"):
            object.__setattr__(self, name, expressions(name, getattr(self, name)))
            given, parts = ", ".join(sorted(getattr(self, name))), ", ".join(sorted(self.parts))
            require(given == parts, f"{name} gives {given or 'nothing'}: give an expression for each of {parts}.")
        for name in ("leave", "never_negative"):
            fix = "name expressions in a tuple, as (word('sum'),)"
            object.__setattr__(self, name, several(name, getattr(self, name), Expression, fix=fix))
        require(bool(self.leave), "leave=(): give an expression for each output, as (word('sum'),).")
        joined = {f"{side} {part}" for side in ("left", "right") for part in self.parts}
        for name, allowed, held in (
            ("join", joined, self.join.values()),
            ("leave", set(self.parts), self.leave),
            ("never_negative", set(self.parts), self.never_negative),
        ):
            strange = sorted({used for one in held for used in words_of(one)} - allowed)
            require(not strange, f"{name} reads {strange}: it may read {', '.join(sorted(allowed))}.")


def _one_part(join: Expression) -> Semigroup:
    return Semigroup(parts=("x",), enter={"x": word("x")}, join={"x": join}, leave=(word("x"),))


left, right = word("left x"), word("right x")
#: Operators that have a name.
OPS = {"sum": _one_part(left + right), "min": _one_part(minimum(left, right)), "max": _one_part(maximum(left, right))}


@dataclass(frozen=True)
class Folded(Specification):
    """Something made of stretches of the inputs by an operator: "sum", "min", "max", or a semigroup."""

    op: str | Semigroup

    def __post_init__(self) -> None:
        if not isinstance(self.op, Semigroup):
            choice("op", self.op, OPS)

    def semigroup(self, inputs: tuple[str, ...]) -> Semigroup:
        """The operator in full, for inputs of these names."""
        if isinstance(self.op, Semigroup):
            return self.op
        named = OPS[self.op]
        return Semigroup(parts=named.parts, enter={"x": word(inputs[0])}, join=named.join, leave=named.leave)

    def problems(
        self, *, length: int, output_nodes: int, inputs: tuple[str, ...], outputs: tuple[str, ...]
    ) -> list[str]:
        if isinstance(self.op, str):
            return super().problems(length=length, output_nodes=output_nodes, inputs=inputs, outputs=outputs)
        read = {name for entry in self.op.enter.values() for name in words_of(entry)}
        found = [f"its specification reads '{name}', which is not an input." for name in sorted(read - set(inputs))]
        if len(self.op.leave) != len(outputs):
            found.append(f"its specification gives {len(self.op.leave)} numbers for {len(outputs)} outputs.")
        return found + self._length_problems(length, output_nodes)


@dataclass(frozen=True)
class Scan(Folded):
    """At node i the operator over nodes 0 … i."""


@dataclass(frozen=True)
class Reduced(Folded):
    """At every node that has an output the operator over all inputs."""

    more_outputs = True


@dataclass(frozen=True)
class Computes(Specification):
    """Expressions of the inputs: for every output one per node that has it, in which word("x[3]") is x at node 3.

    >>> reversed_pair = Computes({"x": (word("x[1]"), word("x[0]"))})
    """

    values: Mapping[str, tuple[Expression, ...]]

    def __post_init__(self) -> None:
        fix = "map outputs to one expression per node, as {'x': (word('x[0]'),)}"
        instance("values", self.values, Mapping, fix=fix)
        for name, held in self.values.items():
            if not isinstance(held, Sequence) or isinstance(held, str):
                raise PosattnError(f"values: '{name}' is {held!r:.60}, not a tuple with one expression per node.")
        kept = {name: tuple(map(as_expression, held)) for name, held in self.values.items()}
        object.__setattr__(self, "values", kept)

    def problems(
        self, *, length: int, output_nodes: int, inputs: tuple[str, ...], outputs: tuple[str, ...]
    ) -> list[str]:
        known = {f"{name}[{node}]" for name in inputs for node in range(length)}
        found = [f"its specification leaves out output '{name}'." for name in outputs if name not in self.values]
        found += [f"its specification names '{name}', not an output." for name in self.values if name not in outputs]
        for name, held in self.values.items():
            if len(held) != output_nodes:
                found.append(f"its specification of '{name}' has {len(held)} expressions for {output_nodes} nodes.")
            strange = sorted({used for one in held for used in words_of(one)} - known)
            found += [f"its specification of '{name}' reads '{used}', not an input such as 'x[0]'." for used in strange]
        return found


#: Every kind, by the name that files use.
KINDS: dict[str, type[Specification]] = {
    kind.__name__: kind
    for kind in (
        Sorted, Merged, Ranked, ArgSorted, PrefixMedians, Permuted, Broadcast, Fetched, Gathered, Scan, Reduced,
        Computes,
    )
}  # fmt: skip


def _wholes(name: str, value: Any, least: int = 0) -> tuple[int, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise PosattnError(f"{name}={value!r:.60}: give a tuple of whole numbers, as (1, 0).")
    return tuple(whole(f"{name}: an entry", entry, least=least) for entry in value)


def _table_problems(name: str, table: tuple[int, ...], length: int, *, entries: int) -> list[str]:
    if len(table) != entries:
        return [f"'{name}' of its specification has {len(table)} entries for {entries} numbers."]
    outside = [entry for entry in table if entry >= length]
    return [f"'{name}' of its specification names {entry}, outside 0 … {length - 1}." for entry in outside]
