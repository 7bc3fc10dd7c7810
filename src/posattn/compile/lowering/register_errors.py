"""The errors of all registers, round by round, from those of the inputs and constants."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from posattn.compile.arguments import Source
from posattn.compile.expressions import Array, Expression, walk
from posattn.compile.input_ranges import Domain, grid_of
from posattn.compile.interpreter import received_words
from posattn.compile.lowering.expression_bounds import Interval, bounds
from posattn.compile.lowering.floats import NUMPY, Numbers, grain_of, has_exact_multiples
from posattn.compile.lowering.lattice import misread
from posattn.compile.lowering.register_bounds import first_bounds
from posattn.compile.lowering.rounding import Rounding, State
from posattn.compile.program import Program
from posattn.compile.rounds import Round

#: Units in the last place that an input of a grid such as 0.1 may be off by, as it is given and as it is rounded.
OFF_GRID = 1.5


def first_state(program: Program, domain: Domain, numbers: Numbers, *, meant: bool = False) -> State:
    """The registers before the first round. `meant`: errors count from the numbers that are meant.

    On a grid of 0.1 no input is a multiple of it: the model starts from the same numbers as the program, and both are
    off by the inputs' rounding from what is meant.
    """
    ranges = first_bounds(program, domain)
    errors = {name: np.zeros(program.nodes) for name in ranges}
    grains = {name: np.full(program.nodes, np.inf) for name in ranges}
    for name in program.inputs:
        step = grid_of(program, name)
        exact = step is not None and has_exact_multiples(step)
        grains[name] = grain_of(np.full(program.nodes, step)) if exact else np.zeros(program.nodes)
        if meant and step is not None and not exact:
            errors[name] = OFF_GRID * 2 * numbers.unit * np.abs(ranges[name].high)
    for name, values in program.constants.items():
        stored = np.array(values).astype(NUMPY[numbers.dtype]).astype(np.float64)
        rounded = np.abs(stored - np.array(values)) * numbers.rounding
        grains[name] = np.where(rounded == 0, grain_of(stored), 0.0)
        errors[name] = rounded + (np.array([float(misread(value)) for value in values]) if meant else 0.0)
        ranges[name] = Interval(ranges[name].low - rounded, ranges[name].high + rounded)
    return State(ranges, errors, grains)


def received(state: State, round_: Round) -> State:
    """What a round's words are, from what registers are; nothing arrives as an exact 0."""
    low = {name: held.low for name, held in state.ranges.items()}
    high = {name: held.high for name, held in state.ranges.items()}
    tables = round_.receive.items()
    return State(
        {**state.ranges, **{s: Interval(_moved(t, low, 0.0), _moved(t, high, 0.0)) for s, t in tables}},
        {**state.errors, **{s: _moved(t, state.errors, 0.0) for s, t in tables}},
        {**state.grains, **{s: _moved(t, state.grains, math.inf) for s, t in tables}},
    )


def _moved(table: tuple[Source, ...], held: Mapping[str, Array], nothing: float) -> Array:
    none = np.array([source is None for source in table])
    return np.where(none, nothing, received_words(table, dict(held)))


def register_errors(
    start: State,
    rounds: Sequence[Round],
    numbers: Numbers,
    *,
    meant: bool = False,
    look: Callable[[int, str, Expression, Rounding], None] = lambda *_: None,
) -> State:
    """The registers after the last round. `look` sees every part of every update, with the errors of its words."""
    state = start
    for number, round_ in enumerate(rounds, 1):
        rounding = Rounding(received(state, round_), numbers, meant)
        ranges, errors, grains = dict(state.ranges), dict(state.errors), dict(state.grains)
        for register, expression in round_.update.items():
            for part in walk(expression):
                look(number, register, part, rounding)
            carried, local = rounding.carried(expression), rounding.local(expression)
            error = carried + local
            held = bounds(expression, rounding.words.ranges)  # of words that are off already
            ranges[register] = Interval(held.low - local, held.high + local)
            errors[register] = error
            grains[register] = np.where(error == 0, rounding.parts(expression).grain, 0.0)
        state = State(ranges, errors, grains)
    return state
