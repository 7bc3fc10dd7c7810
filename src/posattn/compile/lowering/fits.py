"""Functions from outside the language, each replaced by a broken line before anything else is compiled.

A function of one argument becomes one line. A product of two becomes ((a + b)² − (a − b)²)/4, two lines near z²/4. The
rest of the compiler sees a program with lines; the file keeps the user's program, and the lines beside it, in the order
in which `calls_of` names the calls of each round.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from posattn.compile.expressions import Array, Call, Expression, Line, product, rebuilt, walk
from posattn.compile.expressions.known_functions import check_argument, is_known
from posattn.compile.input_ranges import Domain
from posattn.compile.lowering.broken_lines import Function, Numbers, broken_line, measured_error, outward
from posattn.compile.lowering.expression_bounds import Interval, bounds
from posattn.compile.lowering.fit_errors import can_prove, largest_error
from posattn.compile.lowering.register_bounds import register_bounds
from posattn.compile.program import Program
from posattn.compile.rounds import Round
from posattn.errors import PosattnError, require


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """A broken line that stands for a function (z²/4 for "product") of arguments from low to high in one round."""

    round: int
    function: str
    low: float
    high: float
    start: float
    knots: tuple[float, ...]
    bends: tuple[float, ...]
    error: float  # the line is nowhere further from the function …
    proved: bool  # … and whether that was proved, or measured at some points

    def of(self, argument: Expression) -> Line:
        return Line(argument, self.start, self.knots, self.bends, self.error)


def calls_of(round_: Round) -> list[Call]:
    """The distinct calls of a round: register by register, from the outside in, from left to right."""
    parts = dict.fromkeys(part for expression in round_.update.values() for part in walk(expression))
    return [part for part in parts if isinstance(part, Call)]


def fit_calls(program: Program, domain: Domain, *, knots: int, dtype: torch.dtype) -> tuple[Fitted, ...]:
    """A line for every call, or two for a product, on all values that its arguments can take."""
    require(knots >= 2, f"fit={knots}: a broken line has at least two knots.")
    found = []
    for number, call, argument, (low, high) in _arguments(program, domain):
        function = _fitted_function(call)
        low, high = outward(low, high, dtype)
        require(bool(np.isfinite([low, high]).all()), f"{call}: {argument} is not bounded, so it cannot be fitted.")
        line = broken_line(call.name, function, low, high, knots=knots, dtype=dtype)
        found.append(_with_error(number, call, line, low, high))
    return tuple(found)


def checked_fits(program: Program, domain: Domain, fits: Sequence[Fitted]) -> tuple[Fitted, ...]:
    """Lines from a file: on all values that arguments can take, each with an error that is found anew."""
    needed = list(_arguments(program, domain))
    require(
        len(fits) == len(needed), f"{len(fits)} fits for {len(needed)} of program '{program.name}': compile it again."
    )
    found = []
    for fit, (number, call, argument, (low, high)) in zip(fits, needed, strict=True):
        require(
            (fit.round, fit.function) == (number, call.name) and fit.low <= low <= high <= fit.high,
            f"round {number}: {fit.function} is fitted on [{fit.low:g}, {fit.high:g}], and {argument} in {call} can be "
            f"anything from {low:g} to {high:g}: compile it again.",
        )
        line = Numbers(fit.start, fit.knots, fit.bends)
        found.append(_with_error(number, call, line, fit.low, fit.high))
    return tuple(found)


def replace_calls(program: Program, fits: Sequence[Fitted]) -> Program:
    """The same program with lines in place of its calls."""
    if not any(map(calls_of, program.rounds)):
        return program
    waiting = iter(fits)
    rounds = []
    for number, round_ in enumerate(program.rounds, 1):
        lines: dict[Expression, list[Fitted]] = {}
        for call in calls_of(round_):
            lines[call] = [fit for _, fit in zip(_line_arguments(call), waiting, strict=False)]
            right = [(fit.round, fit.function) for fit in lines[call]]
            require(
                right == [(number, call.name)] * len(_line_arguments(call)),
                f"round {number}: the fits have no line for {call}. Compile the program again.",
            )
        update = {register: _replaced(e, lines, {}) for register, e in round_.update.items()}
        rounds.append(Round(receive=round_.receive, update=update, note=round_.note))
    require(next(waiting, None) is None, f"there are more fits than calls in program '{program.name}'.")
    return dataclasses.replace(program, rounds=tuple(rounds), recipe=None, oracle=None)


def errors_of(fits: Sequence[Fitted]) -> tuple[tuple[str, float], ...]:
    """Every fitted function with the largest error of its fits; a product's is that of both its lines."""
    errors, waiting = [], iter(fits)
    for fit in waiting:
        error = fit.error + (next(waiting).error if fit.function == "product" else 0.0)
        errors.append((fit.function, error))
    return tuple(dict(sorted(errors, key=lambda pair: pair[1])).items())


