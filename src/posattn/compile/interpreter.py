"""Run a program as it is written, in NumPy: what a compiled model is compared with."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Shaped

from posattn.checks import instance
from posattn.compile.arguments import Source
from posattn.compile.expressions import Array, evaluate
from posattn.compile.program import Program, Round
from posattn.errors import require

State = dict[str, Array]


class Snapshot(NamedTuple):
    """What a round did: the words that arrived, and every register after it; (samples, nodes) each."""

    round: Round | None
    received: State
    registers: State


def run(
    program: Program, x: Shaped[np.ndarray, "samples length inputs"]
) -> Shaped[np.ndarray, "samples length outputs"]:
    """The program's outputs, computed in the dtype of x."""
    last: Snapshot | None = None
    for snapshot in trace(program, x):
        last = snapshot
    assert last is not None
    return np.stack([last.registers[name][:, : program.length] for name in program.outputs], axis=2)


def trace(program: Program, x: Shaped[np.ndarray, "samples length inputs"]) -> Iterator[Snapshot]:
    """The registers before the first round, and what every round does to them."""
    instance("program", program, Program, fix="write one as posattn.compile.Program(…), or take one of the library's")
    instance("x", x, np.ndarray, fix="programs run on NumPy arrays of shape (samples, length, inputs)")
    wanted = (program.length, len(program.inputs))
    require(
        x.ndim == 3 and x.shape[1:] == wanted,
        f"the input has shape {x.shape}: program '{program.name}' takes (samples, {wanted[0]}, {wanted[1]}).",
    )
    require(
        np.issubdtype(x.dtype, np.floating),
        f"the input holds {x.dtype}: fractions would be cut off. Use x.astype(np.float64).",
    )
    registers = {name: np.zeros((x.shape[0], program.nodes), x.dtype) for name in program.registers}
    for column, name in enumerate(program.inputs):
        registers[name][:, : program.length] = x[:, :, column]
    for name, values in program.constants.items():
        registers[name][:] = np.asarray(values, x.dtype)
    yield Snapshot(None, {}, registers)
    for round_ in program.rounds:
        received = {slot: received_words(table, registers) for slot, table in round_.receive.items()}
        words = registers | received
        registers = registers | {name: evaluate(e, words) for name, e in round_.update.items()}
        yield Snapshot(round_, received, registers)


def received_words(table: tuple[Source, ...], registers: State) -> Array:
    """What a slot holds at every node. Nothing arrives as 0."""
    some = next(iter(registers.values()))
    words = np.zeros_like(some)
    for register in {source[1] for source in table if source is not None}:
        readers = [node for node, source in enumerate(table) if source is not None and source[1] == register]
        sources = [source[0] for source in table if source is not None and source[1] == register]
        words[..., readers] = registers[register][..., sources]
    return words
