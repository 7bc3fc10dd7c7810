"""Inputs on which a program does not do what its specification says: looked for by running both."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from posattn.compile.expected import expected
from posattn.compile.expressions import Array
from posattn.compile.input_ranges import grid_of
from posattn.compile.interpreter import run
from posattn.compile.program import Program
from posattn.compile.proof.findings import TimeLimit
from posattn.compile.proof.specification.terms import Clipped, Entry, Input
from posattn.compile.proof.specification.zero_one import State
from posattn.compile.specification import Merged

#: Numbers that are held at once: registers of 2²¹ words take 16 MiB each.
MOST_WORDS = 1 << 21


class Counterexample(NamedTuple):
    """An input, and an output that it makes wrong."""

    x: Array  # (length, inputs)
    node: int
    output: str
    found: float
    wanted: float

    def __str__(self) -> str:
        shown = ", ".join(f"{value:g}" for value in self.x.T.ravel()[:24]) + (" …" if self.x.size > 24 else "")
        return (
            f"for the input {shown} node {self.node} gives '{self.output}' = {self.found:g}, "
            f"and the specification asks for {self.wanted:g}"
        )


def search(
    program: Program, limit: TimeLimit, *, states: Sequence[State] = (), x: Array | None = None
) -> Counterexample | None:
    """The first counterexample among inputs that tell most mistakes.

    `states` in which numbers are not in order, and inputs `x` that a solver found, are tried first.
    """
    found = None if x is None else checked(program, x)
    if found is not None:
        return found
    most = max(1, MOST_WORDS // program.nodes)
    for batch in (*_unsorted(program, states), *_usual(program)):
        allowed = _allowed(program, batch)
        for start in range(0, len(allowed), most):
            limit.check()
            found = checked(program, allowed[start : start + most])
            if found is not None:
                return found
    return None


def checked(program: Program, x: Array) -> Counterexample | None:
    """The first sample on which the program's answer is not the specification's."""
    given, wanted = run(program, x), expected(program, x)
    wrong = ~(np.abs(given - wanted) <= 1e-9 * (1 + np.abs(wanted)))
    if not wrong.any():
        return None
    sample, node, output = np.argwhere(wrong)[0]
    values = float(given[sample, node, output]), float(wanted[sample, node, output])
    return Counterexample(x[sample], int(node), program.outputs[output], *values)


def _usual(program: Program) -> Iterator[Array]:
    """Single ones, steps, bits of every density, and small whole numbers: multiples of the grids."""
    length, width = program.length, len(program.inputs)
    generator = np.random.default_rng(0)
    for single in (np.eye(length), -np.eye(length), np.tri(length), -np.tri(length)):
        yield np.repeat(single[:, :, None], width, axis=2)
    density = generator.random((256, 1, 1))
    yield (generator.random((256, length, width)) < density).astype(float)
    yield generator.integers(0, length, (256, length, width)).astype(float)
    yield generator.integers(-9, 10, (256, length, width)).astype(float)
    yield generator.integers(-10 * length, 10 * length + 1, (256, length, width)).astype(float)


def _unsorted(program: Program, states: Sequence[State]) -> Iterator[Array]:
    """Inputs that lead to states in which numbers are not in order, with zeros, ones and random bits elsewhere."""
    generator = np.random.default_rng(0)
    shape = (len(states), program.length, len(program.inputs))
    for fill in (np.zeros(shape), np.ones(shape), generator.integers(0, 2, shape).astype(float)):
        inverse = fill.copy()
        for sample, state in enumerate(states):
            for form, bit in state:
                atom = form.shifted()
                if isinstance(atom, Input | Clipped):
                    fill[sample, atom.node, program.inputs.index(atom.name)] = bit
                elif isinstance(atom, Entry):
                    held = inverse if atom.permutation.inverse else fill
                    held[sample, atom.node, program.inputs.index(atom.permutation.name)] = bit
        yield fill
        if program.permutations:
            yield np.argsort(inverse + generator.random(shape), axis=1).astype(float)


def _allowed(program: Program, x: Array) -> Array:
    """The same inputs as the program takes them: on its grids, permutations where it asks for them, runs ascending."""
    found = x * np.array([grid_of(program, name) or 1.0 for name in program.inputs])
    for k, name in enumerate(program.inputs):
        if name in program.permutations:  # the order of the numbers, equal ones in any order
            noise = np.random.default_rng(k).random(x.shape[:2])
            found[:, :, k] = (x[:, :, k] + noise).argsort(axis=1).argsort(axis=1)
    if isinstance(program.specification, Merged):
        start = 0
        for size in program.specification.runs:
            found[:, start : start + size] = np.sort(found[:, start : start + size], axis=1)
            start += size
    return found
