"""Generalise: every model of a task on fresh data, at other scales and lengths than it was trained with."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from posattn import tasks, zoo
from posattn.checks import choice
from posattn.compile import Compiled, compile, library
from posattn.lab.drawing import Panel, drawn
from posattn.lab.limits import MOST_LENGTH, MOST_SCALE, whole
from posattn.lab.panels import Table, number, panel
from posattn.lab.shown import Note, Shown
from posattn.nn import LoopedPositionalTransformer
from posattn.studies.core.views import DIVERGED
from posattn.studies.positional.compiled_programs import PROGRAMS

#: Numbers per test set, about, and at least so many samples.
NUMBERS, LEAST = 2048, 4
#: What models were trained on.
TRAINED_LENGTH, TRAINED_RANGE = 8, 2.0
#: The longest input of a compiled model here, since the lab has seconds. A running median takes n²/2 nodes.
MOST_COMPILED, MOST_MEDIAN = 512, 32
SCALES = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
LENGTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
#: Seconds after which no further point is begun.
PATIENCE = 4.0
SHOWN = 8
#: Losses below are all the same to a reader: rounding.
FLOOR = 1e-9

Answer = Callable[[Tensor], Tensor]
Place = tuple[int, int]  # scale and length


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """A model by its kind, with the longest input that it takes; `answer` maps (batch, length, 1) to the same."""

    kind: str
    answer: Answer
    longest: int


def generalise(task: str, scale: float, length: float, seed: float = 0, *, note: Note) -> Shown:
    """Losses of all models of a task on numbers in ±2c, over scales and over lengths, and one example."""
    choice("task", task, sorted({of for of, _ in zoo.of_lists()}))
    c = whole("scale", scale, least=1, most=MOST_SCALE)
    n = whole("length", length, least=1, most=MOST_LENGTH)
    end = time.monotonic() + PATIENCE
    generator = torch.Generator().manual_seed(whole("seed", seed, least=0, most=2**31))
    models = contestants(task)
    scales, lengths = _up_to(SCALES, c), _up_to(LENGTHS, n)
    note("one example")
    example = _example(task, c, n, models, generator)
    wanted = list(dict.fromkeys([(c, n), *((c, m) for m in lengths), *((s, n) for s in scales)]))
    losses = _measured(task, wanted, models, generator, note=note, end=end)
    figure = drawn(
        "Loss of every model, where it takes so many numbers.",
        Panel(
            f"Over scales, length {n:,}",
            "c: numbers in ±2c",
            "loss",
            _curves(losses, [(s, n) for s in scales], 0),
            floor=FLOOR,
        ),
        Panel(f"Over lengths, c = {c}", "length", "loss", _curves(losses, [(c, m) for m in lengths], 1), floor=FLOOR),
    )
    rows = tuple((m.kind, _loss(losses.get((c, n), {}).get(m.kind), m, n)) for m in models)
    caption = f"Loss on fresh data, numbers in ±{TRAINED_RANGE * c:g}, length {n:,}"
    longest = max(model.longest for model in models)
    left_out = [f"c={s}, length {m:,}" for s, m in wanted if m <= longest and (s, m) not in losses]
    notes = [
        "Trained models saw eight numbers in ±2 (looped ones up to eight); compiled ones saw nothing. Every list comes "
        "from an interval of its own within the range, as in training."
    ]
    notes += [f"Left out for want of time: {'; '.join(left_out)}."] if left_out else []
    notes += _diverged(losses)
    page = panel(
        f"{task}: c = {c}, length {n:,}",
        tables=[Table(caption=caption, header=("model", "loss"), rows=rows), example],
        pictures=[figure],
        notes=notes,
    )
    return Shown((page,))


def _measured(
    task: str,
    places: Sequence[Place],
    models: Sequence[Contestant],
    generator: torch.Generator,
    *,
    note: Note,
    end: float,
) -> dict[Place, dict[str, float]]:
    """By (scale, length), every model's loss where it takes that length; what is not begun by the `end` is left out."""
    found: dict[Place, dict[str, float]] = {}
    for at, (scale, length) in enumerate(places, 1):
        able = [model for model in models if length <= model.longest]
        if able and time.monotonic() < end:
            note(f"c={scale}, length {length:,} ({at} of {len(places)})")
            x, y = _drawn(task, scale, length, generator, samples=max(LEAST, NUMBERS // length))
            found[scale, length] = {model.kind: tasks.get(task).loss(model.answer(x), y).item() for model in able}
    return found


def _curves(
    losses: Mapping[Place, Mapping[str, float]], places: Sequence[Place], axis: int
) -> dict[str, list[tuple[float, float]]]:
    """By model, (place on the axis, loss), where it has not diverged."""
    found: dict[str, list[tuple[float, float]]] = {}
    for place in places:
        for kind, loss in losses.get(place, {}).items():
            if loss < DIVERGED:
                found.setdefault(kind, []).append((place[axis], loss))
    return found


def _diverged(losses: Mapping[Place, Mapping[str, float]]) -> list[str]:
    """A note on the models that have diverged somewhere, if any."""
    lost: dict[str, list[str]] = {}
    for (scale, length), found in losses.items():
        for kind, loss in found.items():
            if not loss < DIVERGED:
                lost.setdefault(kind, []).append(f"c={scale}, length {length:,}")
    return [f"Diverged, and not drawn there: {kind} at {'; '.join(places)}." for kind, places in lost.items()]


def _loss(loss: float | None, model: Contestant, length: int) -> str:
    if length > model.longest:
        return f"takes at most {model.longest:,} numbers"
    if loss is None:
        return "no time"
    return f"{loss:.3g}" if loss < DIVERGED else "diverged"


def contestants(task: str) -> list[Contestant]:
    """The zoo's models of a task, and the compiled program that computes it."""
    found = []
    for of, kind in zoo.of_lists():
        if of == task:
            model = zoo.load(of, kind)
            looped = isinstance(model, LoopedPositionalTransformer)
            found.append(
                Contestant(kind=kind, answer=_forward(model), longest=MOST_LENGTH if looped else TRAINED_LENGTH)
            )
    if task in PROGRAMS:
        longest = MOST_MEDIAN if task == "median" else MOST_COMPILED
        found.append(Contestant(kind="compiled", answer=_compiled(task), longest=longest))
    return found


def _forward(model: torch.nn.Module) -> Answer:
    dtype = next(model.parameters()).dtype

    @torch.no_grad()
    def answer(x: Tensor) -> Tensor:
        return model(x.to(dtype)).double()

    return answer


def _compiled(task: str) -> Answer:
    @cache
    def made(length: int) -> Compiled:
        return compile(library.get(PROGRAMS[task], length), domain=TRAINED_RANGE * MOST_SCALE).harden()

    def answer(x: Tensor) -> Tensor:
        return made(x.shape[1])(x.float()).double()

    return answer


def _drawn(task: str, scale: int, length: int, generator: torch.Generator, *, samples: int) -> tuple[Tensor, Tensor]:
    """Fresh samples with numbers in ±2c, and the exact answers, in float64."""
    high, dtype = TRAINED_RANGE * scale, torch.float64
    return tasks.get(task).sample(samples, length=length, low=-high, high=high, generator=generator, dtype=dtype)


def _up_to(values: tuple[int, ...], last: int) -> list[int]:
    return sorted({*(value for value in values if value < last), last})


def _example(task: str, scale: int, length: int, models: list[Contestant], generator: torch.Generator) -> Table:
    """One input, the truth, and what every model says, at the first nodes."""
    x, y = _drawn(task, scale, length, generator, samples=1)
    rows = [("input", *(number(value) for value in x[0, :SHOWN, 0].tolist()))]
    rows.append(("truth", *(number(value) for value in y[0, :SHOWN, 0].tolist())))
    for model in models:
        if length <= model.longest:
            rows.append((model.kind, *(number(value) for value in model.answer(x)[0, :SHOWN, 0].tolist())))
    nodes = tuple(str(node) for node in range(min(length, SHOWN)))
    cut = f", nodes 0 to {SHOWN - 1} of {length:,}" if length > SHOWN else ""
    return Table(caption=f"One example{cut}", header=("node", *nodes), rows=tuple(rows))
