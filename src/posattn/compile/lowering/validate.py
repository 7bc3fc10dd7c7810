"""What a program must fulfil for its weights to be exact, checked before compiling. Every error names the place."""

from collections.abc import Iterator

import numpy as np
import torch

from posattn.compile.expressions import Equal, Exchange, Expression, Gate, Positive, Select, walk
from posattn.compile.input_ranges import Domain, grid_of, named_bounds
from posattn.compile.interpreter import received_words
from posattn.compile.lowering.expression_bounds import bounds
from posattn.compile.lowering.floats import NUMPY, Numbers
from posattn.compile.lowering.lattice import ZERO, Kinds, Lattice, Values, meant
from posattn.compile.lowering.register_bounds import register_bounds
from posattn.compile.lowering.register_errors import first_state, register_errors
from posattn.compile.lowering.rounding import Rounding
from posattn.compile.program import Program
from posattn.errors import PosattnError, require

#: Domains stay far enough below what float64 holds that bounds on registers can be computed.
LARGEST = 1e200
INFINITE = float("inf")


def check_sizes(program: Program, domain: Domain, dtype: torch.dtype) -> None:
    """Refuse a dtype that is not exact, and a domain that it does not reach or cannot resolve."""
    known = isinstance(dtype, torch.dtype) and dtype in NUMPY
    require(known, f"dtype={dtype}: a program is exact in {' and '.join(map(str, NUMPY))} alone.")
    about = torch.finfo(dtype)
    least = about.tiny / about.eps**2
    for name, bound in named_bounds(domain).items():
        require(
            0 < bound < LARGEST, f"{name}={bound}: inputs lie in ±domain, a finite number above 0, below {LARGEST:g}."
        )
        require(
            bound >= least,
            f"{name}={bound:g}: {dtype} keeps numbers whole down to {about.tiny:.3g}, and sums of numbers in "
            f"±{bound:g} would be cut off there. Use a domain of at least {least:.1g} and scale the inputs.",
        )
    for name, values in program.constants.items():
        large = [value for value in values if abs(value) > about.max]
        require(not large, f"constant '{name}' holds {large[:1]}, beyond {dtype}: use smaller ones, or torch.float64.")


def check_language(program: Program, fit: object | None) -> None:
    """Refuse what cannot be compiled, all of it at once."""
    outside = program.outside()
    if outside and fit is None:
        listed = "".join(f"\n  - {place}" for place in outside)
        raise PosattnError(
            f"program '{program.name}' cannot be compiled exactly:{listed}\nAllow a fit, fit=64, or change it."
        )


def check_decisions(program: Program, domain: Domain, dtype: torch.dtype) -> None:
    """Refuse decisions whose numbers can lie between the two answers, or come there by rounding."""
    found = list(dict.fromkeys(_undecided(program, domain))) or _blurred(program, domain, dtype)
    if found:
        listed = "".join(f"\n  - {place}" for place in found)
        raise PosattnError(f"program '{program.name}' cannot be compiled exactly:{listed}")


def _undecided(program: Program, domain: Domain) -> Iterator[str]:
    """Every decision by a value that can lie between its answers."""
    kinds = Kinds()
    registers = _first_kinds(program, kinds)
    nothing = kinds.place(ZERO)
    for number, (round_, (ranges, words)) in enumerate(
        zip(program.rounds, register_bounds(program, domain), strict=False), 1
    ):
        held = dict(registers)
        for slot, table in round_.receive.items():
            none = np.array([source is None for source in table])
            held[slot] = np.where(none, nothing, received_words(table, registers))
        values = Values(kinds, held, ranges | words)
        for register, expression in round_.update.items():
            place = f"round {number}, register '{register}': "
            for part in walk(expression):
                for decider, gaps, fix in _deciders(part):
                    value = kinds.inside(values.of(decider), bounds(decider, values.ranges), gaps)
                    if value is not None:
                        free = kinds.place(None) in values.of(decider)
                        can = "can be any number" if free else f"can be {float(value):g}"
                        yield f"{place}{part} decides by {decider}, which {can}. {fix}"
            registers = registers | {register: values.of(expression)}