def fits_from_json(held: Any) -> tuple[Fitted, ...]:
    """Lines as a file has them. What they say is checked where it is used."""
    found = []
    for fields in held:
        fit = Fitted(
            round=int(fields["round"]),
            function=str(fields["function"]),
            low=float(fields["low"]),
            high=float(fields["high"]),
            start=float(fields["start"]),
            knots=tuple(map(float, fields["knots"])),
            bends=tuple(map(float, fields["bends"])),
            error=float(fields["error"]),
            proved=fields["proved"] is True,
        )
        finite = bool(np.isfinite([fit.low, fit.high, fit.start, fit.error, *fit.knots, *fit.bends]).all())
        rising = len(fit.knots) == len(fit.bends) > 0 and bool((np.diff(fit.knots) > 0).all())
        require(finite and rising and fit.low <= fit.high, f"its fit of {fit.function!r:.20} is not a broken line.")
        found.append(fit)
    return tuple(found)


def _replaced(expression: Expression, lines: Mapping[Expression, list[Fitted]], known: dict) -> Expression:
    if expression not in known:
        changed = rebuilt(expression, lambda part: _replaced(part, lines, known))
        if isinstance(changed, Call):
            parts = zip(lines[expression], _line_arguments(changed), strict=True)
            first, *second = [fit.of(argument) for fit, argument in parts]
            changed = first - second[0] if second else first
        known[expression] = changed
    return known[expression]


def _line_arguments(call: Call) -> list[Expression]:
    """What a call's lines are functions of."""
    if call.function is product:
        one, other = call.arguments
        return [one + other, one - other]
    if len(call.arguments) != 1:
        raise PosattnError(
            f"{call}: a function of {len(call.arguments)} arguments cannot be fitted. Build it from products and "
            "functions of one argument."
        )
    return list(call.arguments)


def _arguments(program: Program, domain: Domain) -> Iterator[tuple[int, Call, Expression, tuple[float, float]]]:
    """The round, the call, and what each of its lines is a function of, with the least and the largest value."""
    with np.errstate(all="ignore"):  # what is not finite is refused here
        ranges = register_bounds(program, domain)
    for number, (round_, (registers, words)) in enumerate(zip(program.rounds, ranges, strict=False), 1):
        calls = calls_of(round_)
        for call in reversed(calls):  # from the inside out: what is not defined makes all around it unbounded
            for argument in _line_arguments(call):
                check_argument(call, *_hull(bounds(argument, registers | words)))
        for call in calls:
            for argument in _line_arguments(call):
                low, high = _hull(bounds(argument, registers | words))
                yield number, call, argument, (low, high)


def _hull(held: Interval) -> tuple[float, float]:
    return float(held.low.min()), float(held.high.max())


def _fitted_function(call: Call) -> Function:
    return _quarter_square if call.function is product else call.function


def _quarter_square(z: Array) -> Array:
    return z * z / 4


def _with_error(number: int, call: Call, line: Numbers, low: float, high: float) -> Fitted:
    proved = is_known(call) and can_prove(call.name)
    if proved:
        error = largest_error(call.name, *line, low, high)
    else:
        error = measured_error(_fitted_function(call), line, low, high)
    return Fitted(round=number, function=call.name, low=low, high=high, **line._asdict(), error=error, proved=proved)
