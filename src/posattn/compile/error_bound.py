"""What a compiled model promises: the largest error for any input of its domain, and what that is relative to.

The bound follows from the operations (`posattn.compile.lowering.rounding`), not from inputs that were tried. Where
outputs are in proportion to inputs, f(c·x) = c·f(x), it is relative to the largest input of the sample at hand, and
otherwise to the domain (its largest bound, where inputs differ in theirs).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial

import torch

from posattn.compile.expressions import Expression, Line, Once, children, tree
from posattn.compile.input_ranges import Domain, largest_bound
from posattn.compile.lowering.constant_products import expand_products
from posattn.compile.lowering.fits import Fitted, replace_calls
from posattn.compile.lowering.floats import Numbers
from posattn.compile.lowering.register_errors import first_state, register_errors
from posattn.compile.program import Program
from posattn.errors import require

LARGEST_INPUT = "the largest input"
DOMAIN = "the domain"


@dataclass(frozen=True)
class Promise:
    """|model(x) − program(x)| ≤ bound · (the largest input, or the domain) + floor."""

    bound: float
    floor: float  # what numbers too small for the dtype can add up to
    relative_to: str


def promise(program: Program, domain: Domain, dtype: torch.dtype, fits: tuple[Fitted, ...] = ()) -> Promise:
    """The bound for a program whose functions from outside the language were fitted by lines of known errors."""
    expanded = replace_calls(expand_products(program, fits or None), fits)

    def error(numbers: Numbers) -> float:
        last = register_errors(first_state(expanded, domain, numbers), expanded.rounds, numbers)
        return max(float(last.errors[name][: program.output_nodes].max()) for name in program.outputs)

    bound = error(Numbers(dtype, underflow=False)) / largest_bound(domain)
    require(
        math.isfinite(bound),
        f"program '{program.name}': a sum has so many terms that rounding in {dtype} could take all of its digits. "
        "Compute it over several rounds, or in torch.float64.",
    )
    floor = 2 * error(Numbers(dtype, rounding=False))  # twice: small numbers are rounded on their way, too
    # a sample far below the domain in one input need not be so in another
    along = in_proportion(expanded) and not isinstance(domain, Mapping)
    return Promise(bound, floor, LARGEST_INPUT if along else DOMAIN)


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
    return Once(partial(_part_growth, words)).of(expression)


def _part_growth(words: Mapping[str, Growth], expression: Expression, of: Callable[[Expression], Growth]) -> Growth:
    match expression:
        case tree.Word(name):
            return words[name]
        case tree.Constant(value):
            return Growth.ALONG if value == 0 else Growth.NEVER
        case tree.Scaled(0.0, _):
            return Growth.ALONG
    parts = [of(part) for part in children(expression)]
    match expression:
        case tree.Product():
            kinds = set(parts)
            return Growth.ALONG if kinds == {Growth.ALONG, Growth.NEVER} else _both_never(kinds)
        case tree.Gate():
            return _decided(parts[:1], by=parts[1:])
        case tree.Select():
            return _decided(parts[2:], by=parts[:2])
        case tree.Exchange():
            return _decided(parts[:2], by=parts[2:])
        case tree.Positive() | tree.Equal() | Line():
            return _both_never({_joint(parts)})
    return _joint(parts)


def _decided(values: list[Growth], *, by: list[Growth]) -> Growth:
    """One of some values, chosen by bits that have to stay the same."""
    return _joint(values) if _joint(by) is Growth.NEVER else Growth.OTHERWISE


def _both_never(kinds: set[Growth]) -> Growth:
    return Growth.NEVER if kinds == {Growth.NEVER} else Growth.OTHERWISE
