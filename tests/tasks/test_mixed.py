"""Mixed-type prompts, read back as text."""

import math
import re
from collections import Counter
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posattn import tasks
from posattn.errors import PosattnError
from posattn.tasks.mixed import LABEL_GLYPHS

NAMES = ["mixed-min", "mixed-sum", "mixed-multitask"]
OPERATIONS = {"min": min, "max": max, "sum": lambda numbers: sum(numbers, Fraction(0))}
PROMPT = re.compile(r"((?:Cat[-+*_]?\w)+)Find (min|max|sum) of categories Cat(\w), Cat(\w), Cat(\w) and Cat(\w)")


class Prompt(NamedTuple):
    """A prompt as a person reads it."""

    entries: list[tuple[str, str]]  # (mark, label): no mark, and the label has a value
    operation: str
    asked: list[str]

    @property
    def labels(self) -> list[str]:
        return [label for mark, label in self.entries if not mark]

    @property
    def distractors(self) -> list[tuple[str, str]]:
        return [entry for entry in self.entries if entry[0]]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def read(text: str) -> Prompt:
    parts = PROMPT.fullmatch(text)
    assert parts is not None, text
    listed, operation, *asked = parts.groups()
    return Prompt(re.findall(r"Cat([-+*_]?)(\w)", listed), operation, asked)


def answer(prompt: Prompt, numbers: list[float]) -> Fraction:
    value = dict(zip(prompt.labels, map(Fraction, numbers), strict=True))
    return OPERATIONS[prompt.operation]([value[label] for label in prompt.asked])


def drawn(name: str, count: int = 211, **asked: object) -> tuple[tasks.MixedInputs, torch.Tensor, list[Prompt]]:
    task = tasks.get(name)
    inputs, y = task.sample(count, generator=seeded(), **asked)
    return inputs, y, [read(text) for text in task.text(inputs)]


