"""Closures of graphs against all simple paths, Bellman–Ford and breadth-first search, in fractions where it matters."""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import chain, combinations, pairwise, permutations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from posattn import PosattnError, tasks
from posattn.tasks.pairs import GRAPHS, PairTask

Matrix = list[list[Fraction]]
ALL, WIDEST, REACHES = tasks.get("all-pairs"), tasks.get("widest-path"), tasks.get("reachability")
few = settings(deadline=None, max_examples=40)
every_task = pytest.mark.parametrize("task", [ALL, WIDEST, REACHES], ids=lambda task: task.name)
every_graph = pytest.mark.parametrize("graph", GRAPHS)
#: Of a path's edges, and of all paths.
JUDGED: dict[PairTask, tuple[Callable[..., Fraction], Callable[..., Fraction]]] = {ALL: (sum, min), WIDEST: (min, max)}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def matrix(rows: Tensor) -> Matrix:
    """(n·n, 1) as a list of lists."""
    nodes = math.isqrt(len(rows))
    return [[Fraction(value) for value in row] for row in rows.reshape(nodes, nodes).tolist()]


def paths(nodes: int, start: int, end: int) -> Iterator[tuple[int, ...]]:
    """Every path that visits no node twice."""
    others = [node for node in range(nodes) if node not in (start, end)]
    for size in range(nodes - 1):
        for inner in permutations(others, size):
            yield (start, *inner, end)


def by_brute_force(task: PairTask, weights: Matrix) -> Matrix:
    of_path, of_paths = JUDGED[task]
    nodes = range(len(weights))
    return [
        [
            weights[i][j]
            if i == j
            else of_paths(of_path(weights[a][b] for a, b in pairwise(path)) for path in paths(len(weights), i, j))
            for j in nodes
        ]
        for i in nodes
    ]


@st.composite
def weights_of(draw: st.DrawFn, task: PairTask) -> Tensor:
    """(1, n·n, 1), from subnormal to 1e30, of the widest paths negative ones too."""
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    nodes = draw(st.integers(1, 5))
    numbers = st.one_of(st.integers(0, 4).map(float), st.sampled_from([1e-40, 1e-30, 1e30]), st.floats(0, 8, width=32))
    rows = draw(st.lists(numbers, min_size=nodes**2, max_size=nodes**2))
    x = torch.tensor(rows, dtype=dtype).reshape(nodes, nodes)
    shift, diagonal = (0.0, 0.0) if task is ALL else (draw(st.sampled_from([0.0, 3.0])), 2e30)
    return (x - shift).fill_diagonal_(diagonal).reshape(1, -1, 1)


@pytest.mark.parametrize("task", JUDGED, ids=lambda task: task.name)
@few
@given(data=st.data())
def test_answer_is_the_best_of_all_simple_paths(task: PairTask, data: st.DataObject) -> None:
    x = data.draw(weights_of(task))
    y, exact = task.target(x), by_brute_force(task, matrix(x[0]))
    # Fewer than 4 additions in float64, then one rounding: relative errors, as no term is negative.
    unit = Fraction(torch.finfo(x.dtype).eps) / 2 + 4 * Fraction(1, 2**53)
    smallest = Fraction(1, 2**149 if x.dtype == torch.float32 else 2**1074)
    for found, right in zip(chain(*matrix(y[0])), chain(*exact), strict=True):
        assert abs(found - right) <= (unit * abs(right) + smallest if task is ALL else 0)


def test_lengths_are_rounded_once_and_not_at_every_edge() -> None:
    """In float32 2²⁴ + 1 is 2²⁴."""
    x = torch.full((1, 4, 4), 2.0**26)
    x[0].fill_diagonal_(0)
    x[0, 0, 1], x[0, 1, 2], x[0, 2, 3] = 2.0**24, 1.0, 1.0
    assert ALL.target(x.reshape(1, -1, 1))[0, 3].item() == 2.0**24 + 2


