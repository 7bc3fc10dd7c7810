"""The relative error, against NumPy."""

import numpy as np
import pytest
import torch

from posattn import PosattnError
from posattn.tasks.scoring import relative_rms


@pytest.mark.parametrize("replicas", [(), (3,), (2, 3)])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_relative_rms_is_that_of_each_replica_at_every_scale(replicas: tuple[int, ...], scale: float) -> None:
    generator = torch.Generator().manual_seed(0)
    target = scale * torch.randn(*replicas, 7, 5, 1, generator=generator)
    prediction = target + scale * 1e-3 * torch.randn(target.shape, generator=generator)
    exact, guess = target.numpy().astype(np.float64), prediction.numpy().astype(np.float64)
    axes = (-3, -2, -1)
    expected = np.sqrt(np.mean((guess - exact) ** 2, axis=axes)) / np.sqrt(np.mean(exact**2, axis=axes))
    found = relative_rms(prediction, target)
    assert found.shape == replicas
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-13)
    assert relative_rms(target, target).abs().max() == 0


def test_relative_rms_refuses_shapes_that_would_broadcast() -> None:
    with pytest.raises(PosattnError, match=r"shape \(7, 5, 1\) and the target \(7, 1, 1\)"):
        relative_rms(torch.zeros(7, 5, 1), torch.ones(7, 1, 1))
