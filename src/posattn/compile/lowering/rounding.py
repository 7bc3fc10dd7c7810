"""How far a compiled model can be from its program, for every input of the domain: a bound from the operations.

The error of a register has two parts at every round.

    carried   what its words were off by, through the exact function: at most the sum for +, the larger of the two for
              min, max, select and exchange, nothing for a bit (which forgives a quarter of its grid)
    local     what this round's own sums are off by. A sum of k terms that are not 0 is off by at most (k − 1)·u·Σ|term|
              in any order, with or without fused multiply-add, u being half the distance from 1 to the next number;
              a sum of two by u·|sum|; a product by another u, unless its factor is a power of two

and no sum is off at all where all terms are multiples of one power of two g and Σ|term| ≤ 2ᵖ·g, p being the bits of a
significand: that is how programs on a grid come out exact. Terms of a shut gate and a bit's M·0 are exact zeros.
Whatever is below the smallest normal number may be kept, rounded or taken for 0: every term can be off by that besides.

Sizes are those of `posattn.compile.lowering.intervals`, widened by the errors so far.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

from posattn.compile.expressions import (
    Array,
    Call,
    Constant,
    Equal,
    Exchange,
    Expression,
    Gate,
    Maximum,
    Minimum,
    Positive,
    Relu,
    Scaled,
    Select,
    Sum,
    Word,
    raised,
    walk,
)
from posattn.compile.interpreter import received_words
from posattn.compile.lowering.intervals import Interval, bounds
from posattn.compile.lowering.lattice import misread
from posattn.compile.program import Round
from posattn.errors import PosattnError

NUMPY = {torch.float32: np.float32, torch.float64: np.float64}


class Parts(NamedTuple):
    """A linear form as the model adds it up, at every node."""

    terms: Array  # how many of its terms can differ from 0
    size: Array  # Σ |term|, at most
    error: Array  # Σ |coefficient|·error of the unit behind it
    grain: Array  # a power of two of which every term is a multiple; 0: none is known, ∞: every term is 0
    factors: int  # roundings of a coefficient and its product


@dataclass(frozen=True)
class Numbers:
    """What a dtype can do."""

    dtype: torch.dtype
    rounding: bool = True  # whether roundings count …
    underflow: bool = True  # … and numbers too small for the dtype

    @property
    def tiny(self) -> float:
        return torch.finfo(self.dtype).tiny if self.underflow else 0.0

    @property
    def unit(self) -> float:
        return torch.finfo(self.dtype).eps / 2 if self.rounding else 0.0

    @property
    def bits(self) -> int:
        return round(1 - math.log2(torch.finfo(self.dtype).eps))

    def holds(self, number: float) -> bool:
        return float(NUMPY[self.dtype](number)) == number


def grain_of(values: Array) -> Array:
    """The lowest bit of every number, a power of two; ∞ for 0, which is a multiple of everything."""

    def lowest(value: float) -> float:
        above, below = value.as_integer_ratio()
        return (above & -above) / below if above else math.inf

    distinct, which = np.unique(np.abs(values), return_inverse=True)
    return np.array([lowest(float(value)) for value in distinct])[which]


@dataclass(frozen=True)
class State:
    """Of every register or word: its bounds in the model, its error, and the power of two it is a multiple of."""

    ranges: Mapping[str, Interval]
    errors: Mapping[str, Array]
    grains: Mapping[str, Array]


def received(state: State, round_: Round) -> State:
    """What a round's words are, from what registers are; nothing arrives as an exact 0."""

    def moved(slot_table: tuple, held: Mapping[str, Array], nothing: float) -> Array:
        none = np.array([source is None for source in slot_table])
        return np.where(none, nothing, received_words(slot_table, dict(held)))

    low = {name: held.low for name, held in state.ranges.items()}
    high = {name: held.high for name, held in state.ranges.items()}
    tables = round_.receive.items()
    return State(
        {**state.ranges, **{s: Interval(moved(t, low, 0.0), moved(t, high, 0.0)) for s, t in tables}},
        {**state.errors, **{s: moved(t, state.errors, 0.0) for s, t in tables}},
        {**state.grains, **{s: moved(t, state.grains, math.inf) for s, t in tables}},
    )


