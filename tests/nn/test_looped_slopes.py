"""Slopes without an MLP: with the right numbers the algorithm itself, and in general the looped model's step."""

import numpy as np
import pytest
import torch

from looped_models import with_slopes
from posattn.errors import PosattnError
from posattn.nn import LoopedSlopes, LoopedSlopesModel

from . import oracle

SHIFT, LINEAR = ("scale", "shift"), ("scale", "linear")


def slopes(schedule: str, symmetry: tuple[str, ...], rows: list[list[float]]) -> LoopedSlopesModel:
    model = LoopedSlopesModel(schedule=schedule, symmetry=symmetry).double()
    model.load_state_dict({"slopes": torch.tensor(rows, dtype=torch.float64)})
    return model


@pytest.mark.parametrize("length", [1, 2, 7, 8, 13])
def test_the_right_numbers_compute_minima_sums_and_sorted_lists_exactly(length):
    x = torch.randint(-50, 50, (3, length, 1), generator=torch.Generator().manual_seed(0)).double()
    cases = [
        (slopes("scan", SHIFT, [[0, -1]]), np.minimum.accumulate(x.numpy(), 1)),
        (slopes("scan", LINEAR, [[1, 1]]), np.cumsum(x.numpy(), 1)),
        (slopes("bitonic", SHIFT, [[0, -1], [1, 0]]), np.sort(x.numpy(), 1)),
    ]
    for model, expected in cases:
        assert np.array_equal(model(x).detach().numpy(), expected)


@pytest.mark.parametrize(("schedule", "rows"), [("scan", [[0.3, -0.7]]), ("bitonic", [[0.3, -0.7], [1.1, 0.2]])])
def test_it_is_the_looped_model_with_these_slopes(schedule, rows):
    model, x = slopes(schedule, SHIFT, rows), oracle.numbers(2, 11, 1)
    with_mlp = with_slopes(schedule, SHIFT, rows)
    torch.testing.assert_close(model(x), with_mlp(x), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(model(x, every=True), with_mlp(x, every=True), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("schedule", "symmetry", "numbers"),
    [("scan", SHIFT, 2), ("bitonic", SHIFT, 4), ("scan", LINEAR, 2), ("pairs", ("scale", "potential"), 2)],
)
def test_there_are_as_many_numbers_as_the_page_says(schedule, symmetry, numbers):
    model = LoopedSlopesModel(schedule=schedule, symmetry=symmetry)
    assert sum(weight.numel() for weight in model.parameters()) == numbers


def test_a_symmetry_that_leaves_more_than_slopes_is_refused():
    with pytest.raises(PosattnError, match="leaves more to learn than slopes"):
        LoopedSlopes(symmetry=("scale",))
