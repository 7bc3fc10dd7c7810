"""A program at work on one input: round by round who reads from whom, and what the registers hold."""

from typing import Any

import numpy as np

from posattn.compile.arguments import Source
from posattn.compile.expressions import words_of
from posattn.compile.interpreter import Snapshot, trace
from posattn.compile.program import Program
from posattn.errors import counted
from posattn.html.trace import Frame, Read, Trace, Update, trace_page

#: Nodes that a text shows; a page shows all.
SHOWN = 32


def moving(program: Program) -> list[str]:
    """The registers that hold data, not constants."""
    changed = {name for round_ in program.rounds for name in round_.update}
    return [name for name in program.registers if name not in program.constants or name in changed]


def snapshots(program: Program, x: np.ndarray) -> list[Snapshot]:
    """The trace of one input of shape (length, inputs)."""
    return list(trace(program, np.asarray(x, dtype=np.float64)[None]))


def text(program: Program, x: np.ndarray) -> str:
    """The trace for a terminal."""
    states, names = snapshots(program, x), moving(program)
    lines = [f"{program.name} on {counted(program.length, 'number')}, {counted(len(program.rounds), 'round')}"]
    lines += [f"  {name:>10}  {_row(states[0].registers[name][0])}" for name in names if name in program.inputs]
    for number, state in enumerate(states[1:], 1):
        round_ = state.round
        assert round_ is not None
        lines.append(f"round {number}: {round_.note}")
        seen = set()
        for slot, table in round_.receive.items():
            sources = tuple(None if source is None else source[0] for source in table)
            if sources not in seen:
                seen.add(sources)
                lines.append(f"  {'reads from':>10}  {_row(sources)}")
            lines.append(f"  {slot:>10}  {_row(state.received[slot][0])}")
        before = states[number - 1].registers
        for name in round_.update:
            lines.append(f"  {name:>10}  {_row(before[name][0])}  →  {_row(state.registers[name][0])}")
    outputs = (states[-1].registers[name][0][: program.output_nodes] for name in program.outputs)
    return "\n".join([*lines, *(f"{'output':>12}  {_row(values)}" for values in outputs)])


def _row(values: Any) -> str:
    shown = " ".join("–" if value is None else f"{value:.9g}" for value in values[:SHOWN])
    return shown + (" …" if len(values) > SHOWN else "")


def filled_up(x: np.ndarray, given: int, *, nodes: bool = False) -> str | None:
    """What was added to an input of which only the first rows were given; None where nothing was.

    `nodes`: say at which nodes, too.
    """
    if given >= len(x):
        return None
    pad = ":".join(f"{value:g}" for value in x[-1])
    where = "" if not nodes else f"node {given} was " if given == len(x) - 1 else f"nodes {given} to {len(x) - 1} were "
    verb = "was" if given == 1 else "were"
    filled = f"{where}filled up with {pad}, which changes no answer of theirs"
    return f"{given} of {counted(len(x), 'number')} {verb} given; {filled}"


def page(program: Program, x: np.ndarray, *, given: int | None = None) -> str:
    """The trace as one self-contained HTML page: the network drawn, the values moving along it.

    `given`: how many rows of x were given; the page marks the others as filled up.
    """
    states, names = snapshots(program, x), moving(program)
    given = len(x) if given is None else given
    before = [None, *states[:-1]]
    return trace_page(
        Trace(
            title=f"{program.name} on {counted(program.length, 'number')}",
            step="round",
            frames=[_frame(state, previous, names) for state, previous in zip(states, before, strict=True)],
            length=program.length,
            given=given,
            shown=program.outputs[0] if program.outputs[0] in names else names[0],
            said=filled_up(x, given, nodes=True),
        )
    )


def _frame(state: Snapshot, before: Snapshot | None, names: list[str]) -> Frame:
    """What the page shows of one round. A slot is a head, whose attention selects one node; updates are the MLP."""
    registers = {name: _numbers(state.registers[name]) for name in names}
    if state.round is None or before is None:
        return Frame(note="the input", registers=registers)
    words = before.registers | state.received
    return Frame(
        note=state.round.note,
        registers=registers,
        heads=[_head(slot, table) for slot, table in state.round.receive.items()],
        reads=[
            Read(source[0], node, float(state.received[slot][0][node]), 1.0, head)
            for head, (slot, table) in enumerate(state.round.receive.items())
            for node, source in enumerate(table)
            if source is not None
        ],
        updates=[
            Update(register=name, formula=str(e), words={word: _numbers(words[word]) for word in sorted(words_of(e))})
            for name, e in state.round.update.items()
        ],
    )


def _head(slot: str, table: tuple[Source, ...]) -> str:
    registers = dict.fromkeys(source[1] for source in table if source is not None)
    return f"{slot} ← {', '.join(registers)}"


def _numbers(values: np.ndarray) -> list[float]:
    return [float(value) for value in values[0]]
