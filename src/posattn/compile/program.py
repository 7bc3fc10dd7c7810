"""A parallel algorithm: nodes with registers, and rounds of communication and local computation.

In a round every node receives words by a table that is fixed before any input is seen (slot → for every node, the node
and register it reads from, or nothing, which arrives as 0), and then updates its registers by expressions in its
registers and the received words, all at once. This is what the paper calls PCOC (Back de Luca et al. 2025, section 5).
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from posattn.checks import instance, keep_whole, number, several, whole
from posattn.compile.arguments import Source, check_grid_and_oracle, expressions, names, numbers, sources
from posattn.compile.expressions import Call, Expression, gate, renamed, walk, word, words_of
from posattn.errors import PosattnError, counted, require

#: The register of ones that the compiler adds where constants are computed with.
ONE = "one"


#: What to do about an expression that Python cannot walk.
TOO_DEEP = "an expression is nested too deeply. Spread it over several rounds, with a register for each part."


def reads(register: str, nodes: Sequence[int | None]) -> tuple[Source, ...]:
    """A receive table in which every node reads the same register, of its own node (None: nothing)."""
    require(
        isinstance(register, str) and bool(register), f"register={register!r}: a register is named by a text, as 'x'."
    )
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
            raise PosattnError(
                f"receive={self.receive!r}: it maps slots to tables, as {{'left': reads('x', [None, 0])}}."
            )
        object.__setattr__(self, "receive", {name: sources(name, held) for name, held in self.receive.items()})
        object.__setattr__(self, "update", expressions("update", self.update))
        require(isinstance(self.note, str), f"note={self.note!r}: it must be a text.")


@dataclass(frozen=True, kw_only=True)
class Program:
    """Rounds on `nodes` nodes. Inputs and outputs are registers of the first `length` of them.

    `constants` gives registers a first value at every node; those that are neither inputs nor constants start at 0.
    `pad` is what a missing input of a shorter sequence is filled up with, as a multiple of the domain's bound; None
    means that the program has one length only. `oracle` is the same function in NumPy, written another way.
    """

    name: str
    length: int
    nodes: int
    registers: tuple[str, ...]
    rounds: tuple[Round, ...]
    inputs: tuple[str, ...] = ("x",)
    outputs: tuple[str, ...] = ("x",)
    constants: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    pad: float | None = None
    grid: float | None = None  # inputs must be multiples of it; None: any number
    permutations: tuple[str, ...] = ()  # inputs that hold every number of 0 … length − 1 once
    recipe: Mapping[str, Any] | None = None  # how the library makes it: get(**recipe)
    oracle: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        named = isinstance(self.name, str) and bool(self.name)
        require(named, f"name={self.name!r}: a program is named by a text, as 'sum'.")
        keep_whole(self, "length", "nodes")
        for name in ("registers", "inputs", "outputs", "permutations"):
            object.__setattr__(self, name, names(name, getattr(self, name)))
        fix = "name the rounds in a tuple, as (Round(…),)"
        object.__setattr__(self, "rounds", several("rounds", self.rounds, Round, fix=fix))
        object.__setattr__(self, "constants", numbers("constants", self.constants))
        for name in ("pad", "grid"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, float(number(name, getattr(self, name))))
        recipe = self.recipe is None or isinstance(self.recipe, Mapping)
        require(recipe, f"recipe={self.recipe!r}: it maps the names of library.get's arguments to values, or is None.")
        check_grid_and_oracle(self.grid, self.oracle)
        try:
            problems = self.problems
        except RecursionError:
            raise PosattnError(f"program '{self.name}': {TOO_DEEP}") from None
        if problems:
            listed = "".join(f"\n  - {problem}" for problem in problems)
            raise PosattnError(f"program '{self.name}' cannot run:{listed}")

    @cached_property
    def problems(self) -> list[str]:
        """Everything that is wrong with the program, each with its place."""
        found = []
        if not 1 <= self.length <= self.nodes:
            found.append(f"length={self.length} and nodes={self.nodes}: 1 ≤ length ≤ nodes is needed.")
        if not self.inputs or not self.outputs:
            found.append("it needs at least one input and one output.")
        if self.pad is not None and not -1 <= self.pad <= 1:
            found.append(f"pad={self.pad}: a multiple of the domain's bound, so that it lies inside, in [-1, 1].")
        found += [f"register '{name}': names with @ are the compiler's own." for name in self.registers if "@" in name]
        if ONE in self.registers:
            found.append(f"register '{ONE}': the name is taken by the compiler's own register of ones.")
        for name in _repeated(self.registers):
            found.append(f"register '{name}' is declared twice.")
        for name in _repeated(self.inputs):
            found.append(f"input '{name}' is named twice.")
        for what, listed in (("input", self.inputs), ("output", self.outputs), ("constant", self.constants)):
            found += [f"{what} '{name}' is no register." for name in listed if name not in self.registers]
        for name, values in self.constants.items():
            if len(values) != self.nodes:
                found.append(f"constant '{name}' has {len(values)} values for {self.nodes} nodes.")
            if not all(map(math.isfinite, values)):
                found.append(f"constant '{name}' is not finite.")
            if name in self.inputs:
                found.append(f"'{name}' is an input and a constant at once.")
        found += [f"permutation '{name}' is no input." for name in self.permutations if name not in self.inputs]
        written = {*self.inputs, *self.constants}
        for count, round_ in enumerate(self.rounds, 1):
            found += [f"round {count}: {problem}" for problem in self._round_problems(round_, written)]
            written |= set(round_.update)
        found += [f"output '{name}' is never written." for name in self.outputs if name not in written]
        return found

    def _round_problems(self, round_: Round, written: set[str]) -> list[str]:
        found = []
        for slot, table in round_.receive.items():
            if slot in self.registers:
                found.append(f"slot '{slot}' has a register's name.")
            if len(table) != self.nodes:
                found.append(f"slot '{slot}' has {len(table)} sources for {self.nodes} nodes.")
            for node, source in enumerate(table):
                if source is None:
                    continue
                place, register = source
                if not 0 <= place < self.nodes:
                    found.append(f"slot '{slot}': node {node} reads from node {place}, outside 0 … {self.nodes - 1}.")
                    break
                if register not in written:
                    found.append(f"slot '{slot}': node {node} reads register '{register}', which was never written.")
                    break
        for register, expression in round_.update.items():
            if register not in self.registers:
                found.append(f"'{register}' is updated and no register.")
            for name in sorted(words_of(expression)):
                if name in round_.receive or name in written:
                    continue
                known = name in self.registers
                found.append(
                    f"'{register}' is computed from '{name}', which "
                    + ("was never written." if known else "is neither a register nor a slot.")
                )
        return found

    @property
    def slots(self) -> int:
        """Most words that a node receives in one round."""
        return max((len(round_.receive) for round_ in self.rounds), default=0)

    def outside(self) -> list[str]:
        """Every place where a function from outside the language stands, with the reason why it is outside."""
        return [
            f"round {count}, register '{register}': {part} is not piecewise linear"
            for count, round_ in enumerate(self.rounds, 1)
            for register, expression in round_.update.items()
            for part in walk(expression)
            if isinstance(part, Call)
        ]

    def then(self, after: "Program") -> "Program":
        """This program, then another one on what comes out of it: outputs feed inputs, in order."""
        instance("after", after, Program, fix="programs compose with programs")
        require(
            self.nodes == after.nodes,
            f"'{self.name}' runs on {self.nodes} nodes and '{after.name}' on {after.nodes}: programs compose on equal "
            "numbers of nodes.",
        )
        require(
            self.length == after.length and len(self.outputs) == len(after.inputs),
            f"'{self.name}' gives {self.length} × {len(self.outputs)} numbers and '{after.name}' takes "
            f"{after.length} × {len(after.inputs)}.",
        )
        # Where nodes are left over, `after` expects zeros there; and it may change one of its inputs, not the other.
        direct = self.nodes == self.length and len(set(self.outputs)) == len(self.outputs)
        names = self._names(after, dict(zip(after.inputs, self.outputs, strict=True)) if direct else {})
        rounds = tuple(
            Round(
                receive={
                    names[slot]: tuple(None if s is None else (s[0], names[s[1]]) for s in table)
                    for slot, table in round_.receive.items()
                },
                update={names[r]: renamed(e, names) for r, e in round_.update.items()},
                note=round_.note,
            )
            for round_ in after.rounds
        )
        constants = {names[name]: values for name, values in after.constants.items()}
        if not direct:
            outside = _free("outside", {*self.registers, *_slots(self), *names.values()})
            constants[outside] = tuple(float(node >= self.length) for node in range(self.nodes))
            handed = {
                names[to]: gate(word(name), shut=word(outside))
                for to, name in zip(after.inputs, self.outputs, strict=True)
            }
            rounds = (Round(update=handed, note="hand over"), *rounds)
        first, second = self.oracle, after.oracle
        return Program(
            name=f"{self.name}, {after.name}",
            length=self.length,
            nodes=self.nodes,
            registers=tuple(dict.fromkeys((*self.registers, *(names[name] for name in after.registers), *constants))),
            rounds=self.rounds + rounds,
            inputs=self.inputs,
            outputs=tuple(names[name] for name in after.outputs),
            constants=dict(self.constants) | constants,
            pad=None,
            grid=after.grid if self.grid is None else self.grid,
            permutations=self.permutations,
            oracle=(lambda x: second(first(x))) if first and second else None,
        )

    def _names(self, after: "Program", names: dict[str, str]) -> dict[str, str]:
        """What the registers and slots of `after` are called behind this program, beyond the names they have."""
        slots = _slots(after)
        for name in after.registers:
            if name not in names:
                taken = {*self.registers, *_slots(self), *slots, *names.values()}
                names[name] = name if self._shares(name, after) else _free(name, taken)
        for slot in sorted(slots):
            names[slot] = _free(slot, {*self.registers, *names.values(), *(slots - {slot})})
        return names

    def _shares(self, name: str, after: "Program") -> bool:
        """Whether both programs have the same constant of this name, and neither changes it."""
        changed = {r for program in (self, after) for round_ in program.rounds for r in round_.update}
        held = self.constants.get(name)
        return held is not None and held == after.constants.get(name) and name not in changed | set(self.outputs)

    def __str__(self) -> str:
        lines = [
            f"program {self.name}: {self.nodes} nodes, length {self.length}, {counted(len(self.rounds), 'round')}",
            f"  registers {', '.join(self.registers)}; in {', '.join(self.inputs)}; out {', '.join(self.outputs)}",
        ]
        for count, round_ in enumerate(self.rounds, 1):
            lines.append(f"  round {count}" + (f": {round_.note}" if round_.note else ""))
            for slot, table in round_.receive.items():
                lines.append(f"    {slot} ← {_table(table)}")
            lines += [f"    {register} = {expression}" for register, expression in round_.update.items()]
        return "\n".join(lines)


def _slots(program: Program) -> set[str]:
    return {slot for round_ in program.rounds for slot in round_.receive}


def _free(name: str, taken: Iterable[str]) -> str:
    while name in taken:
        name += "'"
    return name


def _repeated(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


def _table(table: tuple[Source, ...], most: int = 12) -> str:
    """A receive table as text: "x of 1 0 3 2"; – for nothing."""
    registers = {source[1] for source in table if source is not None}
    if len(registers) == 1:
        shown = " ".join("–" if source is None else str(source[0]) for source in table[:most])
        text = f"{registers.pop()} of {shown}"
    else:
        text = " ".join("–" if source is None else f"{source[1]}@{source[0]}" for source in table[:most])
    return text + (" …" if len(table) > most else "")
