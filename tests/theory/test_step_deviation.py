"""The largest deviation of a step that sees two numbers, against dense sampling and closed forms."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from posattn.errors import PosattnError
from posattn.nn import LoopedPositionalTransformer
from posattn.nn.law import law
from posattn.theory.step_deviation import largest_deviation

ORACLES = {"min": np.minimum, "max": np.maximum, "sum": np.add}


def made(schedule: str = "scan", *symmetry: str, seed: int = 0, **options: Any) -> LoopedPositionalTransformer:
    return LoopedPositionalTransformer(
        schedule=schedule, symmetry=symmetry or ("scale",), generator=torch.Generator().manual_seed(seed), **options
    ).double()


def sampled(model: LoopedPositionalTransformer, target: str, role: int, count: int) -> tuple[float, float]:
    """The largest relative deviations among many directions, by the model's own step."""
    angle = np.linspace(0, 2 * np.pi, count)
    s, o = np.cos(angle), np.sin(angle)
    with torch.no_grad():
        values = torch.from_numpy(np.stack([s, o], 1))[None, :, :, None]
        answer = model._step(values, 0, torch.full((count,), role)).flatten().numpy()
    off = np.abs(answer - ORACLES[target](s, o))
    return (off / np.maximum(abs(s), abs(o))).max(), (off / (abs(s) + abs(o))).max()


@pytest.mark.parametrize("target", ORACLES)
@pytest.mark.parametrize(("schedule", "role", "seed"), [("scan", 0, 1), ("bitonic", 0, 2), ("bitonic", 1, 3)])
def test_the_largest_deviation_is_the_supremum_of_samples(target: str, schedule: str, role: int, seed: int) -> None:
    model = made(schedule, seed=seed, hidden_dim=7, heads=3, mlp_layers=4)
    for parameter in model.parameters():
        parameter.data.mul_(2.0)
    found = largest_deviation(model, target, role=role)
    largest, added = sampled(model, target, role, 50_001)
    for exact, seen in ((found.per_largest, largest), (found.per_sum, added)):
        assert seen <= float(exact) * (1 + 1e-12)
        assert seen == pytest.approx(float(exact), rel=2e-3)


def test_a_step_that_is_the_minimum_deviates_from_it_by_nothing_and_from_the_others_by_what_they_differ() -> None:
    """min(s, o) = relu(s)/2 … as (s + o − |s − o|)/2; heads see s/2 and o/2 up to tiny shares, here exactly."""
    model = made(hidden_dim=4, heads=2, mlp_layers=2)
    big = 1e3  # a softmax of 0 and 1 in float64
    model.logits.data = torch.tensor([[[-big, 0.0, -big], [-big, -big, 0.0]]], dtype=torch.float64)
    model.layers[0].weight.data = torch.tensor([[1, 1], [-1, -1], [1, -1], [-1, 1]], dtype=torch.float64)
    model.layers[1].weight.data = torch.tensor([[0.5, -0.5, -0.5, -0.5]], dtype=torch.float64)
    assert largest_deviation(model, "min").per_largest == 0
    assert largest_deviation(model, "max").per_largest == 2  # at (1, −1)
    assert largest_deviation(model, "sum").per_sum == Fraction(1)  # |max| at (1, 0)


@pytest.mark.parametrize("layers", [2, 3])
def test_a_deviation_between_the_axes_and_the_diagonals_is_found(layers: int) -> None:
    """s + o and a hat, relu(o − s/4) − 2·relu(o − s/2) + relu(o − 3s/4), which is 0 but for o/s in (1/4, 3/4).

    With three layers the first one holds relu(±s) and relu(±o), and the rays of the hat are found in the second.
    """
    rows = torch.tensor([[1, 1], [-1, -1], [-0.25, 1], [-0.5, 1], [-0.75, 1]], dtype=torch.float64)
    model = made(hidden_dim=5, heads=2, mlp_layers=layers)
    big = 1e3
    model.logits.data = torch.tensor([[[-big, 0.0, -big], [-big, -big, 0.0]]], dtype=torch.float64)
    signs = torch.tensor([[1, 0], [-1, 0], [0, 1], [0, -1], [0, 0]], dtype=torch.float64)
    maps = [rows] if layers == 2 else [signs, rows @ signs.T]
    for layer, weight in zip(model.layers, [*maps, torch.tensor([[1, -1, 1, -2, 1]]).double()], strict=True):
        layer.weight.data = weight
    found = largest_deviation(model, "sum")
    assert found.per_largest == Fraction(1, 4)  # at (2, 1)
    assert found.per_sum == Fraction(1, 6)


def test_a_linear_step_deviates_from_the_sum_by_its_factors() -> None:
    model = made("scan", "scale", "linear", seed=4)
    ((a, b),) = law(model).factors
    found = largest_deviation(model, "sum")
    assert found.per_sum == max(abs(a - 1), abs(b - 1))
    assert found.per_largest == max(abs(a - 1 + b - 1), abs(a - b))
    assert found.rays == 8


def test_no_two_roles_are_mixed_up() -> None:
    model = made("bitonic", seed=5)
    with pytest.raises(PosattnError, match="role=2: the model has 2"):
        largest_deviation(model, "min", role=2)
    assert largest_deviation(model, "min", role=0) != largest_deviation(model, "min", role=1)


@pytest.mark.parametrize(("schedule", "symmetry"), [("pairs", ("scale",)), ("scan", ("scale", "shift"))])
def test_steps_that_see_other_numbers_are_refused(schedule: str, symmetry: tuple[str, ...]) -> None:
    with pytest.raises(PosattnError, match="two numbers"):
        largest_deviation(made(schedule, *symmetry), "min")
