"""Sparse token selection against Python loops."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from posattn import tasks
from posattn.errors import PosattnError

ONE, EVERY = tasks.get("selection"), tasks.get("sparse-averaging")
both = pytest.mark.parametrize("task", [ONE, EVERY], ids=["selection", "sparse-averaging"])
SMALLEST = {torch.float32: Fraction(1, 2**149), torch.float64: Fraction(1, 2**1074)}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def assert_average(found: list[float], tokens: list[list[float]], subset: list[int], dtype: torch.dtype) -> None:
    """q − 1 additions and one division in float64, then one rounding to the dtype."""
    q, unit = len(subset), Fraction(torch.finfo(dtype).eps) / 2
    for coordinate, value in enumerate(found):
        chosen = [Fraction(tokens[place][coordinate]) for place in subset]
        exact = sum(chosen, Fraction(0)) / q
        error = (q + 1) * Fraction(1, 2**53) * sum(map(abs, chosen), Fraction(0)) + SMALLEST[torch.float64]
        assert abs(Fraction(value) - exact) <= error + unit * (abs(exact) + error) + SMALLEST[dtype]


@st.composite
def questions(draw: st.DrawFn, *, every_token: bool) -> tasks.SelectionInputs:
    """Ties, and tokens from subnormal to 1e30 in one average."""
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    tokens, dim = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    q = draw(st.integers(1, tokens))
    tiny = float(SMALLEST[dtype])
    common = st.sampled_from([0.0, 1.0, -1.0, 1e30, -1e30, 1e-30, tiny, -3 * tiny])
    element = common | st.floats(-(2.0**100), 2.0**100, width=32 if dtype == torch.float32 else 64)
    x = draw(st.lists(element, min_size=tokens * dim, max_size=tokens * dim))
    subsets = [draw(st.permutations(range(tokens)))[:q] for _ in range(tokens if every_token else 1)]
    subset = torch.tensor([subsets] if every_token else subsets)
    return tasks.SelectionInputs(torch.tensor(x, dtype=dtype).reshape(1, tokens, dim), subset)


@settings(deadline=None, max_examples=60)
@given(inputs=questions(every_token=False))
def test_selection_is_the_exact_average_of_the_subset(inputs: tasks.SelectionInputs) -> None:
    x, subset, _ = inputs
    assert_average(ONE.target(inputs)[0].tolist(), x[0].tolist(), subset[0].tolist(), x.dtype)


@settings(deadline=None, max_examples=60)
@given(inputs=questions(every_token=True))
def test_sparse_averaging_gives_every_token_the_average_of_its_own_subset(inputs: tasks.SelectionInputs) -> None:
    x, subset, _ = inputs
    for found, own in zip(EVERY.target(inputs)[0], subset[0], strict=True):
        assert_average(found.tolist(), x[0].tolist(), own.tolist(), x.dtype)


@both
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sample_has_the_shape_dtype_and_target_it_says(task: tasks.SelectionTask, dtype: torch.dtype) -> None:
    (x, subset, _), y = task.sample(7, length=11, subset_size=3, dim=5, generator=seeded(), dtype=dtype)
    lead = (7, 11) if task.every_token else (7,)
    assert x.shape == (7, 11, 5)
    assert subset.shape == (*lead, 3)
    assert y.shape == (*lead, 5)
    assert x.dtype == y.dtype == dtype
    assert torch.equal(y, task.target(tasks.SelectionInputs(x, subset)))
    assert bool((subset[..., 1:] > subset[..., :-1]).all())  # q different places
    rows, averages = subset.reshape(7, -1, 3), y.reshape(7, -1, 5)
    for tokens, row, found in zip(x.tolist(), rows.tolist(), averages.tolist(), strict=True):
        for own, average in zip(row, found, strict=True):
            assert_average(average, tokens, own, dtype)


def test_paper_sizes_are_the_default() -> None:
    (x, subset, _), _ = ONE.sample(2, generator=seeded())
    assert x.shape == (2, 200, 5)
    assert subset.shape == (2, 3)


@both
@pytest.mark.parametrize(("tokens", "q"), [(5, 2), (5, 3), (7, 1)])
def test_every_subset_is_equally_likely(task: tasks.SelectionTask, tokens: int, q: int) -> None:
    # χ² with k degrees of freedom exceeds k + 2√(9k) + 18 with probability below e⁻⁹ (Laurent and Massart).
    (_, subset, _), _ = task.sample(4001, length=tokens, subset_size=q, dim=1, generator=seeded())
    counts = Counter(map(tuple, subset.reshape(-1, q).tolist()))
    cells = math.comb(tokens, q)
    expected = counts.total() / cells
    assert len(counts) == cells
    statistic = sum((count - expected) ** 2 / expected for count in counts.values())
    assert statistic < cells - 1 + 2 * math.sqrt(9 * (cells - 1)) + 18


@both
def test_tokens_have_different_subsets_only_where_each_has_its_own(task: tasks.SelectionTask) -> None:
    (_, subset, _), _ = task.sample(3, length=101, subset_size=3, dim=1, generator=seeded())
    assert len({tuple(row) for row in subset.reshape(-1, 3).tolist()}) > (200 if task.every_token else 2)


def test_tokens_are_standard_normal() -> None:
    (x, _, _), _ = ONE.sample(499, length=101, dim=2, generator=seeded(), dtype=torch.float64)
    a, b = x.reshape(-1, 2).T
    count = len(a)
    # Means of n draws of z, z², z⁴ and ab deviate by √(1, 2, 96, 1)/√n; four deviations are allowed.
    for value, expected, variance in [(a, 0, 1), (b, 0, 1), (a**2, 1, 2), (b**2, 1, 2), (a**4, 3, 96), (a * b, 0, 1)]:
        assert abs(value.mean().item() - expected) < 4 * math.sqrt(variance / count)


@pytest.mark.parametrize("replicas", [(), (3,), (2, 3)])
@pytest.mark.parametrize(("name", "lead"), [("selection", (7,)), ("sparse-averaging", (7, 11))])
@pytest.mark.parametrize("kappa", [0.5, 1.0])
def test_metric_is_squared_error_and_loss_kappa_times_it(
    name: str, lead: tuple[int, ...], replicas: tuple[int, ...], kappa: float
) -> None:
    task = tasks.get(name, kappa=kappa)
    prediction = torch.randn(*replicas, *lead, 5, generator=seeded(), dtype=torch.float64)
    target = torch.randn(*replicas, *lead, 5, generator=seeded(1), dtype=torch.float64)
    squares = ((prediction.numpy() - target.numpy()) ** 2).sum(axis=-1)
    expected = squares.reshape(*replicas, -1).mean(axis=-1)
    metric, loss = task.metric(prediction, target), task.loss(prediction, target)
    assert metric.shape == loss.shape == replicas
    # Sums of at most 7 · 11 · 5 positive terms, on either side.
    np.testing.assert_allclose(metric.numpy(), expected, rtol=800 * 2.0**-53)
    np.testing.assert_array_equal(loss.numpy(), kappa * metric.numpy())


def test_loss_of_answering_zero_is_kappa_d_over_q() -> None:
    # The closed form L(0) = κd/q of the paper; ‖y‖² is χ²_d / q with variance 2d/q².
    count, d, q = 20_011, 5, 3
    _, y = ONE.sample(count, length=7, subset_size=q, dim=d, generator=seeded())
    deviation = 0.5 * math.sqrt(2 * d / q**2 / count)
    assert abs(ONE.loss(torch.zeros_like(y), y).item() - 0.5 * d / q) < 4 * deviation


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"length": 5, "subset_size": 6}, ["subset_size=6, length=5", "at most all of them"]),
        ({"subset_size": 0}, ["subset_size=0", "at least one token"]),
        ({"length": 0}, ["length=0", "at most all of them"]),
        ({"dim": 0}, ["dim=0", "at least one coordinate"]),
        ({"dtype": torch.int32}, ["dtype=torch.int32", "Use torch.float32"]),
    ],
)
@both
def test_sample_that_cannot_be_drawn_is_refused(task: tasks.SelectionTask, asked: dict, said: list[str]) -> None:
    with pytest.raises(PosattnError) as refused:
        task.sample(3, **asked, generator=seeded())
    for words in said:
        assert words in str(refused.value)


X = torch.zeros(2, 5, 3)


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize(
    ("task", "x", "subset", "said"),
    [
        (ONE, X[0], [[0, 1]], ["x (5, 3)", "must be (batch, tokens, dim)"]),
        (ONE, X, [[0, 1]], ["x (2, 5, 3)", "subset (1, 2)", "(batch, q)"]),
        (ONE, X, [[[0, 1]] * 5] * 2, ["subset (2, 5, 2)", "(batch, q)"]),
        (ONE, X, [[], []], ["subset (2, 0)", "q ≥ 1"]),
        (ONE, X, [[0, 5], [0, 1]], ["'selection'", "outside 0 … 4"]),
        (ONE, X, [[0, -1], [0, 1]], ["outside 0 … 4"]),
        (ONE, X * math.nan, [[0, 1], [0, 1]], ["nan at", "Remove NaN"]),
        (ONE, X - math.inf, [[0, 1], [0, 1]], ["inf at", "Remove NaN and infinite"]),
        (ONE, X.long(), [[0, 1], [0, 1]], ["torch.int64", "x.float()"]),
        (EVERY, X, [[0, 1], [0, 1]], ["subset (2, 2)", "(batch, tokens, q)"]),
        (EVERY, X, [[[0, 1]] * 4] * 2, ["subset (2, 4, 2)", "(batch, tokens, q)"]),
    ],
)
def test_question_without_an_answer_is_refused(
    task: tasks.SelectionTask, x: Tensor, subset: list, said: list[str]
) -> None:
    with pytest.raises(PosattnError) as refused:
        task.target(tasks.SelectionInputs(x, torch.tensor(subset, dtype=torch.int64)))
    for words in said:
        assert words in str(refused.value)