@few
@given(data=st.data(), nodes=st.integers(1, 9))
def test_reachability_is_breadth_first_search(data: st.DataObject, nodes: int) -> None:
    edges = data.draw(st.lists(st.booleans(), min_size=nodes**2, max_size=nodes**2))
    x = torch.tensor(edges, dtype=torch.float32).reshape(nodes, nodes).fill_diagonal_(1)
    y = REACHES.target(x.reshape(1, -1, 1)).reshape(nodes, nodes)
    for start in range(nodes):
        reached, front = {start}, [start]
        while front:
            new = set(x[front.pop()].nonzero().flatten().tolist()) - reached
            reached |= new
            front += new
        assert y[start].tolist() == [float(node in reached) for node in range(nodes)]


def bellman_ford(weights: np.ndarray) -> np.ndarray:
    distance = weights.copy()
    for _ in range(len(weights)):
        distance = (distance[:, :, None] + weights[None]).min(axis=1)
    return distance


@every_graph
@pytest.mark.parametrize("potential", [0.0, 1000.0])
def test_samples_of_all_pairs_have_the_distances_of_bellman_ford(graph: str, potential: float) -> None:
    options: dict[str, Any] = {"nodes": 17, "graph": graph, "potential": potential}
    x, y = ALL.sample(5, **options, generator=seeded(), dtype=torch.float64)
    assert torch.equal(y, ALL.target(x))
    for weights, distances in zip(x.reshape(5, 17, 17).numpy(), y.reshape(5, 17, 17).numpy(), strict=True):
        # Fewer than 40 additions of numbers up to 2,034.
        np.testing.assert_allclose(distances, bellman_ford(weights), rtol=0, atol=40 * 2034 * 2.0**-53)
        assert not distances.diagonal().any()
        assert (distances < 34 + 2 * potential).all()  # no path of absent edges alone
    assert (potential == 0) == bool((x >= 0).all())


@few
@given(seed=st.integers(0, 10**6), nodes=st.integers(1, 7))
def test_a_potential_moves_the_answer_by_the_difference_of_its_ends(seed: int, nodes: int) -> None:
    weights = torch.randint(0, 9, (1, nodes, nodes), generator=seeded(seed)).float()
    weights.diagonal(dim1=1, dim2=2).zero_()
    u = torch.randint(-999, 1000, (nodes,), generator=seeded(seed + 1)).float()
    moves = (u.unsqueeze(1) - u).reshape(1, -1, 1)
    x = weights.reshape(1, -1, 1)
    assert torch.equal(ALL.target(x + moves), ALL.target(x) + moves)


@pytest.mark.parametrize("potential", [1000.0, 1e-310])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_cycle_becomes_negative_by_rounding(dtype: torch.dtype, potential: float) -> None:
    """The weights are smaller than what potentials of ±1,000 round off."""
    high = 1e-6 if dtype == torch.float32 else 1e-14
    x, _ = ALL.sample(3, nodes=6, high=high, potential=potential, generator=seeded(), dtype=dtype)
    for graph in x:
        weights = matrix(graph)
        for size in (2, 3, 4):
            for nodes in combinations(range(6), size):
                for first, *rest in (permuted for permuted in permutations(nodes) if permuted[0] == min(nodes)):
                    cycle = [first, *rest, first]
                    assert sum(weights[a][b] for a, b in pairwise(cycle)) >= 0


@every_graph
def test_edges_of_a_graph_are_those_it_is_named_for(graph: str) -> None:
    nodes, count = 23, 200
    x, _ = ALL.sample(count, nodes=nodes, graph=graph, absent=77.0, generator=seeded())
    present = x.reshape(count, nodes, nodes) != 77
    assert present.diagonal(dim1=1, dim2=2).all()
    ring = torch.tensor([[j == (i + 1) % nodes for j in range(nodes)] for i in range(nodes)])
    assert present[:, ring].all()
    others = present[:, ~ring & ~torch.eye(nodes, dtype=torch.bool)].double().mean().item()
    expected = {"dense": 1.0, "ring": 0.0, "sparse": 4 / nodes}[graph]
    # The mean of 96,600 coins: five standard deviations are below 0.007.
    assert abs(others - expected) <= (0.007 if graph == "sparse" else 0)


