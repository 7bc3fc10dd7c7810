"""Best paths in graphs and tables, every path written out in the specification: what looped models learn to find.

Node i·n + j of a graph holds a number for the pair (i, j) of its n nodes, and node i·n + j of a table of n × n is the
cell (i, j). A specification that writes out all paths is as long as there are paths: about e·(n − 2)! between two nodes
of a graph, and Delannoy's numbers, 1, 3, 13, 63, …, in a table.
"""

from collections.abc import Callable, Iterator
from functools import reduce
from itertools import pairwise, permutations
from operator import add

from posattn.compile.expressions import Expression, gate, maximum, minimum, relu, word
from posattn.compile.program import Program
from posattn.compile.rounds import Round, reads
from posattn.compile.specification import Computes
from posattn.errors import require

#: Nodes of a graph, and cells along a side of a table.
MOST_NODES, MOST_CELLS = 5, 4
Two = Callable[[Expression, Expression], Expression]
own, to, by = word("x"), word("to"), word("from")


def shortest_paths(nodes: int, *, name: str) -> Program:
    """D_ij ← min(D_ij, D_ik + D_kj) for every k.

    Weights below 0 count as 0 and so does the diagonal: with a negative cycle there would be no shortest path.
    """
    _check_nodes(nodes)
    pairs = [(i, j) for i in range(nodes) for j in range(nodes)]
    first = Round(update={"x": gate(relu(own), shut=word("diagonal"))}, note="weights of at least 0")

    def weight(i: int, j: int) -> Expression:
        return relu(word(f"x[{i * nodes + j}]"))

    shortest = [
        word("x[0]") * 0 if i == j else _best_path(i, j, nodes, weight, along=add, best=minimum) for i, j in pairs
    ]
    return Program(
        name=name,
        length=nodes**2,
        nodes=nodes**2,
        registers=("x", "diagonal"),
        rounds=(first, *_relaxations(nodes, minimum(own, to + by))),
        constants={"diagonal": tuple(float(i == j) for i, j in pairs)},
        specification=Computes({"x": tuple(shortest)}),
    )


def widest_paths(nodes: int, *, name: str) -> Program:
    """W_ij ← max(W_ij, min(W_ik, W_kj)) for every k. The diagonal may hold anything: staying is one of the ways."""
    _check_nodes(nodes)
    pairs = [(i, j) for i in range(nodes) for j in range(nodes)]

    def weight(i: int, j: int) -> Expression:
        return word(f"x[{i * nodes + j}]")

    widest = [_best_path(i, j, nodes, weight, along=minimum, best=maximum) for i, j in pairs]
    return Program(
        name=name,
        length=nodes**2,
        nodes=nodes**2,
        registers=("x",),
        rounds=tuple(_relaxations(nodes, maximum(own, minimum(to, by)))),
        specification=Computes({"x": tuple(widest)}),
    )


def cheapest_ways(side: int, *, name: str) -> Program:
    """x ← min(x above + above, x to the left + left, x across + across), one diagonal after the other.

    Cells at the border have one candidate: they read it three times. The first cell is its own cost.
    """
    require(
        side <= MOST_CELLS,
        f"length={side}: a specification writes out all ways, so sides have at most {MOST_CELLS} cells here.",
    )
    inputs = ("across", "above", "left")
    cells = [(i, j) for i in range(side) for j in range(side)]
    candidates = [_candidates(i, j) for i, j in cells]
    costs = {
        f"{name} here": tuple((node, held[place][1]) for node, held in enumerate(candidates))
        for place, name in enumerate(inputs)
    }
    first = Round(
        receive=costs,
        update={name: word(f"{name} here") for name in inputs} | {"x": word("across here")},
        note="a border has one candidate",
    )
    step = reduce(minimum, [word(f"x {name}") + word(name) for name in ("above", "left", "across")])
    rounds = []
    for last in range(1, 2 * side - 1):
        near = [held if i + j <= last else [(None, "")] * 3 for (i, j), held in zip(cells, candidates, strict=True)]
        met = {f"x {name}": [_row(held[place][0], side) for held in near] for place, name in enumerate(inputs)}
        receive = {slot: reads("x", nodes) for slot, nodes in met.items()}
        rounds.append(Round(receive=receive, update={"x": step}, note=f"diagonal {last}"))
    cheapest = tuple(reduce(minimum, [reduce(add, way) for way in _ways(i, j, side)]) for i, j in cells)
    return Program(
        name=name,
        length=side**2,
        nodes=side**2,
        registers=(*inputs, "x"),
        rounds=(first, *rounds),
        inputs=inputs,
        specification=Computes({"x": cheapest}),
    )


def _check_nodes(nodes: int) -> None:
    require(
        nodes <= MOST_NODES,
        f"length={nodes}: a specification writes out all paths, so graphs have at most {MOST_NODES} nodes here.",
    )


def _relaxations(nodes: int, step: Expression) -> Iterator[Round]:
    pairs = [(i, j) for i in range(nodes) for j in range(nodes)]
    for k in range(nodes):
        receive = {
            "to": reads("x", [i * nodes + k for i, _ in pairs]),
            "from": reads("x", [k * nodes + j for _, j in pairs]),
        }
        yield Round(receive=receive, update={"x": step}, note=f"by way of node {k}")


def _best_path(
    i: int, j: int, nodes: int, weight: Callable[[int, int], Expression], *, along: Two, best: Two
) -> Expression:
    """The best of all paths that visit no node twice, but for one that comes back to its start."""
    between = [node for node in range(nodes) if node not in (i, j)]
    paths = [(i, *inner, j) for count in range(len(between) + 1) for inner in permutations(between, count)]
    return reduce(best, [reduce(along, [weight(a, b) for a, b in pairwise(path)]) for path in paths])


def _candidates(i: int, j: int) -> list[tuple[tuple[int, int] | None, str]]:
    """Whom a cell reads across, above and to the left, and which cost that has; at the border the same three times."""
    if i and j:
        return [((i - 1, j - 1), "across"), ((i - 1, j), "above"), ((i, j - 1), "left")]
    if i:
        return [((i - 1, j), "above")] * 3
    return [((i, j - 1), "left")] * 3 if j else [(None, "across")] * 3


def _row(cell: tuple[int, int] | None, side: int) -> int | None:
    return None if cell is None else cell[0] * side + cell[1]


def _ways(i: int, j: int, side: int) -> Iterator[list[Expression]]:
    """The costs along each way from the first cell to this one."""
    for before, register in dict.fromkeys(_candidates(i, j)):
        here = word(f"{register}[{i * side + j}]")
        if before is None:
            yield [here]
        else:
            for way in _ways(*before, side):
                yield [*way, here]
