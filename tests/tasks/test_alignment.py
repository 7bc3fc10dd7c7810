"""Alignments against all ways through the table, and against the textbook's tables with borders of their own."""

import math
from collections.abc import Iterator
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from posattn import PosattnError, tasks
from posattn.tasks import AlignmentTask

EDIT, WARP = tasks.get("edit-distance"), tasks.get("warping")
both = pytest.mark.parametrize("task", [EDIT, WARP], ids=lambda task: task.name)
Cell = tuple[int, int]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def ways(end: Cell) -> Iterator[list[tuple[int, Cell]]]:
    """Every way from (0, 0) to a cell: the cells entered, each with which of its costs is paid."""
    i, j = end
    if end == (0, 0):
        yield [(0, end)]
    for paid, before in ((0, (i - 1, j - 1)), (1, (i - 1, j)), (2, (i, j - 1))):
        if min(before) >= 0:
            for way in ways(before):
                yield [*way, (paid, end)]


@both
@settings(deadline=None, max_examples=30)
@given(data=st.data(), length=st.integers(1, 4))
def test_answer_is_the_cheapest_of_all_ways(task: AlignmentTask, data: st.DataObject, length: int) -> None:
    numbers = st.one_of(st.integers(-3, 9).map(float), st.floats(-4, 4, width=32), st.sampled_from([1e-30, 1e30]))
    drawn = data.draw(st.lists(numbers, min_size=3 * length**2, max_size=3 * length**2))
    x = torch.tensor(drawn).reshape(1, length**2, 3)
    y = task.target(x).reshape(length, length)
    costs = [[Fraction(value) for value in cell] for cell in x[0].tolist()]
    total = sum((abs(value) for cell in costs for value in cell), Fraction(0))
    for i in range(length):
        for j in range(length):
            exact = min(sum(costs[a * length + b][paid] for paid, (a, b) in way) for way in ways((i, j)))
            # At most 6 additions in float64, then one rounding to float32.
            error = 6 * Fraction(1, 2**53) * total
            error += Fraction(1, 2**24) * (abs(exact) + error) + Fraction(1, 2**149)
            assert abs(Fraction(y[i, j].item()) - exact) <= error


def textbook_edit(match: Tensor, out: Tensor, put_in: Tensor) -> list[list[float]]:
    """Wagner and Fischer, in whole numbers: words without and with each symbol."""
    table = [[math.inf] * (len(put_in) + 1) for _ in range(len(out) + 1)]
    table[0][0] = 0
    for i in range(len(out) + 1):
        for j in range(len(put_in) + 1):
            if i:
                table[i][j] = min(table[i][j], table[i - 1][j] + out[i - 1].item())
            if j:
                table[i][j] = min(table[i][j], table[i][j - 1] + put_in[j - 1].item())
            if i and j:
                table[i][j] = min(table[i][j], table[i - 1][j - 1] + match[i - 1, j - 1].item())
    return table


@pytest.mark.parametrize("length", [1, 2, 7])
def test_sampled_edit_distance_is_the_textbooks_of_words_one_shorter(length: int) -> None:
    x, y = EDIT.sample(5, length=length, generator=seeded(), dtype=torch.float64)
    assert torch.equal(y, EDIT.target(x))
    for costs, answer in zip(x.reshape(5, length, length, 3), y.reshape(5, length, length), strict=True):
        cost, up, left = costs.unbind(-1)
        assert cost[0, 0] == 0
        assert (up == up[:, :1]).all()  # a symbol of the first word costs the same wherever it is left out
        assert (left == left[:1]).all()
        expected = torch.tensor(textbook_edit(cost[1:, 1:], up[1:, 0], left[0, 1:]), dtype=torch.float64)
        torch.testing.assert_close(answer, expected, rtol=1e-14, atol=0)


def test_edit_distance_of_intention_and_execution_is_5() -> None:
    """The example of Jurafsky and Martin, with every operation at a cost of 1."""
    one, other = "intention", "execution"
    x = torch.ones(1, 10, 10, 3)
    x[0, 1:, 1:, 0] = torch.tensor([[float(a != b) for b in other] for a in one])
    x[0, 0, 0, 0] = 0
    assert EDIT.target(x.flatten(1, 2))[0, -1].item() == 5


@pytest.mark.parametrize("length", [1, 2, 7])
def test_sampled_warping_adds_every_cells_cost_to_the_least_neighbour(length: int) -> None:
    x, y = WARP.sample(5, length=length, generator=seeded(), dtype=torch.float64)
    assert torch.equal(x, x[..., :1].expand_as(x))
    cost, answer = x[..., 0].reshape(5, length, length), y.reshape(5, length, length)
    for i in range(length):
        for j in range(length):
            before = [answer[:, a, b] for a, b in ((i - 1, j - 1), (i - 1, j), (i, j - 1)) if a >= 0 and b >= 0]
            least = torch.stack(before).amin(0) if before else torch.zeros(5, dtype=torch.float64)
            assert torch.equal(answer[:, i, j], cost[:, i, j] + least)


@both
def test_sample_has_the_shape_and_range_it_says_and_blocks_change_nothing(task: AlignmentTask) -> None:
    x, y = task.sample(11, length=5, low=1.0, high=3.0, generator=seeded())
    assert task.shape(5) == (25, 3, 1)
    assert x.shape == (11, 25, 3)
    assert y.shape == (11, 25, 1)
    assert x[:, 1:].min() >= 1
    assert x.max() <= 3
    again = task.sample(11, length=5, low=1.0, high=3.0, blocks=True, generator=seeded())
    assert torch.equal(again[0], x)
    assert torch.equal(again[1], y)


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize(
    ("x", "said"),
    [
        (torch.zeros(1, 5, 3), ["5 rows", "4 or 9"]),
        (torch.zeros(1, 4, 1), ["shape (1, 4, 1)", "(batch, nodes, 3)"]),
        (torch.full((1, 4, 3), math.inf), ["inf at", "Remove NaN and infinite"]),
        (torch.zeros(1, 4, 3).long(), ["torch.int64", "x.float()"]),
    ],
)
@both
def test_input_that_is_no_table_is_refused(task: AlignmentTask, x: Tensor, said: list[str]) -> None:
    with pytest.raises(PosattnError) as refused:
        task.target(x)
    for words in [f"'{task.name}'", *said]:
        assert words in str(refused.value)


@both
def test_table_without_cells_is_refused(task: AlignmentTask) -> None:
    with pytest.raises(PosattnError, match=r"length=0: a table has at least one cell\."):
        task.sample(3, length=0, generator=seeded())
