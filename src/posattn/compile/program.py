"""A parallel algorithm: nodes with registers, and rounds of communication and local computation.

In a round every node receives words by a table that is fixed before any input is seen (slot → for every node, the node
and register it reads from, or nothing, which arrives as 0), and then updates its registers by expressions in its
registers and the received words, all at once. This is what the paper calls PCOC (Back de Luca et al. 2025, section 5).
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from posattn.checks import instance, keep_whole, number, several
from posattn.compile.arguments import check_grid_and_oracle, grids, names, numbers
from posattn.compile.expressions import Call, gate, walk, word
from posattn.compile.rounds import Round
from posattn.compile.specification import Specification
from posattn.compile.text.parsing import parsed
from posattn.compile.text.printing import printed
from posattn.errors import PosattnError, counted, require

#: The register of ones that the compiler adds where updates use constants.
ONE = "one"
#: What to do about an expression too deep for Python to walk.
TOO_DEEP = "an expression is nested too deeply. Spread it over several rounds, with a register for each part."


@dataclass(frozen=True, kw_only=True)
class Program:
    """Rounds on `nodes` nodes. Inputs are registers of the first `length` of them, and so are outputs.

    `output_length`: how many nodes have outputs, where these are more or fewer.

    `constants` gives registers a first value at every node; those that are neither inputs nor constants start at 0.
    `pad` fills up shorter inputs, as a multiple of the domain's bound; without it the program works at one length only.
    `oracle` is the same function in NumPy, written another way.
    """

    name: str
    length: int
    nodes: int
    registers: tuple[str, ...]
    rounds: tuple[Round, ...]
    inputs: tuple[str, ...] = ("x",)
    outputs: tuple[str, ...] = ("x",)
    output_length: int | None = None
    constants: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    pad: float | None = None
    grid: float | Mapping[str, float] | None = None  # inputs, or those named, must be multiples of it
    permutations: tuple[str, ...] = ()  # inputs that hold every number of 0 … length − 1 once
    recipe: Mapping[str, Any] | None = None  # how the library makes it: library.get(**recipe)
    oracle: Callable[..., Any] | None = None
    specification: Specification | None = None  # what the outputs should be, for a proof

    def __post_init__(self) -> None:
        named = isinstance(self.name, str) and bool(self.name)
        require(named, f"name={self.name!r}: name a program by a text, as 'sum'.")
        keep_whole(self, "length", "nodes", *(("output_length",) if self.output_length is not None else ()))
        for name in ("registers", "inputs", "outputs", "permutations"):
            object.__setattr__(self, name, names(name, getattr(self, name)))
        fix = "name the rounds in a tuple, as (Round(…),)"
        object.__setattr__(self, "rounds", several("rounds", self.rounds, Round, fix=fix))
        object.__setattr__(self, "constants", numbers("constants", self.constants))
        if self.pad is not None:
            object.__setattr__(self, "pad", float(number("pad", self.pad)))
        object.__setattr__(self, "grid", grids(self.grid))
        recipe = self.recipe is None or isinstance(self.recipe, Mapping)
        require(recipe, f"recipe={self.recipe!r}: give the arguments of library.get by name, or None.")
        check_grid_and_oracle(None, self.oracle)
        if self.specification is not None:
            instance(
                "specification", self.specification, Specification, fix="say what it computes, as Sorted(), or None"
            )
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
            found.append(f"length={self.length} and nodes={self.nodes}: it must be 1 ≤ length ≤ nodes.")
        if self.output_length is not None and not 1 <= self.output_length <= self.nodes:
            found.append(f"output_length={self.output_length} and nodes={self.nodes}: it must be 1 … nodes.")
        if not self.inputs or not self.outputs:
            found.append("it needs at least one input and one output.")
        if self.pad is not None and not -1 <= self.pad <= 1:
            found.append(f"pad={self.pad}: it is a multiple of the domain's bound, in [-1, 1].")
        found += [
            f"register '{name}': names with @ are reserved for the compiler." for name in self.registers if "@" in name
        ]
        if ONE in self.registers:
            found.append(f"register '{ONE}': the name is reserved for the compiler's register of ones.")
        for name in _repeated(self.registers):
            found.append(f"register '{name}' is declared twice.")
        for name in _repeated(self.inputs):
            found.append(f"input '{name}' is named twice.")
        for what, listed in (("input", self.inputs), ("output", self.outputs), ("constant", self.constants)):
            found += [f"{what} '{name}' is not a register." for name in listed if name not in self.registers]
        for name, values in self.constants.items():
            if len(values) != self.nodes:
                found.append(f"constant '{name}' has {len(values)} values for {self.nodes} nodes.")
            if not all(map(math.isfinite, values)):
                found.append(f"constant '{name}' is not finite.")
            if name in self.inputs:
                found.append(f"'{name}' is both an input and a constant.")
        found += [f"permutation '{name}' is not an input." for name in self.permutations if name not in self.inputs]
        for name in self.grid if isinstance(self.grid, Mapping) else ():
            if name not in self.inputs or name in self.permutations:
                found.append(f"grid: '{name}' is not an input that can have one.")
        written = {*self.inputs, *self.constants}
        known = {"nodes": self.nodes, "registers": self.registers}
        for count, round_ in enumerate(self.rounds, 1):
            found += [f"round {count}: {problem}" for problem in round_.problems(**known, written=written)]
            written |= set(round_.update)
        found += [f"output '{name}' is never written." for name in self.outputs if name not in written]
        if self.specification is not None and not found:
            known = {"length": self.length, "output_nodes": self.output_nodes}
            found += self.specification.problems(**known, inputs=self.inputs, outputs=self.outputs)
        return found

    @property
    def output_nodes(self) -> int:
        """How many nodes have outputs."""
        return self.length if self.output_length is None else self.output_length

    @property
    def span(self) -> int:
        """How many nodes have inputs or outputs: the length of the compiled model."""
        return max(self.length, self.output_nodes)

    @property
    def slots(self) -> int:
        """The most words that a node receives in one round."""
        return max((len(round_.receive) for round_ in self.rounds), default=0)

    def outside(self) -> list[str]:
        """Every place that calls a function from outside the language, with the reason why it is outside."""
        return [
            f"round {count}, register '{register}': {part} is not piecewise linear"
            for count, round_ in enumerate(self.rounds, 1)
            for register, expression in round_.update.items()
            for part in walk(expression)
            if isinstance(part, Call)
        ]

    def then(self, after: "Program") -> "Program":
        """This program, then another one on its outputs, which feed the other's inputs in order."""
        instance("after", after, Program, fix="pass another program")
        require(
            self.nodes == after.nodes,
            f"'{self.name}' runs on {self.nodes} nodes and '{after.name}' on {after.nodes}: programs compose on equal "
            "numbers of nodes.",
        )
        require(
            self.output_nodes == after.length and len(self.outputs) == len(after.inputs),
            f"'{self.name}' gives {self.output_nodes} × {len(self.outputs)} numbers and '{after.name}' takes "
            f"{after.length} × {len(after.inputs)}.",
        )
        # `after` expects zeros beyond the length, and may change one of two inputs that are one output here.
        direct = self.nodes == after.length and len(set(self.outputs)) == len(self.outputs)
        names = self._names(after, dict(zip(after.inputs, self.outputs, strict=True)) if direct else {})
        rounds = tuple(round_.renamed(names) for round_ in after.rounds)
        constants = {names[name]: values for name, values in after.constants.items()}
        if not direct:
            outside = _free("outside", {*self.registers, *_slots(self), *names.values()})
            constants[outside] = tuple(float(node >= after.length) for node in range(self.nodes))
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
            output_length=after.output_nodes if self.output_length or after.output_length else None,
            constants=dict(self.constants) | constants,
            pad=None,
            # numbers of `after` on a grid come from numbers on it; by name, they would be other inputs
            grid=self.grid if self.grid is not None or isinstance(after.grid, Mapping) else after.grid,
            permutations=self.permutations,
            oracle=(lambda x: second(first(x))) if first and second else None,
        )

    def _names(self, after: "Program", names: dict[str, str]) -> dict[str, str]:
        """New names for the registers and slots of `after` that would clash with this program's, beside `names`."""
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
        """The whole program as text, which `parse` gives back."""
        return printed({entry.name: getattr(self, entry.name) for entry in fields(self)})

    @classmethod
    def parse(cls, text: str) -> "Program":
        """The program that a text describes, without an oracle. Nothing in the text is executed.

        >>> text = '''
        ... program differences   # of each number and the one before it
        ... length 4
        ... round
        ...   left <- x of i - 1
        ...   x = x - left
        ... '''
        >>> program = Program.parse(text)
        >>> Program.parse(str(program)) == program
        True
        """
        return cls(**parsed(text))

    def summary(self) -> str:
        """The program as text, with long tables and expressions cut short."""
        lines = [
            f"program {self.name}: {counted(self.nodes, 'node')}, length {self.length}, "
            f"{counted(len(self.rounds), 'round')}",
            f"  registers {', '.join(self.registers)}; in {', '.join(self.inputs)}; out {', '.join(self.outputs)}",
        ]
        for count, round_ in enumerate(self.rounds, 1):
            lines.append(f"  round {count}" + (f": {round_.note}" if round_.note else ""))
            lines += [f"    {line}" for line in round_.lines()]
        return "\n".join(lines)


def _slots(program: Program) -> set[str]:
    return {slot for round_ in program.rounds for slot in round_.receive}


def _free(name: str, taken: Iterable[str]) -> str:
    while name in taken:
        name += "'"
    return name


def _repeated(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})
