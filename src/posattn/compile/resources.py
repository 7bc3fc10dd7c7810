"""What a simulation takes in nodes, layers and heads, beside what the paper's theorem says it takes."""

import math
from dataclasses import dataclass
from typing import Any

import torch

from posattn.compile.expressions import word
from posattn.compile.lowering.heads import layer_heads, needs_sink
from posattn.compile.lowering.register_bounds import needed_registers
from posattn.compile.program import Program
from posattn.compile.programs.mpc import Exchange, Message, Mpc, to_program
from posattn.compile.programs.simulate_standard import simulate
from posattn.errors import require
from posattn.nn import Standard, StandardTransformer

#: Words in all for which receive tables are written out; the grid's have the square of that.
MOST_CELLS = 128
#: Rounds, or layers, for which they are.
MOST_ROUNDS = 1000


@dataclass(frozen=True)
class Resources:
    """Sizes of a positional Transformer."""

    what: str
    nodes: int
    layers: int
    heads: int | None  # None: the theorem does not say


def used(program: Program, what: str | None = None) -> Resources:
    """What the program takes when compiled, without compiling it."""
    live = needed_registers(program, program.rounds)
    heads = layer_heads(program.rounds, live)
    most = max([1, *(len(head.patterns) for head in heads)])
    return Resources(what or program.name, program.nodes + needs_sink(heads), max(1, len(program.rounds)), most)


def mpc_table(program: Mpc) -> list[Resources]:
    """Theorem 5.1 (N + 1 nodes, 2R⌈log₂ N⌉ layers, 2s heads) and both routes.

    The theorem's routing network has its switches set by an oracle; ours are computed from the addresses.
    """
    steps = math.ceil(math.log2(program.machines)) if program.machines > 1 else 0
    promised = Resources("Theorem 5.1", program.machines + 1, 2 * len(program.rounds) * steps, 2 * program.slots)
    return [promised, *(used(to_program(program, route=route), f"route={route}") for route in ("sort", "grid"))]


def standard_table(sizes: Standard, program: Program) -> list[Resources]:
    """Remark 5.1 (N² nodes, L·log₂ N layers, both up to a constant) and the simulation of that Transformer."""
    steps = math.ceil(math.log2(sizes.nodes)) if sizes.nodes > 1 else 1
    return [Resources("Remark 5.1, order of", sizes.nodes**2, sizes.depth * steps, None), used(program, "simulation")]


def mpc_cost(machines: int, words: int, rounds: int) -> list[Resources]:
    """What any MPC of N machines, s words and R rounds takes: every machine sends all its words wherever it likes."""
    for name, value in (("machines", machines), ("words", words), ("rounds", rounds)):
        require(value >= 1, f"{name}={value}: at least one.")
    require(
        machines * words <= MOST_CELLS,
        f"{machines} machines of {words} words: tables for more than {MOST_CELLS} words in all take long to write out.",
    )
    require(rounds <= MOST_ROUNDS, f"rounds={rounds}: at most {MOST_ROUNDS}; what they take grows in proportion.")
    slots = range(words)
    sent = tuple(Message(address=word(f"to{k}"), word=word(f"word{k} held")) for k in slots)
    exchange = Exchange(messages=sent, update={f"word{k} held": word(f"in{k}") for k in slots})
    held, to = tuple(f"word{k} held" for k in slots), tuple(f"to{k}" for k in slots)
    return mpc_table(
        Mpc(
            name="any MPC",
            machines=machines,
            registers=(*held, *to),
            inputs=(*held, *to),
            outputs=held,
            rounds=(exchange,) * rounds,
        )
    )


def transformer_cost(nodes: int, layers: int) -> list[Resources]:
    """What simulating any standard Transformer of N nodes and L layers takes; width and heads do not matter."""
    require(
        1 <= nodes <= MOST_CELLS and 1 <= layers <= MOST_ROUNDS,
        f"nodes={nodes}, layers={layers}: at least one of each, at most {MOST_CELLS} nodes and {MOST_ROUNDS} layers.",
    )
    least: dict[str, Any] = {"scratchpad": 0, "embed_dim": 1, "heads": 1, "hidden_dim": 1, "append_encoding": False}
    model = StandardTransformer(length=nodes, layers=layers, **least, generator=torch.Generator().manual_seed(0))
    return standard_table(model.architecture, simulate(model))
