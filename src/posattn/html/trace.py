"""A trace as data, and the page that shows it: values that move between nodes, step by step.

Programs, compiled models, looped models and trained ones are all shown by this page, each as a `Trace`.

>>> first = Frame(note="the input", registers={"x": (2.0, 1.0)})
>>> swapped = Frame(note="swap", registers={"x": (1.0, 2.0)}, heads=("other",), reads=((1, 0, 1.0, 1.0, 0),))
>>> "swap · posattn" in trace_page(Trace(title="swap", step="round", frames=(first, swapped), length=2))
True
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from posattn.html import render


class Read(NamedTuple):
    """What a node read of another one or of itself: a word, and the weight that attention gave it in a head."""

    source: int
    node: int
    word: float
    weight: float
    head: int  # its place among the frame's heads


@dataclass(frozen=True, kw_only=True)
class Update:
    """What an MLP computed, as a formula: a register's new value from words that every node has."""

    register: str
    formula: str
    words: Mapping[str, Sequence[float]]


@dataclass(frozen=True, kw_only=True)
class Frame:
    """One step: who read what, what the MLP made of it, and what every node holds afterwards.

    `updates` give an MLP as formulas, `inside` as numbers: by name, a row of them per node.
    """

    note: str
    registers: Mapping[str, Sequence[float]]
    heads: Sequence[str] = ()
    reads: Sequence[tuple[int, int, float, float, int]] = ()
    updates: Sequence[Update] = ()
    inside: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Trace:
    """All steps on one input. `step` is what a step is called: round, layer, iteration.

    Of `length` numbers the first `given` were given (None: all). `shown` is the register that is drawn first, and
    `exact` its right answer, where one is known.
    """

    title: str
    step: str
    frames: Sequence[Frame]
    length: int
    given: int | None = None
    shown: str | None = None
    exact: Sequence[float] | None = None
    said: str | None = None


def trace_page(trace: Trace) -> str:
    """The trace as one self-contained HTML page."""
    names = list(trace.frames[0].registers)
    data = {
        "step": trace.step,
        "nodes": len(trace.frames[0].registers[names[0]]),
        "length": trace.length,
        "given": trace.length if trace.given is None else trace.given,
        "names": names,
        "shown": trace.shown or names[0],
        "exact": None if trace.exact is None else list(trace.exact),
        "frames": [asdict(frame) for frame in trace.frames],
    }
    return render("trace.html", title=trace.title, filled=trace.said, data=_rounded(data))


def _rounded(value: Any) -> Any:
    """The same with numbers of six digits, which is more than a page shows."""
    if isinstance(value, Mapping):
        return {name: _rounded(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(entry) for entry in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
