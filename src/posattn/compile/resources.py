"""What a simulation takes in nodes, layers and heads, beside what the paper's theorem says it takes."""

import math
import os
from dataclasses import dataclass
from typing import Any

import torch

from posattn.compile.expressions import word
from posattn.compile.lowering.lower import needed_registers, share_heads
from posattn.compile.program import Program
from posattn.compile.programs.mpc import Exchange, Message, Mpc, to_program
from posattn.compile.programs.simulate import simulate
from posattn.errors import counted, require
from posattn.nn import Standard, StandardTransformer

#: Nodes × rounds up to which a library program's tables are written out: 4 million take some seconds and 0.5 GiB.
MOST_ENTRIES = 2**22
#: Bytes per weight of a one-hot encoding while a model is made: float64 and float32, built and then copied. Measured.
BYTES_PER_WEIGHT = 44
#: Programs whose nodes i read from i xor a mask where the length is a power of two.
HYPERCUBES = ("sort", "permute")  # permute: where it reverses
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
    heads = [share_heads(round_, after) for round_, after in zip(program.rounds, live[1:], strict=True)]
    sink = any(-1 in pattern for head in heads for pattern in head.patterns)
    most = max([1, *(len(head.patterns) for head in heads)])
    return Resources(what or program.name, program.nodes + sink, max(1, len(program.rounds)), most)


def library_size(name: str, length: int, route: str = "sort") -> tuple[int, int]:
    """Nodes and rounds of a library program, without building it. `route`: of `fetch` and `permute`."""
    steps = (length - 1).bit_length()  # ⌈log₂ length⌉
    sorting = steps * (steps + 1) // 2
    rounds = {
        "sort": sorting,
        "argsort": sorting + 1,
        "cummedian": sorting + 2,
        "reduce": steps + 1,
        "broadcast": 1,
        "max-subarray": max(steps, 1),
        "permute": 1 if route == "direct" else max(2 * steps - 1, 0),
        "fetch": 6 + 2 * steps if route == "grid" else 12 + 6 * steps + 2 * steps**2,
    }.get(name, steps)
    nodes = {
        "cummedian": length * (length + 3) // 2,
        "fetch": length * (length + 1) if route == "grid" else 3 * length,
    }.get(name, length)
    return nodes, rounds


def check_library_size(name: str, length: int, route: str = "sort") -> None:
    """Refuse a program whose tables would take minutes and fill the memory, before any work."""
    nodes, rounds = library_size(name, length, route)
    require(
        nodes * max(rounds, 1) <= MOST_ENTRIES,
        f"length={length}: '{name}' of that length has {nodes:,} nodes and {counted(rounds, 'round')}, and tables are "
        f"written out up to {MOST_ENTRIES:,} for nodes × rounds. Choose a shorter length.",
    )


def check_memory(name: str, length: int, route: str = "sort") -> None:
    """Refuse a library program whose model is larger than this machine's memory, where that is known, before any work.

    Beyond 2,048 nodes only hypercubes have a small encoding; all other patterns are one-hot, with nodes² weights for
    each layer.
    """
    check_library_size(name, length, route)
    nodes, rounds = library_size(name, length, route)
    hypercube = name in HYPERCUBES and nodes & (nodes - 1) == 0
    needed = 0 if nodes <= 2048 or hypercube else BYTES_PER_WEIGHT * nodes**2 * max(rounds, 1)
    held = _physical_memory()
    require(
        held is None or needed <= held,
        f"length={length}: the model of '{name}' has {nodes:,} nodes, one-hot, and making it takes about "
        f"{needed / 2**30:,.0f} GiB; this machine has {(held or 0) / 2**30:,.0f}. Choose a shorter length.",
    )


def _physical_memory() -> int | None:
    """Bytes; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


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
