"""What a compiled model promises: a largest error that holds for every input of its domain, and relative to what.

The bound comes from the operations (`posattn.compile.lowering.rounding`), not from what was tried. A program whose
outputs are in proportion to its inputs, f(c·x) = c·f(x), is held to a part of the largest input of the sample at hand;
any other to a part of the domain.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import torch

from posattn.compile.expressions import Expression, children, tree
from posattn.compile.lowering.floats import Numbers
from posattn.compile.lowering.products import expand_products
from posattn.compile.lowering.register_errors import first_state, register_errors
from posattn.compile.program import Program

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
        case tree.Word(name):
            return words[name]
        case tree.Constant(value):
            return Growth.ALONG if value == 0 else Growth.NEVER
        case tree.Scaled(factor, part):
            return Growth.ALONG if factor == 0 else of(part)
        case tree.Product(one, other):
            kinds = {of(one), of(other)}
            return Growth.ALONG if kinds == {Growth.ALONG, Growth.NEVER} else _both_never(kinds)
        case tree.Gate(part, shut):
            return decided(of(part), shut)
        case tree.Select(bit, unless, one, zero):
            return decided(of(one, zero), bit, unless)
        case tree.Exchange(own, other, upper, lower):
            return decided(of(own, other), upper, lower)
        case tree.Positive() | tree.Equal() | tree.Call():
            return _both_never({of(*children(expression))})
    return of(*children(expression))


def _both_never(kinds: set[Growth]) -> Growth:
    return Growth.NEVER if kinds == {Growth.NEVER} else Growth.OTHERWISE
