"""What a compiled model promises: a largest error that holds for every input of its domain, and relative to what.

The bound comes from the operations (`posattn.compile.lowering.rounding`), not from what was tried. A program whose
outputs are in proportion to its inputs, f(c·x) = c·f(x), is held to a part of the largest input of the sample at hand;
any other to a part of the domain.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np
import torch

from posattn.compile.expressions import (
    Call,
    Constant,
    Equal,
    Exchange,
    Expression,
    Gate,
    Positive,
    Product,
    Scaled,
    Select,
    Word,
    children,
)
from posattn.compile.lowering.intervals import Interval
from posattn.compile.lowering.lattice import misread
from posattn.compile.lowering.products import expand_products
from posattn.compile.lowering.ranges import first_bounds
from posattn.compile.lowering.rounding import NUMPY, Numbers, State, grain_of, register_errors
from posattn.compile.program import Program

#: Units in the last place that an input of a grid such as 0.1 may be off by, as it is given and as it is rounded.
OFF_GRID = 1.5

LARGEST_INPUT = "the largest input"
DOMAIN = "the domain"


@dataclass(frozen=True)
class Promise:
    """|model(x) − program(x)| ≤ bound · (the largest input, or the domain) + floor."""

    bound: float
    floor: float  # what numbers too small for the dtype can amount to
    relative_to: str


def promise(program: Program, domain: float, dtype: torch.dtype) -> Promise:
    """The bound for a program without functions from outside the language."""
    expanded = expand_products(program, None)

    def error(numbers: Numbers) -> float:
        last = register_errors(first_state(expanded, domain, numbers), expanded.rounds, numbers)
        return max(float(last.errors[name][: program.length].max()) for name in program.outputs)

    bound = error(Numbers(dtype, underflow=False)) / domain
    floor = 2 * error(Numbers(dtype, rounding=False))  # twice: what is too small is rounded on its way, too
    return Promise(bound, floor, LARGEST_INPUT if in_proportion(expanded) else DOMAIN)


def first_state(program: Program, domain: float, numbers: Numbers, *, meant: bool = False) -> State:
    """The registers before the first round. `meant`: errors count from the numbers that are meant.

    On a grid of 0.1 no input is a multiple of it: the model starts from the same numbers as the program, and both are
    off by the inputs' rounding from what is meant.
    """
    ranges = first_bounds(program, domain)
    errors = {name: np.zeros(program.nodes) for name in ranges}
    grains = {name: np.full(program.nodes, np.inf) for name in ranges}
    for name in program.inputs:
        step = 1.0 if name in program.permutations else program.grid
        exact = step is not None and has_exact_multiples(step)
        grains[name] = grain_of(np.full(program.nodes, step)) if exact else np.zeros(program.nodes)
        if meant and step is not None and not exact:
            errors[name] = OFF_GRID * 2 * numbers.unit * np.abs(ranges[name].high)
    for name, values in program.constants.items():
        stored = np.array(values).astype(NUMPY[numbers.dtype]).astype(np.float64)
        rounded = np.abs(stored - np.array(values)) * numbers.rounding
        grains[name] = np.where(rounded == 0, grain_of(stored), 0.0)
        errors[name] = rounded + (np.array([misread(value) for value in values]) if meant else 0.0)
        ranges[name] = Interval(ranges[name].low - rounded, ranges[name].high + rounded)
    return State(ranges, errors, grains)


def has_exact_multiples(grid: float) -> bool:
    """Whether numbers on a grid are what they are meant to be: 0.25 has few bits, 0.1 has as many as fit."""
    return float(np.float32(grid)) == grid


class Growth(Enum):
    """How a value changes when all inputs are multiplied by one positive number."""

    ALONG = "is multiplied by it"
    NEVER = "stays the same"
    OTHERWISE = "does something else"


def in_proportion(program: Program) -> bool:
    """Whether f(c·x) = c·f(x) for c > 0 can be read off the program: constants are used as bits and factors alone."""
    if program.grid is not None or program.permutations:
        return False
    growth = {name: Growth.NEVER if name in program.constants else Growth.ALONG for name in program.registers}
    for round_ in program.rounds:
        words = dict(growth)
        for slot, table in round_.receive.items():
            words[slot] = _joint([growth[source[1]] for source in table if source is not None])
        growth |= {register: _growth(e, words) for register, e in round_.update.items()}
    return all(growth[name] is Growth.ALONG for name in program.outputs)


def _joint(parts: list[Growth]) -> Growth:
    kinds = set(parts)
    return kinds.pop() if len(kinds) == 1 else Growth.OTHERWISE if kinds else Growth.ALONG


def _growth(expression: Expression, words: Mapping[str, Growth]) -> Growth:
    def of(*parts: Expression) -> Growth:
        return _joint([_growth(part, words) for part in parts])

    def decided(growth: Growth, *bits: Expression) -> Growth:
        return growth if of(*bits) is Growth.NEVER else Growth.OTHERWISE

    match expression:
        case Word(name):
            return words[name]
        case Constant(value):
            return Growth.ALONG if value == 0 else Growth.NEVER
        case Scaled(factor, part):
            return Growth.ALONG if factor == 0 else of(part)
        case Product(one, other):
            kinds = {of(one), of(other)}
            return Growth.ALONG if kinds == {Growth.ALONG, Growth.NEVER} else _both_never(kinds)
        case Gate(part, shut):
            return decided(of(part), shut)
        case Select(bit, unless, one, zero):
            return decided(of(one, zero), bit, unless)
        case Exchange(own, other, upper, lower):
            return decided(of(own, other), upper, lower)
        case Positive() | Equal() | Call():
            return _both_never({of(*children(expression))})
    return of(*children(expression))


def _both_never(kinds: set[Growth]) -> Growth:
    return Growth.NEVER if kinds == {Growth.NEVER} else Growth.OTHERWISE
