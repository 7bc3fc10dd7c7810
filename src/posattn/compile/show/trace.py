"""A program at work on one input: round by round who reads from whom, and what the registers hold."""

import json
import re
from html import escape
from importlib import resources
from typing import Any

import numpy as np

from posattn.compile.interpreter import Snapshot, trace
from posattn.compile.program import Program
from posattn.errors import counted

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
    outputs = (states[-1].registers[name][0][: program.length] for name in program.outputs)
    return "\n".join([*lines, *(f"{'output':>12}  {_row(values)}" for values in outputs)])


def _row(values: Any) -> str:
    shown = " ".join("–" if value is None else f"{value:.9g}" for value in values[:SHOWN])
    return shown + (" …" if len(values) > SHOWN else "")


def page(program: Program, x: np.ndarray) -> str:
    """The trace as one self-contained HTML page: the network drawn, the values moving along it."""
    states, names = snapshots(program, x), moving(program)
    frames = []
    for state in states:
        edges = []
        if state.round is not None:
            for slot, table in state.round.receive.items():
                edges += [
                    [source[0], node, _number(state.received[slot][0][node])]
                    for node, source in enumerate(table)
                    if source is not None and source[0] != node
                ]
        frames.append(
            {
                "note": state.round.note if state.round is not None else "the input",
                "edges": edges,
                "registers": {name: [_number(value) for value in state.registers[name][0]] for name in names},
            }
        )
    shown = program.outputs[0] if program.outputs[0] in names else names[0]
    data = {"nodes": program.nodes, "names": names, "shown": shown, "frames": frames}
    title = escape(f"{program.name} on {program.length} numbers")
    packed = json.dumps(data).replace("<", "\\u003c")  # no name can end the script, or begin another
    template = (resources.files("posattn.compile") / "trace.html").read_text(encoding="utf-8")
    parts = {"{title}": title, "{data}": packed}
    return re.sub("{title}|{data}", lambda found: parts[found[0]], template)  # at once: a name may hold {data}


def _number(value: float) -> float:
    return float(f"{value:.6g}")
