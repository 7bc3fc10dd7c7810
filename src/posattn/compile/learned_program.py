"""From what a looped model has learned to a program that can be proved.

The slopes of its step, snapped to simple fractions (`posattn.nn.law`), are a local function; the schedule says who
reads whom. Together they are a program at any length, and its specification is what the model was to learn:

    scan, the smaller or larger of two     Scan("min"), Scan("max")
    scan, self + partner                   Scan("sum")
    bitonic, the smaller and the larger    Sorted()
    pairs, the smaller of two paths        the shortest of all paths, each written out

`compile(learned_program(model, 16)).prove()` shows that this program is right for every input, and
`posattn.theory.looped_errors.error_bound(model, 16)` says how far the trained model can be from it, which `agreement`
tries out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise, permutations
from operator import add

import numpy as np
import torch

from posattn import checks
from posattn.checks import instance, real, whole
from posattn.compile.expressions import Expression, gate, maximum, minimum, relu, word
from posattn.compile.interpreter import run
from posattn.compile.program import Program
from posattn.compile.programs.building import program_length
from posattn.compile.programs.networks import doublings, place_bits, sort_rounds
from posattn.compile.rounds import Round, reads
from posattn.compile.specification import Computes, Scan, Sorted, Specification
from posattn.errors import PosattnError, require
from posattn.nn import LoopedPositionalTransformer
from posattn.nn.law import check_looped, law

#: (up, down) of a step that takes the smaller, or the larger, of two numbers.
MIN, MAX = (0, -1), (1, 0)
#: Between two of n nodes there are about e·(n − 2)! paths, and a specification writes out each.
MOST_NODES = 5
own, other = word("x"), word("other")


def learned_program(model: LoopedPositionalTransformer, length: int) -> Program:
    """The program that a trained model follows up to its ε. For graphs, `length` counts the nodes."""
    found, sizes = law(model), model.architecture
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
        return _paths(whole("length", length, least=1))
    raise PosattnError(
        f"schedule='{sizes.schedule}', step “{found}”: no program with a specification does that. Known are scans by "
        "min, max and sum, bitonic sorting, and pairs with symmetry=('scale', 'potential'). Train the model longer."
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


def _paths(nodes: int) -> Program:
    """Node i·n + j holds the length of the shortest path from i to j that is known, D_ij.

    Weights below 0 count as 0 and so does the diagonal: with a negative cycle there would be no shortest path.
    """
    require(
        nodes <= MOST_NODES,
        f"length={nodes}: a specification writes out all paths, so graphs have at most {MOST_NODES} nodes here.",
    )
    pairs = [(i, j) for i in range(nodes) for j in range(nodes)]
    first = Round(update={"x": gate(relu(own), shut=word("diagonal"))}, note="weights of at least 0")
    rounds = [
        Round(
            receive={
                "to": reads("x", [i * nodes + k for i, _ in pairs]),
                "from": reads("x", [k * nodes + j for _, j in pairs]),
            },
            update={"x": minimum(own, word("to") + word("from"))},
            note=f"by way of node {k}",
        )
        for k in range(nodes)
    ]
    shortest = Computes({"x": tuple(_shortest(i, j, nodes) for i, j in pairs)})
    diagonal = {"diagonal": tuple(float(i == j) for i, j in pairs)}
    return _program("learned-paths", nodes * nodes, [first, *rounds], shortest, diagonal)


def _shortest(i: int, j: int, nodes: int) -> Expression:
    """The smallest of all sums of weights along paths that visit no node twice."""
    if i == j:
        return word("x[0]") * 0
    between = [node for node in range(nodes) if node not in (i, j)]
    paths = [(i, *inner, j) for count in range(len(between) + 1) for inner in permutations(between, count)]
    return reduce(minimum, [reduce(add, [relu(word(f"x[{a * nodes + b}]")) for a, b in pairwise(p)]) for p in paths])


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
    """Run both on random inputs: numbers in ±1, or graphs with weights in [1, 2].

    Differences are shares of max|x|, of Σ|x| for sums, and for paths of D_ij·(largest weight)/(smallest weight), as
    `bound` is, which is `error_bound(model, length, rounding=True).value`. The program runs in float64.
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
    x = 2 * torch.rand(samples, program.length, 1, generator=generator, dtype=torch.float64) - 1
    if model.architecture.schedule == "pairs":
        side = _size(model, program.length)
        x = (x / 2 + 1.5) * (1 - torch.eye(side, dtype=torch.float64)).reshape(-1, 1)
    x = x.to(held.dtype)
    given = model(x.to(held.device)).cpu().double().numpy()
    x = x.double().numpy()
    wanted = run(program, x)
    off, unit = np.abs(given - wanted), np.abs(x).max((1, 2), keepdims=True)
    if model.architecture.schedule == "pairs":
        weights = x[x > 0]
        unit = np.where(wanted > 0, wanted, np.inf) * (weights.max() / weights.min() if weights.size else 1.0)
    elif model.architecture.linear:
        unit = np.abs(x).sum((1, 2), keepdims=True)
    return Agreement(float((off / unit).max()), bound, samples)


def _size(model: LoopedPositionalTransformer, length: int) -> int:
    return round(length**0.5) if model.architecture.schedule == "pairs" else length