def assert_equally_likely(counts: Counter, cells: int) -> None:
    """χ² with k degrees of freedom exceeds k + 2√(9k) + 18 with probability below e⁻⁹ (Laurent and Massart).

    Labels drawn together without replacement vary less than independent ones, so the bound holds for them too.
    """
    assert len(counts) == cells
    expected = counts.total() / cells
    statistic = sum((count - expected) ** 2 / expected for count in counts.values())
    assert statistic < cells - 1 + 2 * math.sqrt(9 * (cells - 1)) + 18


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("held_out", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sampled_answer_equals_reading_the_text(name: str, held_out: bool, dtype: torch.dtype) -> None:
    inputs, y, prompts = drawn(name, low=0.0, high=50.0, avoid=(0.0, 5.0), held_out=held_out, dtype=dtype)
    assert inputs.numbers.dtype == y.dtype == dtype
    assert torch.equal(y, tasks.get(name).target(inputs))
    unit = Fraction(torch.finfo(dtype).eps) / 2
    for prompt, numbers, found in zip(prompts, inputs.numbers.tolist(), y[:, 0].tolist(), strict=True):
        exact = answer(prompt, numbers)
        # Three additions in float64 of numbers that are not negative, then one rounding; picking is exact.
        error = (3 * Fraction(1, 2**53) + unit) * exact * (1 + unit) if prompt.operation == "sum" else 0
        assert abs(Fraction(found) - exact) <= error


@settings(deadline=None, max_examples=60)
@given(
    name=st.sampled_from(NAMES),
    numbers=st.lists(
        st.sampled_from([0.0, 1.0, -1.0, 1e30, -1e30, 1e-30, 2.0**-149]) | st.floats(-8, 8, width=32),
        min_size=8,
        max_size=8,
    ),
    seed=st.integers(0, 10**6),
)
def test_target_is_right_for_ties_and_any_size_of_number(name: str, numbers: list[float], seed: int) -> None:
    task = tasks.get(name)
    inputs, _ = task.sample(1, generator=seeded(seed))
    inputs = inputs._replace(numbers=torch.tensor([numbers]))
    kept = inputs.numbers[0].tolist()
    prompt = read(task.text(inputs)[0])
    exact = answer(prompt, kept)
    found = Fraction(task.target(inputs).item())
    magnitude = sum(abs(Fraction(value)) for value in kept)
    error = 3 * Fraction(1, 2**53) * magnitude * 2 + Fraction(1, 2**24) * abs(exact) + Fraction(1, 2**149)
    assert abs(found - exact) <= (error if prompt.operation == "sum" else 0)


@pytest.mark.parametrize(
    ("held_out", "labels", "marks"), [(False, LABEL_GLYPHS[:20], "+-"), (True, LABEL_GLYPHS[20:], "*_")]
)
def test_prompt_is_built_as_the_paper_says(held_out: bool, labels: str, marks: str) -> None:
    inputs, _, prompts = drawn("mixed-min", held_out=held_out)
    assert len(set(LABEL_GLYPHS)) == 40  # so that the two halves share no label
    assert inputs.characters.shape == (211, 90)
    assert inputs.numbers.shape == (211, 8)
    assert {len(text) for text in tasks.get("mixed-min").text(inputs)} == {90}
    for prompt in prompts:
        ids = [labels.index(label) for label in prompt.labels]
        assert len(ids) == 8
        assert all(before < after for before, after in pairwise(ids))
        assert len(prompt.distractors) == 2
        assert all(mark in marks and label in prompt.labels for mark, label in prompt.distractors)
        assert len(set(prompt.asked)) == 4
        assert set(prompt.asked) <= set(prompt.labels)
    assert {mark for prompt in prompts for mark, _ in prompt.distractors} == set(marks)


@pytest.mark.parametrize(("name", "asked"), [("mixed-min", {"min"}), ("mixed-sum", {"sum"})])
def test_single_task_asks_one_question(name: str, asked: set[str]) -> None:
    assert {prompt.operation for prompt in drawn(name)[2]} == asked


def test_everything_in_a_prompt_is_drawn_uniformly() -> None:
    prompts = drawn("mixed-multitask", count=9000)[2]
    assert_equally_likely(Counter(prompt.operation for prompt in prompts), 2)
    assert_equally_likely(Counter(label for prompt in prompts for label in prompt.labels), 20)
    places = [tuple(i for i, (mark, _) in enumerate(prompt.entries) if mark) for prompt in prompts]
    assert_equally_likely(Counter(places), math.comb(10, 2))
    copied = [tuple(prompt.labels.index(label) for _, label in prompt.distractors) for prompt in prompts]
    assert_equally_likely(Counter(copied), 8 * 7)
    assert_equally_likely(Counter(tuple(mark for mark, _ in prompt.distractors) for prompt in prompts), 4)
    # The order of the question counts too: every label is as likely to be named first.
    assert_equally_likely(Counter(prompt.labels.index(prompt.asked[0]) for prompt in prompts), 8)
    assert_equally_likely(Counter(frozenset(map(prompt.labels.index, prompt.asked)) for prompt in prompts), 70)


def test_values_have_two_decimals_and_stay_in_the_range() -> None:
    for dtype in (torch.float32, torch.float64):
        numbers = drawn("mixed-sum", low=0.25, high=7.5, dtype=dtype)[0].numbers
        assert numbers.min() >= 0.25
        assert numbers.max() <= 7.5
        nearest = torch.tensor([[float(f"{value:.2f}") for value in row] for row in numbers.tolist()], dtype=dtype)
        assert torch.equal(numbers, nearest)
        assert len(numbers.unique()) > 300  # of 726 possible ones


@pytest.mark.parametrize("replicas", [(), (3,), (2, 3)])
def test_loss_is_squared_error_and_metric_is_relative_error(replicas: tuple[int, ...]) -> None:
    task = tasks.get("mixed-min")
    target = torch.rand(*replicas, 7, 1, generator=seeded(), dtype=torch.float64)
    target[..., 0, :] = 0.0  # relative to a cent
    prediction = torch.rand(*replicas, 7, 1, generator=seeded(1), dtype=torch.float64)
    ours, right = prediction.numpy(), target.numpy()
    loss, metric = task.loss(prediction, target), task.metric(prediction, target)
    assert loss.shape == metric.shape == replicas
    # 7 terms a mean, each of at most three roundings, on either side.
    np.testing.assert_allclose(loss.numpy(), ((ours - right) ** 2).mean(axis=(-2, -1)), rtol=20 * 2.0**-53)
    relative = np.abs(ours - right) / np.maximum(np.abs(right), 0.01)
    np.testing.assert_allclose(metric.numpy(), relative.mean(axis=(-2, -1)), rtol=20 * 2.0**-53)


GOOD, _ = tasks.get("mixed-min").sample(3, generator=seeded())
OTHER, _ = tasks.get("mixed-min").sample(3, held_out=True, generator=seeded())


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize(
    ("name", "inputs", "said"),
    [
        ("mixed-min", GOOD._replace(characters=GOOD.characters[:, 1:]), ["(3, 89)", "must be (batch, 90)"]),
        ("mixed-min", GOOD._replace(numbers=GOOD.numbers[:, 1:]), ["(3, 7)", "(batch, 8)"]),
        ("mixed-min", GOOD._replace(numbers=GOOD.numbers[1:]), ["(2, 8)", "(batch, 8)"]),
        ("mixed-min", GOOD._replace(numbers=GOOD.numbers.long()), ["torch.int64", ".float()"]),
        ("mixed-min", GOOD._replace(numbers=GOOD.numbers * math.nan), ["nan at", "Remove NaN"]),
        ("mixed-min", GOOD._replace(numbers=GOOD.numbers * math.inf), ["inf at", "Remove NaN and infinite"]),
        ("mixed-sum", GOOD, ["ask for the sum of 4", "as sample() writes it"]),
        ("mixed-min", GOOD._replace(characters=GOOD.characters.flip(1)), ["must list 8 labels"]),
        (
            "mixed-min",
            GOOD._replace(characters=torch.cat([GOOD.characters[:, :42], OTHER.characters[:, 42:]], dim=1)),
            ["of 4 among them"],
        ),
    ],
)
def test_prompt_without_an_answer_is_refused(name: str, inputs: tasks.MixedInputs, said: list[str]) -> None:
    with pytest.raises(PosattnError) as refused:
        tasks.get(name).target(inputs)
    for words in [f"'{name}'", *said]:
        assert words in str(refused.value)


def test_range_that_cannot_be_drawn_from_is_refused() -> None:
    with pytest.raises(PosattnError, match=r"avoid=\(0\.0, 5\.0\) covers the whole range"):
        tasks.get("mixed-min").sample(3, avoid=(0.0, 5.0), generator=seeded())