def test_an_absent_edge_is_heavier_than_any_path_and_narrower_than_any_edge() -> None:
    x, y = ALL.sample(7, nodes=5, high=3.0, graph="ring", generator=seeded())
    assert x.max() == 15
    assert y.max() < 15
    x, y = WIDEST.sample(7, nodes=5, low=1.0, high=3.0, graph="ring", generator=seeded())
    pairs = x.reshape(7, 5, 5)
    assert x.min() == -1
    assert y.min() >= 1
    assert (pairs.diagonal(dim1=1, dim2=2) == 5).all()


@every_graph
@pytest.mark.parametrize("shift", [0.0, -1000.0, 1000.0])
def test_a_shift_moves_weights_and_answer_alike(graph: str, shift: float) -> None:
    options: dict[str, Any] = {"nodes": 7, "graph": graph, "dtype": torch.float64}
    x, y = WIDEST.sample(5, **options, generator=seeded())
    moved, answer = WIDEST.sample(5, **options, shift=shift, generator=seeded())
    assert torch.equal(moved, x + shift)
    assert torch.equal(answer, y + shift)
    assert torch.equal(answer, WIDEST.target(moved))


@pytest.mark.parametrize("degree", [0.0, 1.5, 99.0])
def test_reachability_has_as_many_edges_as_asked_for(degree: float) -> None:
    x, y = REACHES.sample(400, nodes=11, degree=degree, generator=seeded())
    share = (x.sum().item() / 400 - 11) / 110
    # The mean of 44,000 coins: five standard deviations are below 0.009.
    assert abs(share - min(1, degree / 11)) < (0.009 if degree == 1.5 else 1e-9)
    assert set(y.unique().tolist()) <= {0.0, 1.0}
    assert torch.equal(y, REACHES.target(x))


@every_graph
def test_reachability_has_the_edges_of_its_graph_and_not_all_pairs_are_connected(graph: str) -> None:
    nodes, count = 11, 400
    x, y = REACHES.sample(count, nodes=nodes, graph=graph, generator=seeded())
    edges = x.reshape(count, nodes, nodes) == 1
    ring = torch.tensor([[j == (i + 1) % nodes for j in range(nodes)] for i in range(nodes)])
    others = ~ring & ~torch.eye(nodes, dtype=torch.bool)
    on_ring, elsewhere = (edges[:, where].double().mean().item() for where in (ring, others))
    # The means of 4,400 and 39,600 coins: five standard deviations are below 0.04 and 0.013.
    wanted = {"dense": (0.5, 0.5), "sparse": (1.5 / 11, 1.5 / 11), "ring": (10 / 11, 0.0)}[graph]
    assert abs(on_ring - wanted[0]) < 0.04
    assert abs(elsewhere - wanted[1]) <= (0 if graph == "ring" else 0.013)
    assert 0 < y.mean().item() < 1


@every_task
@pytest.mark.parametrize("nodes", [1, 2, 5])
def test_channel_has_the_answers_of_the_first_nodes_alone(task: PairTask, nodes: int) -> None:
    x, y = task.sample(7, nodes=nodes, blocks=True, generator=seeded())
    plain, answer = task.sample(7, nodes=nodes, generator=seeded())
    assert torch.equal(x, plain)
    assert y.shape == (7, nodes**2, nodes)
    assert torch.equal(y[..., -1:], answer)
    weights, channels = x.reshape(7, nodes, nodes), y.reshape(7, nodes, nodes, nodes)
    for last in range(nodes):
        first = slice(last + 1)
        part = task.target(weights[:, first, first].reshape(7, -1, 1))
        assert torch.equal(channels[:, first, first, last].reshape(7, -1, 1), part)
        assert int(channels[..., last].isnan().sum()) == 7 * (nodes**2 - (last + 1) ** 2)


