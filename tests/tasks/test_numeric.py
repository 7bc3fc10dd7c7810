"""The numeric tasks against exact arithmetic.

The oracles compute with fractions, so they have no rounding error of their own. The tasks add in float64, unit
roundoff u = 2⁻⁵³, and round once to the input's dtype. Adding m + 1 numbers in any order is off by at most
m·u/(1 − m·u) times the sum of their magnitudes (Higham 2002, section 4.2); picking a number is exact.
"""

import itertools
import math
import statistics
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from posattn import tasks
from posattn.errors import PosattnError

ROUNDOFF = Fraction(1, 2**53)
SMALLEST = {torch.float32: Fraction(1, 2**149), torch.float64: Fraction(1, 2**1074)}

many = settings(deadline=None, max_examples=60)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@st.composite
def number_lists(draw: st.DrawFn, *, numbers_at_a_time: int = 1) -> Tensor:
    """(1, nodes, 1): ties, zeros of both signs, and from subnormal to 1e30 in one list."""
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    tiny = float(SMALLEST[dtype])
    common = st.sampled_from([0.0, -0.0, 1.0, -1.0, 3.0, 1e30, -1e30, 1e-30, -1e-30, tiny, -tiny, 3 * tiny])
    anything = st.floats(-(2.0**100), 2.0**100, width=32 if dtype == torch.float32 else 64)
    size = draw(st.integers(1, 9 // numbers_at_a_time)) * numbers_at_a_time
    element = st.one_of(common, anything, st.integers(-3, 3).map(float))
    return torch.tensor(draw(st.lists(element, min_size=size, max_size=size)), dtype=dtype).reshape(1, -1, 1)


def prefixes(x: Tensor) -> list[list[Fraction]]:
    numbers = [Fraction(value) for value in x.flatten().tolist()]
    return [numbers[:end] for end in range(1, len(numbers) + 1)]


def bound(exact: Fraction, summed: list[Fraction], dtype: torch.dtype) -> Fraction:
    """How far a float64 sum of `summed`, rounded to dtype, may lie from the exact value."""
    additions = len(summed) - 1
    error = additions * ROUNDOFF / (1 - additions * ROUNDOFF) * sum(map(abs, summed), Fraction(0))
    unit = Fraction(torch.finfo(dtype).eps) / 2
    return error + unit * (abs(exact) + error) + SMALLEST[dtype]


def values(y: Tensor) -> list[Fraction]:
    return [Fraction(value) for value in y.flatten().tolist()]


@many
@given(x=number_lists())
def test_cumulative_sum_equals_exact_sum_of_each_prefix(x: Tensor) -> None:
    for found, prefix in zip(values(tasks.get("sum").target(x)), prefixes(x), strict=True):
        exact = sum(prefix, Fraction(0))
        assert abs(found - exact) <= bound(exact, prefix, x.dtype)


@many
@given(x=number_lists())
def test_cumulative_min_and_max_are_numbers_of_each_prefix(x: Tensor) -> None:
    assert values(tasks.get("min").target(x)) == [min(prefix) for prefix in prefixes(x)]
    assert values(tasks.get("max").target(x)) == [max(prefix) for prefix in prefixes(x)]


@many
@given(x=number_lists())
@example(x=torch.tensor([[[5e-324]]], dtype=torch.float64))  # half of the least subnormal is 0
def test_cumulative_median_equals_statistics_median_of_each_prefix(x: Tensor) -> None:
    for found, prefix in zip(values(tasks.get("median").target(x)), prefixes(x), strict=True):
        exact = statistics.median(prefix)
        if len(prefix) % 2:
            assert found == exact
        else:
            low, high = sorted(prefix)[len(prefix) // 2 - 1 : len(prefix) // 2 + 1]
            assert abs(found - exact) <= bound(exact, [low / 2, high / 2], x.dtype)


def test_median_of_two_numbers_whose_sum_overflows_is_finite() -> None:
    largest = torch.finfo(torch.float64).max
    x = torch.full((1, 2, 1), largest, dtype=torch.float64)
    assert tasks.get("median").target(x).flatten().tolist() == [largest, largest]


@many
@given(x=number_lists())
def test_whole_median_equals_statistics_median_at_every_node(x: Tensor) -> None:
    y = tasks.get("whole-median").target(x)
    assert y.shape == x.shape
    assert len(set(values(y))) == 1
    assert torch.equal(y, tasks.get("median").target(x)[:, -1:].expand_as(x))


def test_whole_median_reads_the_two_middle_numbers_of_an_even_list() -> None:
    x = torch.tensor([7.0, 1.0, 4.0, 2.0, 100.0, -50.0]).reshape(1, 6, 1)
    assert tasks.get("whole-median").target(x).flatten().tolist() == [3.0] * 6


@many
@given(x=number_lists())
def test_sort_equals_sorted(x: Tensor) -> None:
    assert tasks.get("sort").target(x).flatten().tolist() == sorted(x.flatten().tolist())


@many
@given(x=number_lists())
def test_max_subarray_equals_best_of_all_subarrays_of_each_prefix(x: Tensor) -> None:
    for found, prefix in zip(values(tasks.get("max-subarray").target(x)), prefixes(x), strict=True):
        ends = itertools.combinations(range(len(prefix) + 1), 2)
        exact = max(sum(prefix[start:end], Fraction(0)) for start, end in ends)
        # The best of slightly wrong sums is off by no more than the worst of them, which sums the whole prefix.
        assert abs(found - exact) <= bound(exact, prefix, x.dtype)


@many
@given(x=number_lists(numbers_at_a_time=2))
def test_min_sum_equals_least_sum_of_paired_halves_of_each_prefix(x: Tensor) -> None:
    numbers = prefixes(x)[-1]
    half = len(numbers) // 2
    pairs = list(zip(numbers[:half], numbers[half:], strict=True))
    found = values(tasks.get("min-sum").target(x))
    assert found[:half] == found[half:]
    for end in range(1, half + 1):
        exact = min(a + b for a, b in pairs[:end])
        error = max(bound(exact, [*pair], x.dtype) for pair in pairs[:end])
        assert abs(found[end - 1] - exact) <= error


@pytest.mark.parametrize("name", ["sum", "min", "max", "median", "max-subarray", "min-sum"])
@settings(deadline=None, max_examples=20)
@given(x=number_lists(numbers_at_a_time=2))
def test_without_cumulative_every_node_holds_the_answer_of_the_whole_list(name: str, x: Tensor) -> None:
    whole = tasks.get(name, cumulative=False).target(x)
    assert torch.equal(whole, tasks.get(name).target(x)[:, -1:].expand_as(x))


@pytest.mark.parametrize(
    ("name", "numbers", "expected"),
    [
        # In float32 1e8 + 1 is 1e8 and 2²⁴ + 1 is 2²⁴: sums rounded on the way would end in 0 and in 2²⁴.
        ("sum", [1e8, 1.0, -1e8], [1e8, 1e8, 1.0]),
        ("max-subarray", [2.0**24, 1.0, 1.0], [2.0**24, 2.0**24, 2.0**24 + 2]),
    ],
)
def test_float32_sums_are_rounded_once_and_not_at_every_addition(
    name: str, numbers: list[float], expected: list[float]
) -> None:
    assert tasks.get(name).target(torch.tensor(numbers).reshape(1, 3, 1)).flatten().tolist() == expected


@pytest.mark.parametrize(("name", "nodes"), [("sum", 5), ("sort", 5), ("min-sum", 10)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sample_has_the_shape_dtype_range_and_target_it_says(name: str, nodes: int, dtype: torch.dtype) -> None:
    task = tasks.get(name)
    x, y = task.sample(7, length=5, low=-3.0, high=11.0, avoid=(-1.0, 1.0), generator=seeded(), dtype=dtype)
    assert task.shape(5) == (nodes, 1, 1)
    assert x.shape == y.shape == (7, nodes, 1)
    assert x.dtype == y.dtype == dtype
    assert x.min() >= -3
    assert x.max() <= 11
    assert torch.equal(y, task.target(x))


def test_integer_samples_are_whole_and_so_are_their_sums() -> None:
    x, y = tasks.get("sum").sample(101, length=3, low=-5.0, high=5.0, integers=True, generator=seeded())
    assert torch.equal(x, x.round())
    assert set(x.flatten().tolist()) == set(map(float, range(-5, 5)))
    assert torch.equal(y, x.cumsum(1))


@pytest.mark.parametrize("replicas", [(), (3,), (2, 3)])
def test_loss_is_the_mean_squared_error_of_each_replica(replicas: tuple[int, ...]) -> None:
    task = tasks.get("sum")
    prediction = torch.randn(*replicas, 7, 5, 1, generator=seeded(), dtype=torch.float64)
    target = torch.randn(*replicas, 7, 5, 1, generator=seeded(1), dtype=torch.float64)
    expected = np.mean((prediction.numpy() - target.numpy()) ** 2, axis=(-3, -2, -1))
    assert task.loss(prediction, target).shape == replicas
    # 35 terms a mean: 35 roundings and a few of their own, on either side.
    np.testing.assert_allclose(task.loss(prediction, target).numpy(), expected, rtol=100 * 2.0**-53)


@pytest.mark.parametrize("replicas", [(), (3,), (2, 3)])
def test_accuracy_counts_samples_whose_nodes_are_all_close(replicas: tuple[int, ...]) -> None:
    target = torch.randn(*replicas, 13, 3, 1, generator=seeded(), dtype=torch.float64)
    off = 0.15 * torch.randn(*replicas, 13, 3, 1, generator=seeded(1), dtype=torch.float64)
    close = np.isclose((target + off).numpy(), target.numpy(), rtol=0.1, atol=0.1)
    expected = close.all(axis=(-2, -1)).mean(axis=-1)
    assert 0 < expected.min() <= expected.max() < 1
    found = tasks.get("sum").metric(target + off, target)
    assert found.shape == replicas
    np.testing.assert_array_equal(found.numpy(), expected)


REFUSED: list[tuple[str, Callable[[], Tensor], list[str]]] = [
    ("sum", lambda: torch.zeros(7, 5), ["'sum'", "shape (7, 5)", "must be (batch, nodes, 1)"]),
    ("sum", lambda: torch.zeros(7, 5, 2), ["shape (7, 5, 2)", "must be (batch, nodes, 1)"]),
    ("sum", lambda: torch.zeros(7, 0, 1), ["shape (7, 0, 1)", "must be (batch, nodes, 1)"]),
    ("sum", lambda: torch.tensor(1.0), ["shape ()", "must be (batch, nodes, 1)"]),
    ("sort", lambda: torch.zeros(7, 5, 1, dtype=torch.int64), ["'sort'", "torch.int64", "use x.float()"]),
    ("median", lambda: torch.tensor([[[1.0], [math.nan]]]), ["'median'", "nan at", "Remove NaN"]),
    ("min", lambda: torch.tensor([[[-math.inf]]]), ["'min'", "inf at", "Remove NaN and infinite"]),
    ("min-sum", lambda: torch.zeros(7, 5, 1), ["'min-sum'", "5 numbers", "multiple of 2"]),
]


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize(("name", "inputs", "said"), REFUSED)
def test_input_without_an_answer_is_refused(name: str, inputs: Callable[[], Tensor], said: list[str]) -> None:
    with pytest.raises(PosattnError) as refused:
        tasks.get(name).target(inputs())
    for words in said:
        assert words in str(refused.value)


@pytest.mark.parametrize("name", ["sum", "min-sum"])
def test_list_without_numbers_is_refused(name: str) -> None:
    with pytest.raises(PosattnError, match=r"length=0: an input has at least one number\."):
        tasks.get(name).sample(3, length=0, generator=seeded())
    with pytest.raises(PosattnError, match=r"length=-1"):
        tasks.get(name).shape(-1)
