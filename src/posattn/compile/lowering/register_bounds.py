"""Bounds of every register, round by round, and which registers are still needed."""

from collections.abc import Sequence

import numpy as np

from posattn.compile.expressions import words_of
from posattn.compile.input_ranges import Domain, bound_of
from posattn.compile.interpreter import received_words
from posattn.compile.lowering.expression_bounds import Interval, bounds
from posattn.compile.program import Program
from posattn.compile.rounds import Round

#: Bounds of registers and of received words.
Bounds = tuple[dict[str, Interval], dict[str, Interval]]


def first_bounds(program: Program, domain: Domain) -> dict[str, Interval]:
    """Bounds of the registers before the first round, for inputs in the domain."""
    zero = np.zeros(program.nodes)
    registers = {name: Interval(zero, zero) for name in program.registers}
    inside = np.arange(program.nodes) < program.length
    for name in program.inputs:
        if name in program.permutations:
            low, high = 0.0, program.length - 1.0
        else:
            high = bound_of(program, domain, name)
            low = -high
        registers[name] = Interval(np.where(inside, low, 0.0), np.where(inside, high, 0.0))
    for name, values in program.constants.items():
        registers[name] = Interval(np.array(values, float), np.array(values, float))
    return registers


def register_bounds(program: Program, domain: Domain) -> list[Bounds]:
    """For every round: bounds of the registers before it and of the words it receives; then those after the last."""
    registers = first_bounds(program, domain)
    found = []
    for round_ in program.rounds or (Round(),):
        low = {name: held.low for name, held in registers.items()}
        high = {name: held.high for name, held in registers.items()}
        words = {
            slot: Interval(received_words(table, low), received_words(table, high))
            for slot, table in round_.receive.items()
        }
        found.append((registers, words))
        registers = registers | {name: bounds(e, registers | words) for name, e in round_.update.items()}
    return [*found, (registers, {})]


def needed_registers(program: Program, rounds: Sequence[Round]) -> list[set[str]]:
    """The registers that anything later depends on: before each round, and after the last."""
    live = [set(program.outputs)]
    for round_ in reversed(rounds):
        after = live[0]
        read = {name for register, e in round_.update.items() if register in after for name in words_of(e)}
        sent = {s[1] for slot in read & set(round_.receive) for s in round_.receive[slot] if s is not None}
        live.insert(0, (after - set(round_.update)) | (read - set(round_.receive)) | sent)
    return live