@every_task
def test_shape_is_that_of_a_sample(task: PairTask) -> None:
    x, y = task.sample(3, nodes=5, generator=seeded())
    assert task.shape(5) == (25, 1, 1)
    assert x.shape == y.shape == (3, 25, 1)


@pytest.mark.parametrize("replicas", [(), (3,), (2, 3)])
def test_entry_accuracy_is_the_share_on_the_right_side_of_one_half(replicas: tuple[int, ...]) -> None:
    target = (torch.rand(*replicas, 7, 9, 3, generator=seeded()) < 0.5).double()
    prediction = target + 0.4 * torch.randn(target.shape, generator=seeded(1), dtype=torch.float64)
    target[..., :-1] = math.nan  # the last channel alone counts
    found = REACHES.metric(prediction, target)
    right = (prediction.numpy()[..., -1] > 0.5) == (target.numpy()[..., -1] > 0.5)
    assert found.shape == replicas
    assert 0 < right.mean() < 1
    np.testing.assert_array_equal(found.numpy(), right.mean(axis=(-2, -1)))


def rows(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float32).reshape(1, -1, 1)


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize(
    ("task", "x", "said"),
    [
        (ALL, rows(0, math.inf, 1, 0), ["infinite edge", "inf at [0, 1, 0]", "Use a large finite number"]),
        (WIDEST, rows(0, -math.inf, 1, 0), ["infinite edge", "-inf at", "large finite number"]),
        (ALL, rows(0, math.nan, 1, 0), ["nan at", "Remove NaN"]),
        (ALL, torch.zeros(1, 5, 1), ["5 rows", "n·n", "4 or 9"]),
        (ALL, torch.zeros(1, 4, 2), ["shape (1, 4, 2)", "(batch, nodes, 1)"]),
        (ALL, rows(0, 1, 1, 0).long(), ["torch.int64", "x.float()"]),
        (ALL, rows(0, 1, 1, 2), ["diagonal holds 2.0", "must be 0"]),
        (ALL, rows(0, 1, -2, 0), ["a cycle of weight -1", "Raise its weights"]),
        (WIDEST, rows(3, 4, 1, 5), ["diagonal holds 3.0", "Put the largest number there"]),
        (REACHES, rows(1, 0.5, 1, 1), ["holds 0.5", "an edge is 1"]),
        (REACHES, rows(1, 1, 1, 0), ["a 0 on the diagonal"]),
    ],
)
def test_input_that_is_no_graph_is_refused(task: PairTask, x: Tensor, said: list[str]) -> None:
    with pytest.raises(PosattnError) as refused:
        task.target(x)
    for words in [f"'{task.name}'", *said]:
        assert words in str(refused.value)


@pytest.mark.parametrize(
    ("task", "asked", "said"),
    [
        (ALL, {"nodes": 0}, ["nodes=0", "at least one node"]),
        (ALL, {"low": -1.0}, ["low=-1.0", "no shortest path", "potential"]),
        (ALL, {"absent": 1.0}, ["absent=1.0, high=2.0"]),
        (ALL, {"absent": math.inf}, ["absent=inf", "finite"]),
        (ALL, {"potential": -1.0}, ["potential=-1.0", "Use 0 or more"]),
        (ALL, {"high": 1e38}, ["absent=", "overflows in torch.float32"]),
        (ALL, {"graph": "sparce"}, ["'sparce'", "did you mean 'sparse'?"]),
        (WIDEST, {"absent": 1.0}, ["absent=1.0, low=0.0"]),
        (WIDEST, {"shift": 1e39}, ["shift=1e+39", "overflows in torch.float32"]),
        (REACHES, {"degree": -1.0}, ["degree=-1.0", "Use 0 or more"]),
        (REACHES, {"graph": "rign"}, ["'rign'", "did you mean 'ring'?"]),
    ],
)
def test_sample_that_cannot_be_drawn_is_refused(task: PairTask, asked: dict[str, Any], said: list[str]) -> None:
    with pytest.raises(PosattnError) as refused:
        task.sample(3, **asked, generator=seeded())
    for words in said:
        assert words in str(refused.value)
