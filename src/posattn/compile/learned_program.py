"""From what a looped model has learned to a program that can be proved.

The slopes of its step, snapped to simple fractions (`posattn.nn.law`), are a local function; the schedule says who
reads whom. Together they are a program at any length, and its specification is what the model was to learn:

    scan, the smaller or larger of two     Scan("min"), Scan("max")
    scan, self + partner                   Scan("sum")
    bitonic, the smaller and the larger    Sorted()
    pairs, the smaller of two paths        the shortest of all paths, each written out
    pairs, the wider of two paths          the widest of all paths, each written out
    grid, the smallest of three            the cheapest of all ways through a table, each written out

`compile(learned_program(model, 16)).prove()` shows that this program is right for every input, and
`posattn.theory.looped_errors.error_bound(model, 16)` says how far the trained model can be from it, which `agreement`
tries out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from posattn import checks
from posattn.checks import instance, real, whole
from posattn.compile.expressions import Array, Expression, maximum, minimum, word
from posattn.compile.interpreter import run
from posattn.compile.program import Program
from posattn.compile.programs.building import program_length
from posattn.compile.programs.networks import doublings, place_bits, sort_rounds
from posattn.compile.programs.paths import cheapest_ways, shortest_paths, widest_paths
from posattn.compile.rounds import Round, reads
from posattn.compile.specification import Scan, Sorted, Specification
from posattn.errors import PosattnError, require
from posattn.nn import LoopedPositionalTransformer
from posattn.nn.law import TOLERANCE, check_looped, law

#: (up, down) of a step that takes the smaller, or the larger, of two numbers.
MIN, MAX = (0, -1), (1, 0)
own, other = word("x"), word("other")


def learned_program(model: LoopedPositionalTransformer, length: int) -> Program:
    """The program that a trained model follows up to its ε. For graphs and tables, `length` is the side n."""
    found, sizes = law(model), model.architecture
    require(
        sizes.reads == "all", f"reads='{sizes.reads}': programs are of models with reads='all', as trained on sort."
    )
    require(
        found.linear or found.compares,
        f"symmetry={sizes.symmetry!r:.60}: programs are of steps with 'shift', 'potential' or 'linear', not of other "
        "actions.",
    )
    require(
        found.epsilon <= TOLERANCE,
        f"the step is {float(found.epsilon):.2g} away from “{found}”, the nearest simple one: train the model longer.",
    )
    learned = (sizes.schedule, found.linear, found.snapped)
    if learned == ("scan", True, ((1, 1),)):
        return _scan(length, own + other, "sum")
    if learned == ("scan", False, (MIN,)):
        return _scan(length, minimum(own, other), "min")
    if learned == ("scan", False, (MAX,)):
        return _scan(length, maximum(own, other), "max")
    if learned == ("bitonic", False, (MIN, MAX)):
        length = program_length("sort", length)
        rounds = sort_rounds([range(length)], length, "x")
        return _program("learned-sort", length, rounds, Sorted(), place_bits(range(length)))
    if learned == ("pairs", False, (MIN,)) and sizes.translation == "potential":
        return shortest_paths(whole("length", length, least=1), name="learned-paths")
    if learned == ("pairs", False, (MIN, MAX)):
        return widest_paths(whole("length", length, least=1), name="learned-widest-paths")
    if learned == ("grid", False, (MIN, MIN)):
        return cheapest_ways(whole("length", length, least=1), name="learned-table")
    raise PosattnError(
        f"schedule='{sizes.schedule}', step “{found}”: no program with a specification does that. Known are scans by "
        "min, max and sum, bitonic sorting, shortest and widest paths, and the cheapest ways through tables. Train the "
        "model longer."
    )


def _scan(length: int, step: Expression, op: str) -> Program:
    """Nodes without a partner read themselves, or, where that would count, nothing, which arrives as 0."""
    length = program_length(f"cum{op}", length)
    rounds = []
    for apart in doublings(length):
        met = [i - apart if i >= apart else None if op == "sum" else i for i in range(length)]
        note = f"what ends {apart} to the left"
        rounds.append(Round(receive={"other": reads("x", met)}, update={"x": step}, note=note))
    return _program(f"learned-{op}", length, rounds, Scan(op))


def _program(
    name: str,
    length: int,
    rounds: Sequence[Round],
    specification: Specification,
    constants: dict[str, tuple[float, ...]] | None = None,
) -> Program:
    held = constants or {}
    return Program(
        name=name,
        length=length,
        nodes=length,
        registers=("x", *held),
        rounds=tuple(rounds or [Round(update={"x": own}, note="a single number")]),
        constants=held,
        specification=specification,
    )


@dataclass(frozen=True)
class Agreement:
    """The largest difference that was found between a trained model and a program, beside the one that is proved."""

    largest: float
    bound: float
    samples: int

    @property
    def holds(self) -> bool:
        return self.largest <= self.bound


@torch.no_grad()
def agreement(
    model: LoopedPositionalTransformer,
    program: Program,
    *,
    bound: float,
    samples: int = 64,
    generator: torch.Generator,
) -> Agreement:
    """Run both on random inputs: numbers in ±1, graphs with weights in [1, 2], tables with costs in [0, 1].

    Differences are shares of max|x|, of Σ|x| for sums, and for shortest paths of D_ij·(largest weight)/(smallest
    weight), as `bound` is, which is `error_bound(model, length, rounding=True).value`. The program runs in float64.
    """
    check_looped(model)
    instance("program", program, Program, fix="pass what learned_program(model, length) gives")
    wanted_program = learned_program(model, _size(model, program.length))
    require(
        program.rounds == wanted_program.rounds,
        f"program '{program.name}' is not the one that the model has learned: use learned_program(model, length).",
    )
    bound, samples = float(real("bound", bound)), whole("samples", samples, least=1)
    require(bound >= 0, f"bound={bound}: it is at least 0. Use error_bound(model, length, rounding=True).value.")
    checks.generator(generator)
    held = next(model.parameters())
    x = _inputs(model, program, samples, generator).to(held.dtype)
    given = model(x.to(held.device)).cpu().double().numpy()
    x = x.double().numpy()
    wanted = run(program, x)
    return Agreement(float((np.abs(given - wanted) / _unit(model, x, wanted)).max()), bound, samples)


def _inputs(
    model: LoopedPositionalTransformer, program: Program, samples: int, generator: torch.Generator
) -> torch.Tensor:
    shape = (samples, program.length, len(program.inputs))
    x = 2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1
    if model.architecture.schedule == "grid":
        return x.abs()
    if model.architecture.translation != "potential":
        return x
    side = _size(model, program.length)
    return (x / 2 + 1.5) * (1 - torch.eye(side, dtype=torch.float64)).reshape(-1, 1)


def _unit(model: LoopedPositionalTransformer, x: Array, wanted: Array) -> Array:
    """What differences are shares of."""
    sizes = model.architecture
    if sizes.schedule == "pairs" and sizes.translation == "potential":
        least = np.where(x > 0, x, np.inf).min((1, 2), keepdims=True)  # of each graph
        return np.where(wanted > 0, wanted, np.inf) * np.maximum(1.0, x.max((1, 2), keepdims=True) / least)
    if sizes.linear:
        return np.abs(x).sum((1, 2), keepdims=True)
    return np.abs(x).max((1, 2), keepdims=True)


def _size(model: LoopedPositionalTransformer, length: int) -> int:
    return round(length**0.5) if model.architecture.schedule in ("pairs", "grid") else length
