"""What unit-scale errors say about other scales, against errors measured there."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posattn import tasks
from posattn.errors import PosattnError
from posattn.nn import PositionalTransformer
from posattn.theory.homogeneity import Interval, interval, measure, predict, redraw_factor

TASKS = ("sum", "min", "max", "median", "sort", "max-subarray")


def model(**options: object) -> PositionalTransformer:
    sizes = {"length": 5, "embed_dim": 8, "hidden_dim": 8, "layers": 2, "bias": False} | options
    return PositionalTransformer(**sizes, generator=torch.Generator().manual_seed(1)).double()  # type: ignore[arg-type]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("scale", [1e-3, 7.0, 1e4])
def test_on_scaled_inputs_the_error_is_exactly_the_square_of_the_scale_times_as_large(task: str, scale: float) -> None:
    found = tasks.get(task)
    x, _ = found.sample(200, length=5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with torch.no_grad():
        unit, other = (found.loss(model()(c * x), found.target(c * x)).item() for c in (1.0, scale))
    assert other == pytest.approx(scale**2 * unit, rel=1e-10)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("scale", [1.5, 10.0])
def test_the_error_under_the_redraw_rule_is_told_from_unit_scale(task: str, scale: float) -> None:
    told = predict(model(), task, scale=scale, generator=torch.Generator().manual_seed(0), samples=20_000)
    seen = measure(model(), task, scale=scale, generator=torch.Generator().manual_seed(1), samples=20_000)
    overlap = max(told.redrawn.low, seen.low) <= min(told.redrawn.high, seen.high)
    assert overlap, (told, seen)
    assert seen.low <= told.redrawn_at_most


def test_an_interval_lies_inside_with_probability_one_over_the_square_of_the_scale() -> None:
    ends = np.random.default_rng(0).uniform(-2, 2, (200_000, 2))
    for scale in (1.5, 3.0):
        inside = (np.abs(ends) <= 2 / scale).all(axis=1).mean()
        assert inside == pytest.approx(1 / scale**2, abs=0.005)
        assert redraw_factor(scale) == pytest.approx(scale**2 / (1 - 1 / scale**2))


def test_the_bound_is_reached_when_only_wide_inputs_go_wrong() -> None:
    """An error that is 0 on intervals inside ±2/c and 1 elsewhere: its redrawn mean is c²/(c² − 1) times its mean."""
    ends = np.random.default_rng(1).uniform(-2, 2, (400_000, 2))
    wrong = np.abs(ends).max(axis=1) > 2 / 3
    assert 9 * wrong[wrong].mean() == pytest.approx(redraw_factor(3.0) * wrong.mean(), rel=0.01)


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=30), st.floats(0.5, 0.999))
def test_an_interval_holds_its_mean_and_grows_with_confidence(values: list[float], confidence: float) -> None:
    tensor = torch.tensor(values, dtype=torch.float64)
    found, wider = interval(tensor, confidence), interval(tensor, (1 + confidence) / 2)
    assert wider.low <= found.low <= found.value <= found.high <= wider.high
    assert found.value == pytest.approx(float(np.mean(values)), rel=1e-12, abs=1e-12)


def test_confidence_intervals_hold_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(2000):
        found = interval(torch.from_numpy(rng.exponential(size=200)), 0.9)
        hits += found.low <= 1.0 <= found.high
    assert 0.87 <= hits / 2000 <= 0.92


def test_an_interval_scales() -> None:
    assert Interval(1.0, 0.5, 2.0).times(4.0) == Interval(4.0, 2.0, 8.0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"scale": 1.0}, "c=1.0"),
        ({"samples": 1}, "samples=1"),
        ({"confidence": 1.0}, "confidence=1.0"),
        ({"task": "nonsense"}, "nonsense"),
    ],
)
def test_bad_input_is_one_clear_error(options: dict[str, object], words: str) -> None:
    wanted = {"task": "sum", "scale": 2.0, "generator": torch.Generator()} | options
    with pytest.raises(PosattnError, match=words):
        predict(model(), **wanted)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"bias": True}, {"constants": "one-hot"}], ids=str)
def test_a_model_that_is_not_homogeneous_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(PosattnError, match="not homogeneous"):
        predict(model(**options), "sum", scale=2.0, generator=torch.Generator())
