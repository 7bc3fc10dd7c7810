"""Targets for every iteration, one node, window and block at a time."""

import math
from collections.abc import Callable
from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from posattn import PosattnError, tasks
from posattn.nn import Positional
from posattn.tasks import NumericTask
from posattn.train import Data, Fleet, Optimiser, Trial, shape_key

few = settings(deadline=None, max_examples=30)
lengths = st.integers(1, 17)
seeds = st.integers(0, 10**6)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def whole_numbers(name: str, length: int, seed: int) -> tuple[list[int], Tensor]:
    """One list of whole numbers, whose sums are exact, and its target."""
    x, y = tasks.get(name).sample(1, length=length, low=-9, high=10, integers=True, blocks=True, generator=seeded(seed))
    return [int(number) for number in x.flatten().tolist()], y[0]


def best_run(numbers: list[int]) -> int:
    return max(sum(numbers[start:end]) for start, end in combinations(range(len(numbers) + 1), 2))


SCANS: dict[str, Callable[[list[int]], int]] = {"sum": sum, "min": min, "max": max, "max-subarray": best_run}


@pytest.mark.parametrize("name", SCANS)
@few
@given(length=lengths, seed=seeds)
def test_scan_channel_holds_the_answer_of_the_window_that_ends_at_the_node(name: str, length: int, seed: int) -> None:
    numbers, y = whole_numbers(name, length, seed)
    assert y.shape == (length, max(1, math.ceil(math.log2(length))))
    for channel in range(y.shape[1]):
        for node in range(length):
            window = numbers[max(0, node - 2 ** (channel + 1) + 1) : node + 1]
            assert y[node, channel] == SCANS[name](window)


@few
@given(length=lengths, seed=seeds)
def test_sort_channel_holds_every_aligned_block_sorted(length: int, seed: int) -> None:
    numbers, y = whole_numbers("sort", length, seed)
    assert y.shape == (length, max(1, math.ceil(math.log2(length))))
    for channel in range(y.shape[1]):
        width = 2 ** (channel + 1)
        blocks = [sorted(numbers[start : start + width]) for start in range(0, length, width)]
        assert y[:, channel].tolist() == [number for block in blocks for number in block]


@pytest.mark.parametrize("name", [*SCANS, "sort"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_last_channel_is_the_answer_and_the_numbers_are_those_without_blocks(name: str, dtype: torch.dtype) -> None:
    task = tasks.get(name)
    for length in (1, 2, 3, 5, 8, 13):
        x, y = task.sample(7, length=length, generator=seeded(), dtype=dtype, blocks=True)
        plain, answer = task.sample(7, length=length, generator=seeded(), dtype=dtype)
        assert torch.equal(x, plain)
        assert torch.equal(y[..., -1:], answer)
        assert y.dtype == dtype
        assert not y.isnan().any()


def test_window_sums_are_rounded_once() -> None:
    """In float32 1e8 + 1 is 1e8, so that a sum rounded on the way would lose the 1."""
    x = torch.tensor([1e8, 1.0, -1e8, 0.0, 0.0]).reshape(1, 5, 1)
    assert tasks.get("sum")._solve_blocks(x)[0, :, 1].tolist() == [1e8, 1e8, 1.0, 1.0, -1e8]


def test_blocks_go_with_places() -> None:
    inputs, y = tasks.get("min").sample(3, length=5, places=9, blocks=True, generator=seeded())
    assert inputs.places.shape == (3, 5)
    assert torch.equal(y[..., -1:], tasks.get("min").target(inputs))


@pytest.mark.parametrize(
    ("task", "said"),
    [
        (tasks.get("median"), ["'median' has no answers for parts of the list", "take sum"]),
        (tasks.get("min-sum"), ["'min-sum' has no answers"]),
        (tasks.get("whole-median"), ["'whole-median' sorts", "Train on sort"]),
        (tasks.get("sum", cumulative=False), ["cumulative=False", "Use cumulative=True"]),
        (NumericTask("negate", "", torch.neg), ["'negate' has no answers", "Leave blocks out"]),
    ],
)
def test_tasks_without_answers_on_the_way_refuse_blocks(task: NumericTask, said: list[str]) -> None:
    with pytest.raises(PosattnError) as refused:
        task.sample(2, blocks=True, generator=seeded())
    for words in ["blocks=True", *said]:
        assert words in str(refused.value)


def trial(task: str, length: int, seed: int) -> Trial:
    return Trial(
        task=task,
        model=Positional(length=length, out_dim=3, embed_dim=6, hidden_dim=7, layers=1),
        data=Data(samples=12, batch=6, options={"length": length, "blocks": True}),
        optimiser=Optimiser(steps=3),
        seed=seed,
    )


def test_fleets_train_on_channels_and_keep_other_numbers_of_them_apart() -> None:
    together = [trial("sum", 8, 0), trial("sort", 8, 1)]
    assert len({shape_key(one) for one in together}) == 1
    assert len({shape_key(one) for one in [*together, trial("sum", 7, 0)]}) == 2
    losses = list(Fleet(together, device="cpu").run())
    assert len(losses) > 0