def _first_kinds(program: Program, kinds: Kinds) -> dict[str, np.ndarray]:
    """The lattices of the registers before the first round."""
    inside = np.arange(program.nodes) < program.length
    registers = {name: kinds.everywhere(ZERO, program.nodes) for name in program.registers}
    for name in program.inputs:
        grid = grid_of(program, name)
        held = None if grid is None else Lattice(meant(0.0), meant(grid))
        registers[name] = np.where(inside, kinds.place(held), registers[name])
    return registers | {name: kinds.numbers(np.array(values, float)) for name, values in program.constants.items()}


def _deciders(part: Expression) -> Iterator[tuple[Expression, tuple[tuple[float, float], ...], str]]:
    """What an expression decides by, the open gaps in which that may not lie, and what to do where it does."""
    bit = ((-INFINITE, 0.0), (0.0, 1.0), (1.0, INFINITE))
    decide = "Decide by a bit: a constant, positive(…) or equal(…)"
    match part:
        case Positive(of, grid):
            fix = f"Nothing may lie between 0 and grid={grid:g}: give the program and the comparison their grid, "
            fix += "or write ramp(e, width=…), which rises from 0 to 1 in between."
            yield of, ((0.0, grid),), fix
        case Equal(one, other, grid):
            fix = (
                f"Less than grid={grid:g} apart there must be nothing: give the program and the comparison their grid."
            )
            yield one - other, ((-grid, 0.0), (0.0, grid)), fix
        case Gate(_, shut):
            fix = f"Between 0 and 1 a gate is half open. {decide}, or scale the distance, distance(a, b) / grid."
            yield shut, ((0.0, 1.0),), fix
        case Select(decider, _, _, _) | Exchange(_, _, decider, _):
            yield decider, bit, f"A bit is 0 or 1. {decide}, joined by minimum and maximum."


def _blurred(program: Program, domain: Domain, dtype: torch.dtype) -> list[str]:
    """Every decision by a value that rounding can take to the wrong side, and every sum that overflows."""
    numbers, found = Numbers(dtype), []
    wider = ", or dtype=torch.float64" if dtype == torch.float32 else ""

    def look(number: int, register: str, part: Expression, rounding: Rounding) -> None:
        place = f"round {number}, register '{register}': "
        size = rounding.parts(part).size.max()
        if size > torch.finfo(dtype).max:
            found.append(f"{place}{part} adds up to {size:.3g}, beyond {dtype}. Use a smaller domain{wider}.")
            return
        match part:
            case Positive(of, grid):
                off, compared = rounding.carried(of), rounding.parts(of)
            case Equal(one, other, grid):
                off, compared = rounding.carried(one - other), rounding.parts(one - other)
            case Gate(_, decider) | Select(decider, _, _, _) | Exchange(_, _, decider, _):
                found.extend(_inexact(place, part, decider, rounding))
                return
            case _:
                return
        if not (rounding.compared(compared, off, grid) <= 0.5).all():  # a quarter of the grid, as 2·e/grid
            steps = float(compared.size.max()) / grid
            found.append(
                f"{place}{part} compares numbers of up to {steps:.3g} steps of {grid:g}, and rounding in {dtype} can "
                f"move them by more than a quarter of a step. Use a smaller domain, or a coarser grid{wider}."
            )

    start = first_state(program, domain, numbers, meant=True)
    register_errors(start, program.rounds, numbers, meant=True, look=look)
    return list(dict.fromkeys(found))


def _inexact(place: str, part: Expression, decider: Expression, rounding: Rounding) -> Iterator[str]:
    error = float((rounding.carried(decider) + rounding.local(decider)).max())
    if error > 0:
        yield (
            f"{place}{part} decides by {decider}, which rounding can move by {error:.2g}: then a gate is no longer "
            "open or shut. Decide by positive(…) or equal(…), which forgive a quarter of their grid."
        )
