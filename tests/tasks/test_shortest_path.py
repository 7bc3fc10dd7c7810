"""Shortest paths against Floyd–Warshall and against a walk along the path, both in fractions."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from posattn import tasks
from posattn.errors import PosattnError

TASK = tasks.get("shortest-path")
SMALLEST = {torch.float32: Fraction(1, 2**149), torch.float64: Fraction(1, 2**1074)}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def path_matrix(order: list[int], weights: list[float], dtype: torch.dtype = torch.float32) -> Tensor:
    """(1, nodes, nodes): the path that visits the nodes in this order."""
    x = torch.zeros(1, len(order), len(order), dtype=dtype)
    for weight, (a, b) in zip(weights, itertools.pairwise(order), strict=True):
        x[0, a, b] = x[0, b, a] = weight
    return x


def floyd_warshall(x: Tensor) -> list[list[Fraction]]:
    weights = [[Fraction(value) for value in row] for row in x.tolist()]
    nodes = range(len(weights))
    far = sum((value for row in weights for value in row), Fraction(1))  # longer than any path
    distance = [[Fraction(0) if i == j else weights[i][j] or far for j in nodes] for i in nodes]
    for via, i, j in itertools.product(nodes, repeat=3):
        distance[i][j] = min(distance[i][j], distance[i][via] + distance[via][j])
    return distance


def walked(x: Tensor) -> list[list[Fraction]]:
    """From every node along its edges, never back: right for negative weights too, where Floyd–Warshall is not."""
    rows = [[Fraction(value) for value in row] for row in x.tolist()]
    distance = [[Fraction(0)] * len(rows) for _ in rows]
    for start in range(len(rows)):
        stack = [(start, start)]
        while stack:
            node, came_from = stack.pop()
            for neighbour, weight in enumerate(rows[node]):
                if weight and neighbour != came_from:
                    distance[start][neighbour] = distance[start][node] + weight
                    stack.append((neighbour, node))
    return distance


def assert_distances(y: Tensor, x: Tensor, exact: list[list[Fraction]]) -> None:
    """At most nodes − 2 additions in float64, then one rounding to the dtype."""
    total = sum((abs(Fraction(value)) for value in x.flatten().tolist()), Fraction(0)) / 2
    error = len(exact) * Fraction(1, 2**53) * total
    unit = Fraction(torch.finfo(x.dtype).eps) / 2
    for found, row in zip(y.tolist(), exact, strict=True):
        for value, right in zip(found, row, strict=True):
            rounding = unit * (abs(right) + error) + SMALLEST[x.dtype]
            assert abs(Fraction(value) - right) <= error + rounding


@st.composite
def paths(draw: st.DrawFn, *, low: float) -> Tensor:
    """A path of 1 … 7 nodes: equal weights, and from subnormal to 1e30 on one path; no weight is 0."""
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    tiny = float(SMALLEST[dtype])
    order = draw(st.permutations(range(draw(st.integers(1, 7)))))
    magnitude = st.one_of(
        st.sampled_from([1.0, 2.0, 1e30, 1e-30, tiny, 3 * tiny]),
        st.floats(tiny, 2.0**100, width=32 if dtype == torch.float32 else 64),
    )
    signs = st.sampled_from([1.0, -1.0] if low < 0 else [1.0])
    size = len(order) - 1
    weights = draw(st.lists(st.tuples(signs, magnitude), min_size=size, max_size=size))
    return path_matrix(list(order), [sign * size for sign, size in weights], dtype)


@settings(deadline=None, max_examples=60)
@given(x=paths(low=0))
def test_target_equals_floyd_warshall(x: Tensor) -> None:
    assert_distances(TASK.target(x)[0], x[0], floyd_warshall(x[0]))


@settings(deadline=None, max_examples=60)
@given(x=paths(low=-1))
def test_target_with_negative_weights_equals_walking_the_path(x: Tensor) -> None:
    assert_distances(TASK.target(x)[0], x[0], walked(x[0]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("low", "high", "length"), [(0.0, 2.0, 2), (-6.0, 6.0, 5), (-1e30, 1e30, 7), (0.0, 1e-30, 7)])
def test_sample_is_a_path_with_its_distances(low: float, high: float, length: int, dtype: torch.dtype) -> None:
    x, y = TASK.sample(23, length=length, low=low, high=high, generator=seeded(), dtype=dtype)
    assert TASK.shape(length) == (length, length, length)
    assert x.shape == y.shape == (23, length, length)
    assert x.dtype == y.dtype == dtype
    assert x.min() >= min(low, 0.0)
    assert x.max() <= high
    for matrix, distances in zip(x, y, strict=True):
        degrees = sorted((matrix != 0).sum(1).tolist())
        assert degrees == [1, 1] + [2] * (length - 2)
        assert_distances(distances, matrix, walked(matrix))
    assert torch.equal(y, y.mT)


def test_path_visits_the_nodes_in_uniform_order() -> None:
    # 4 nodes: 12 paths, read off the edges. χ² with 11 degrees of freedom passes 11 + 2√(9·11) + 18 once in 10⁴.
    count = 24_000
    x, _ = TASK.sample(count, length=4, generator=seeded())
    row, column = torch.triu_indices(4, 4, 1)
    code = ((x != 0)[:, row, column].long() << torch.arange(6)).sum(1)
    found = code.unique(return_counts=True)[1]
    assert len(found) == 12
    statistic = ((found - count / 12) ** 2 / (count / 12)).sum().item()
    assert statistic < 11 + 2 * math.sqrt(9 * 11) + 18


def test_integer_weights_are_whole_and_never_zero() -> None:
    x, y = TASK.sample(101, length=5, low=1.0, high=4.0, integers=True, generator=seeded())
    assert set(x.flatten().tolist()) == {0.0, 1.0, 2.0, 3.0}
    assert torch.equal(y, TASK.target(x))


@pytest.mark.parametrize("replicas", [(), (3,), (2, 3)])
def test_loss_and_accuracy_see_the_upper_triangle_of_each_replica(replicas: tuple[int, ...]) -> None:
    target = torch.randn(*replicas, 13, 3, 3, generator=seeded(), dtype=torch.float64)
    prediction = target + 0.15 * torch.randn(*replicas, 13, 3, 3, generator=seeded(1), dtype=torch.float64)
    row, column = np.triu_indices(3, 1)
    ours, right = prediction.numpy()[..., row, column], target.numpy()[..., row, column]
    loss, accuracy = TASK.loss(prediction, target), TASK.metric(prediction, target)
    assert loss.shape == accuracy.shape == replicas
    # 39 terms a mean: 39 roundings and a few of their own, on either side.
    np.testing.assert_allclose(loss.numpy(), ((ours - right) ** 2).mean(axis=(-2, -1)), rtol=100 * 2.0**-53)
    close = np.isclose(ours, right, rtol=0.1, atol=0.1).all(axis=-1)
    np.testing.assert_array_equal(accuracy.numpy(), close.mean(axis=-1))
    assert 0 < close.mean() < 1


def edges(nodes: int, *pairs: tuple[int, int]) -> Tensor:
    x = torch.zeros(1, nodes, nodes)
    for a, b in pairs:
        x[0, a, b] = x[0, b, a] = 1.0
    return x


PATH = edges(4, (0, 1), (1, 2), (2, 3))
NO_PATH = {
    "a star": edges(4, (0, 1), (0, 2), (0, 3)),
    "a circle": edges(4, (0, 1), (1, 2), (2, 3), (3, 0)),
    "a circle and a path": edges(5, (0, 1), (1, 2), (2, 0), (3, 4)),
    "a gap": edges(4, (0, 1), (2, 3)),
    "an edge of weight 0": path_matrix([0, 1, 2, 3], [1.0, 0.0, 1.0]),
    "one way only": PATH.triu(),
    "two weights of one edge": PATH + PATH.triu(),
    "a loop": PATH + torch.eye(4),
    "not square": torch.zeros(1, 4, 5),
}


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize("x", NO_PATH.values(), ids=NO_PATH.keys())
def test_matrix_of_no_path_is_refused(x: Tensor) -> None:
    nodes = x.shape[1]
    good = path_matrix(list(range(nodes)), [1.0] * (nodes - 1))
    if x.shape == good.shape:  # one bad matrix among good ones is enough
        x = torch.cat([good, x])
    with pytest.raises(PosattnError, match=r"'shortest-path': .*(weight matrix of a path with . nodes|on one path)"):
        TASK.target(x)


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize(
    ("x", "said"),
    [
        (torch.tensor(1.0), ["shape ()", "(batch, nodes, width)"]),
        (PATH[0], ["shape (4, 4)", "(batch, nodes, width)"]),
        (PATH.long(), ["torch.int64", "use x.float()"]),
        (PATH * math.nan, ["nan at", "Remove NaN"]),
        (PATH / PATH, ["nan at", "Remove NaN"]),
    ],
)
def test_input_that_holds_no_numbers_is_refused(x: Tensor, said: list[str]) -> None:
    with pytest.raises(PosattnError) as refused:
        TASK.target(x)
    for words in ["'shortest-path'", *said]:
        assert words in str(refused.value)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"length": 1}, ["length=1", "at least two nodes"]),
        ({"low": 2.0, "high": 2.0}, ["low=2.0, high=2.0", "low < high"]),
        ({"integers": True}, ["low=0.0, high=2.0", "weight 0 cannot be told from no edge", "low=1"]),
        ({"integers": True, "low": -3.0}, ["low=-3.0", "include 0"]),
    ],
)
def test_sample_that_cannot_be_drawn_is_refused(asked: dict, said: list[str]) -> None:
    with pytest.raises(PosattnError) as refused:
        TASK.sample(3, **asked, generator=seeded())
    for words in said:
        assert words in str(refused.value)
