"""Outputs that are given as expressions of the inputs: as forms where they are linear, else by z3 in one formula."""

from fractions import Fraction
from typing import Any

import numpy as np

from posattn.compile.expressions import Array
from posattn.compile.input_ranges import grid_of
from posattn.compile.program import Program
from posattn.compile.proof.findings import TimeLimit
from posattn.compile.proof.specification.evaluation import evaluated
from posattn.compile.proof.specification.follow import follow
from posattn.compile.proof.specification.reading import Place, first_number, readings
from posattn.compile.proof.specification.solver import Solver
from posattn.compile.proof.specification.terms import Input, whole
from posattn.compile.specification import Computes


def linear(program: Program, limit: TimeLimit) -> bool:
    """Whether every output is the same linear form as the expression that specifies it."""
    given = program.specification
    assert isinstance(given, Computes)
    if program.permutations:
        return False
    inputs = {f"{name}[{node}]": whole(Input(name, node)) for name in program.inputs for node in range(program.length)}
    outputs = follow(program, limit).outputs
    return all(
        evaluated(expression, inputs) == outputs[node, name]
        for name, values in given.values.items()
        for node, expression in enumerate(values)
    )


def differing_input(program: Program, limit: TimeLimit) -> Array | None:
    """An input of shape (1, length, inputs) on which an output differs from its expression; None: there is none."""
    given = program.specification
    assert isinstance(given, Computes)
    solver = Solver(limit)
    inputs, facts = _inputs(program, solver)
    state: dict[Place, Any] = {
        (node, register): inputs[f"{register}[{node}]"]
        if register in program.inputs and node < program.length
        else solver.number(0.0 if register in program.inputs else first_number(program, (node, register)))
        for register in program.registers
        for node in range(program.nodes)
    }
    for reading in readings(program):
        limit.check()
        new = {}
        for step in reading.steps:
            words = {name: solver.number(0) if at is None else state[at] for name, at in step.sources.items()}
            new[step.place] = solver.z3.simplify(solver.formula(step.expression, words))
        state.update(new)
    for name, values in given.values.items():
        for node, expression in enumerate(values):
            model = solver.counterexample(state[node, name] == solver.formula(expression, inputs), facts)
            if model is not None:
                return _numbers(program, model, inputs)
    return None


def _inputs(program: Program, solver: Solver) -> tuple[dict[str, Any], list[Any]]:
    """Every input as a variable, and what the program may assume of it."""
    z3 = solver.z3
    found: dict[str, Any] = {}
    facts: list[Any] = []
    for name in program.inputs:
        words, grid = [f"{name}[{node}]" for node in range(program.length)], grid_of(program, name)
        if name in program.permutations:
            whole_numbers = [z3.Int(word) for word in words]
            facts += [z3.Distinct(*whole_numbers)] if len(words) > 1 else []
            facts += [z3.And(held >= 0, held < program.length) for held in whole_numbers]
            found |= {word: z3.ToReal(held) for word, held in zip(words, whole_numbers, strict=True)}
        elif grid is not None:
            found |= {word: solver.number(grid) * z3.ToReal(z3.Int(word)) for word in words}
        else:
            found |= {word: solver.real(word) for word in words}
    return found, facts


def _numbers(program: Program, model: Any, inputs: dict[str, Any]) -> Array:
    """The values of a counterexample as floats."""
    x = np.zeros((1, program.length, len(program.inputs)))
    for column, name in enumerate(program.inputs):
        for node in range(program.length):
            value = model.eval(inputs[f"{name}[{node}]"], model_completion=True)
            x[0, node, column] = float(Fraction(value.numerator_as_long(), value.denominator_as_long()))
    return x
