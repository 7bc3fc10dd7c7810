"""What stands beside looped models with symmetry: other Transformers, fitted slopes and compiled programs.

All of them see numbers from the same range, in as many steps with as large batches. Looped ones are trained on all
blocks of eight numbers at once; the others on lengths 1 … 8, one length per batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from posattn.compile import Compiled, compile, library
from posattn.nn import (
    Alibi,
    Architecture,
    LoopedSlopes,
    LoopedStandard,
    Positional,
    RandomPlaces,
    Standard,
    StandardRandomPlaces,
)
from posattn.nn.numeric_sizes import Numeric
from posattn.studies.positional.compiled_programs import PROGRAMS

LENGTHS = tuple(range(1, 9))
#: Places that randomised positions are drawn from: those of Ruoss et al. 2023.
PLACES = {"smoke": 128, "quick": 2048, "paper": 2048}
WIDTH = {"smoke": 8, "quick": 32, "paper": 32}
ENCODING_WIDTH = 32

#: Bytes that the attention of one input may take, and of a number.
MEMORY, NUMBER = 8_000_000_000, 4
#: The largest size of a compiled program: beyond it one pass takes half a minute or more.
COMPILED = 1024


@dataclass(frozen=True, kw_only=True)
class Opponent:
    """A model and what it is trained with: options of the samples, and lengths, unless it is looped."""

    model: Architecture
    options: Mapping[str, Any]
    lengths: tuple[int, ...] = ()


def opponents(
    preset: str, *, schedule: str, symmetry: tuple[str, ...], blocks: Mapping[str, Any] | None
) -> dict[str, Opponent]:
    """Those that are trained, by name. `blocks` are the options of samples for looped ones; None leaves these out."""
    width = WIDTH[preset]
    sizes: dict[str, Any] = {"embed_dim": width, "hidden_dim": width}
    waves: dict[str, Any] = sizes | {"encoding": "sinusoidal", "encoding_dim": ENCODING_WIDTH}
    places = {"places": PLACES[preset]}
    found = {
        "positional, sinusoidal": Opponent(model=Positional(**waves), options={}, lengths=LENGTHS),
        "positional, stochastic": Opponent(
            model=RandomPlaces(**waves, length=PLACES[preset]), options=places, lengths=LENGTHS
        ),
        "standard, RoPE": Opponent(
            model=Standard(**sizes, append_encoding=False, rotary=True), options={}, lengths=LENGTHS
        ),
        "standard, ALiBi": Opponent(model=Alibi(**sizes), options={}, lengths=LENGTHS),
        "standard, randomised": Opponent(
            model=StandardRandomPlaces(**waves, length=PLACES[preset]), options=places, lengths=LENGTHS
        ),
    }
    if blocks is not None:
        found["looped standard"] = Opponent(model=LoopedStandard(**sizes), options=blocks)
        if symmetry != ("scale",):
            fitted = LoopedSlopes(schedule=schedule, symmetry=symmetry)
            found["fitted slopes"] = Opponent(model=fitted, options=blocks)
    return found


def attention_bytes(model: Numeric, length: int) -> int:
    """Most that attention takes for one input: logits and what softmax makes of them, and biases where there are any.

    >>> attention_bytes(Standard(heads=2), 16_383)
    4294967296
    """
    nodes = length + model.scratchpad
    tables = 2 * model.heads
    if isinstance(model, Alibi):  # logits, biases and their difference, and the distances
        tables = 3 * model.heads + 1
    return NUMBER * tables * nodes * nodes


def takes(model: Architecture | None, length: int) -> bool:
    """Whether a model answers inputs of this length within `MEMORY`; None is a compiled program."""
    if model is None:
        return length <= COMPILED
    if not isinstance(model, Numeric):
        return True
    ends = isinstance(model, RandomPlaces | StandardRandomPlaces)
    return attention_bytes(model, length) <= MEMORY and (not ends or length <= model.length)


@lru_cache(maxsize=8)
def program(task: str, length: int, domain: float) -> Compiled:
    """The library's program for a task, as a model for numbers in [−domain, domain]."""
    return compile(library.get(PROGRAMS[task], length), domain=domain)