@dataclass(frozen=True)
class Rounding:
    """The errors of expressions in words with known bounds and errors.

    `meant`: they count from the numbers that are meant, a tenth for 0.1, and not from those that the program computes
    with.
    """

    words: State
    numbers: Numbers
    meant: bool = False
    known: dict[tuple[str, Expression], Any] = field(default_factory=dict)  # what was computed before

    def local(self, expression: Expression) -> Array:
        """The part of this expression's own sums."""
        return self.added_up(self.parts(expression), self._reach(expression))

    def carried(self, expression: Expression) -> Array:
        """The part that comes with the words."""
        key = ("carried", expression)
        if key not in self.known:
            self.known[key] = self._carried(expression)
        return self.known[key]

    def parts(self, expression: Expression) -> Parts:
        """The expression as the sum that `posattn.compile.lowering.relu` makes of it."""
        key = ("parts", expression)
        if key not in self.known:
            self.known[key] = self._parts(expression)
        return self.known[key]

    def _carried(self, expression: Expression) -> Array:
        nodes = len(next(iter(self.words.errors.values())))
        match expression:
            case Word(name):
                return self.words.errors[name]
            case Positive() | Equal():
                return np.zeros(nodes)
            case Constant(value):
                return np.full(nodes, misread(value) if self.meant else 0.0)
            case Sum() if (pair := raised(expression)) is not None:
                return np.maximum(self.carried(pair[0]), self.carried(pair[1]))
            case Sum(terms):
                return np.sum([self.carried(term) for term in terms], axis=0)
            case Scaled(factor, of):
                off = misread(factor) * self._reach(of) if self.meant else 0.0
                return abs(factor) * self.carried(of) + off
            case Relu(of):
                return self.carried(of)
            case Gate(of, shut):
                # behind a gate that is always shut nothing is left, unless the error is so large that it passes
                error, shuts = self.carried(of), bounds(shut, self.words.ranges).low >= 1
                return np.where(shuts & (2 * error <= self._reach(of)), 0.0, error)
            case Minimum(one, other) | Maximum(one, other):
                return np.maximum(self.carried(one), self.carried(other))
            case Select(_, _, one, other):
                a, b = self.carried(one), self.carried(other)
                return np.where(self._shut_off(one) & self._shut_off(other), np.maximum(a, b), a + b)
            case Exchange(one, other, _, _):
                a, b = self.carried(one), self.carried(other)
                return np.where(2 * (a + b) <= self._reach(one - other), np.maximum(a, b), 2 * (a + b))
            case Call():  # a fit's own error is not a matter of rounding: certificates state it apart
                return np.zeros(nodes)
        raise PosattnError(f"{expression!r} is not an expression of posattn.compile.")

    def _parts(self, expression: Expression) -> Parts:
        match expression:
            case Word(name):
                size = self._reach(expression)
                return Parts((size > 0) * 1, size, np.zeros(len(size)), self.words.grains[name], 0)
            case Constant(value):
                size = self._reach(expression)
                grain = grain_of(np.full(len(size), value)) if self.numbers.holds(value) else np.zeros(len(size))
                return Parts((size > 0) * 1, size, np.zeros(len(size)), grain, 0 if self.numbers.holds(value) else 1)
            case Sum(terms):
                return _together(*map(self.parts, terms))
            case Scaled(factor, of):
                return self._times(factor, self.parts(of))
            case Relu(of):
                return self.unit(self.parts(of), of)
            case Gate(of, shut):
                inner = of.of if isinstance(of, Relu) else of
                held, shuts = self.unit(self.parts(inner), of), bounds(shut, self.words.ranges).low >= 1
                shuts &= 2 * (held.error + self.carried(of)) <= self._reach(of)
                return _where(shuts, _nothing(len(shuts)), held)
            case Minimum(one, other) | Maximum(one, other):
                a, b = self.parts(one), self.parts(other)
                return _together(a, self.unit(_together(a, b), one - other))
            case Select(_, _, one, other):  # one of the two gates is shut
                a, b = self.unit(self.parts(one), one), self.unit(self.parts(other), other)
                return _where(self._shut_off(one) & self._shut_off(other), _either(a, b), _together(a, b))
            case Exchange(one, other, _, _):  # one of the two units is shut
                a, b = self.parts(one), self.parts(other)
                return _together(a, self.unit(_together(a, b), one - other))
            case Positive() | Equal():
                nodes = len(next(iter(self.words.errors.values())))
                return Parts(np.ones(nodes), np.ones(nodes), np.zeros(nodes), np.ones(nodes), 0)
            case Call():
                size = self._reach(expression)
                return Parts((size > 0) * 1, size, np.zeros(len(size)), np.zeros(len(size)), 0)
        raise PosattnError(f"{expression!r} is not an expression of posattn.compile.")

    def added_up(self, parts: Parts, reach: Array) -> Array:
        """The error of the sum, its terms' errors included, for a value of at most `reach`."""
        u = self.numbers.unit
        count = np.maximum(parts.terms - 1, 0) + parts.factors * (parts.terms > 0)
        general = count * u / (1 - count * u) * (parts.size + parts.error)
        few = (parts.terms <= 2) & (parts.factors == 0)
        rounded = np.where(few, np.minimum(general, u * (reach + parts.error)), general)
        room = (1 - 2.0**-40) * 2.0**self.numbers.bits * parts.grain  # sizes are rounded themselves
        exact = (parts.error == 0) & (parts.size <= room) & (parts.grain >= self.numbers.tiny)
        return np.where(exact, 0.0, parts.error + rounded + parts.terms * self.numbers.tiny)

    def unit(self, parts: Parts, of: Expression) -> Parts:
        """relu of a sum, as one term."""
        reach = self._reach(of)
        error = self.added_up(parts, reach)
        grain = np.where(error == 0, parts.grain, 0.0)
        return Parts(((reach + error) > 0) * 1, reach, error, grain, 0)

    def compared(self, one: Parts, off: Array, grid: float) -> Array:
        """How far a comparison's 2·e/grid ± ½ can be off, e being off by `off` before."""
        scaled = self._times(2 / grid, one)
        whole = np.ones(len(off))
        threshold = Parts(whole, 1.5 * whole, 0 * whole, 0.5 * whole, 0)
        total = _together(scaled, threshold)
        return 2 / grid * off + self.added_up(total, total.size)

    def _times(self, factor: float, parts: Parts) -> Parts:
        power = math.frexp(factor)[0] in (0.5, -0.5)
        if factor == 0:
            return _nothing(len(parts.size))
        lowest = float(grain_of(np.array([factor]))[0]) if self.numbers.holds(factor) else 0.0
        zeros = np.isinf(parts.grain)
        grain = np.where(zeros, np.inf, np.where(zeros, 0.0, parts.grain) * lowest)
        size = abs(factor)
        return Parts(parts.terms, size * parts.size, size * parts.error, grain, parts.factors + (0 if power else 2))

    def _shut_off(self, of: Expression) -> Array:
        """Whether a shut gate holds a value back, however far it is off: not where its error is as large as itself."""
        error = self.carried(of) + self.unit(self.parts(of), of).error
        return 2 * error <= self._reach(of)

    def _reach(self, expression: Expression) -> Array:
        key = ("reach", expression)
        if key not in self.known:
            held = bounds(expression, self.words.ranges)
            self.known[key] = np.maximum(np.abs(held.low), np.abs(held.high))
        return self.known[key]


def _nothing(nodes: int) -> Parts:
    zero = np.zeros(nodes)
    return Parts(zero, zero, zero, np.full(nodes, math.inf), 0)


def _together(*all_parts: Parts) -> Parts:
    return Parts(
        np.sum([parts.terms for parts in all_parts], axis=0),
        np.sum([parts.size for parts in all_parts], axis=0),
        np.sum([parts.error for parts in all_parts], axis=0),
        np.min([parts.grain for parts in all_parts], axis=0),
        max(parts.factors for parts in all_parts),
    )


def _either(one: Parts, other: Parts) -> Parts:
    return Parts(
        np.maximum(one.terms, other.terms),
        np.maximum(one.size, other.size),
        np.maximum(one.error, other.error),
        np.minimum(one.grain, other.grain),
        max(one.factors, other.factors),
    )


def _where(condition: Array, one: Parts, other: Parts) -> Parts:
    return Parts(
        np.where(condition, one.terms, other.terms),
        np.where(condition, one.size, other.size),
        np.where(condition, one.error, other.error),
        np.where(condition, one.grain, other.grain),
        max(one.factors, other.factors),
    )


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
