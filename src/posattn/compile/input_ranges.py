"""The range and the grid of every input: one number for all of them, or one for each by name.

A permutation has neither: it holds the numbers 0 … length − 1.
"""

from collections.abc import Mapping
from typing import Any

from posattn.checks import real
from posattn.compile.program import Program
from posattn.errors import PosattnError, require, unknown

#: Inputs lie in ± this.
Domain = float | Mapping[str, float]


def checked_domain(program: Program, domain: Any) -> Domain:
    """What was passed as `domain`: a number, or one for each input that is not a permutation."""
    if not isinstance(domain, Mapping):
        return float(real("domain", domain))
    free = [name for name in program.inputs if name not in program.permutations]
    for name in domain:
        if name in program.permutations:
            raise PosattnError(f"domain: '{name}' holds a permutation, which has a range of its own. Leave it out.")
        if name not in free:
            raise unknown("input in domain", name, free)
    missing = [name for name in free if name not in domain]
    require(not missing, f"domain says nothing of input {', '.join(missing)}: give each input its bound.")
    return {name: float(real(f"domain['{name}']", domain[name])) for name in free}


def bound_of(program: Program, domain: Domain, name: str) -> float:
    """The bound of an input that is not a permutation."""
    assert name not in program.permutations, f"'{name}' holds a permutation"
    return domain[name] if isinstance(domain, Mapping) else domain


def largest_bound(domain: Domain) -> float:
    """What errors are relative to where they are relative to the domain."""
    return max(domain.values(), default=1.0) if isinstance(domain, Mapping) else domain


def named_bounds(domain: Domain) -> dict[str, float]:
    """Every bound, by what a caller would call it."""
    if isinstance(domain, Mapping):
        return {f"domain['{name}']": bound for name, bound in domain.items()}
    return {"domain": domain}


def shown_domain(domain: Domain) -> str:
    """±1000, or ±1000 for x and ±1 for flag."""
    if isinstance(domain, Mapping):
        return " and ".join(f"±{bound:g} for {name}" for name, bound in domain.items())
    return f"±{domain:g}"


def grid_of(program: Program, name: str) -> float | None:
    """The grid of an input: 1 for a permutation, None where any number is allowed."""
    if name in program.permutations:
        return 1.0
    return program.grid.get(name) if isinstance(program.grid, Mapping) else program.grid


def shown_grid(grid: float | Mapping[str, float] | None) -> str:
    """On a grid of 1, or on grids of 1 for x and 0.5 for y; nothing where there is none."""
    if isinstance(grid, Mapping):
        return " on grids of " + " and ".join(f"{step:g} for {name}" for name, step in grid.items())
    return f" on a grid of {grid:g}" if grid else ""
