"""Scores of answers with several channels, some of which are not known, against NumPy."""

import math

import numpy as np
import pytest
import torch

from posattn import tasks

TASK = tasks.get("sum")
REPLICAS = pytest.mark.parametrize("replicas", [(), (3,), (2, 3)])


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def scored(replicas: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """Predictions and targets of 7 samples, 5 nodes and 3 channels; the last channel is known everywhere."""
    prediction = torch.randn(*replicas, 7, 5, 3, generator=seeded(), dtype=torch.float64)
    target = prediction + 0.1 * torch.randn(*replicas, 7, 5, 3, generator=seeded(1), dtype=torch.float64)
    unknown = torch.rand(target.shape, generator=seeded(2)) < 0.4
    unknown[..., -1] = False
    return prediction, target.masked_fill(unknown, math.nan)


@REPLICAS
def test_loss_is_the_mean_over_what_is_known(replicas: tuple[int, ...]) -> None:
    prediction, target = scored(replicas)
    expected = np.nanmean((prediction.numpy() - target.numpy()) ** 2, axis=(-3, -2, -1))
    found = TASK.loss(prediction, target)
    assert found.shape == replicas
    # 105 terms a mean: as many roundings and a few of their own, on either side.
    np.testing.assert_allclose(found.numpy(), expected, rtol=250 * 2.0**-53)


@REPLICAS
def test_metric_sees_the_last_channel_alone(replicas: tuple[int, ...]) -> None:
    prediction, target = scored(replicas)
    last, right = prediction[..., -1].numpy(), target[..., -1].numpy()
    expected = np.isclose(last, right, rtol=0.1, atol=0.1).all(axis=-1).mean(axis=-1)
    assert 0 < expected.mean() < 1
    found = TASK.metric(prediction, target)
    assert found.shape == replicas
    np.testing.assert_array_equal(found.numpy(), expected)


def test_gradient_is_zero_where_the_target_is_unknown_and_finite_elsewhere() -> None:
    prediction, target = scored(())
    prediction = prediction.requires_grad_()
    TASK.loss(prediction, target).backward()
    gradient, known = prediction.grad, ~target.isnan()
    assert gradient is not None
    expected = 2 * (prediction - target.nan_to_num(0.0)).detach() / known.sum()
    torch.testing.assert_close(gradient, torch.where(known, expected, 0.0), rtol=1e-14, atol=0)


def test_a_diverged_prediction_is_scored_as_it_is() -> None:
    prediction, target = scored((2,))
    diverged = prediction.clone()
    diverged[0, 0, 0, -1] = math.nan
    found = TASK.loss(diverged, target)
    assert found[0].isnan()
    assert found[1] == TASK.loss(prediction, target)[1]
    unknown = torch.full((7, 5, 1), math.nan)  # one channel: nothing is left out
    assert TASK.loss(torch.zeros(7, 5, 1), unknown).isnan()
