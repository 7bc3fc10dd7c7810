"""Polishing ends where rounding does: ε of the step, from its exact law, is the judge."""

import copy

import pytest
import torch
from torch import Tensor

from looped_models import with_slopes
from posattn.errors import PosattnError
from posattn.nn import LoopedPositionalTransformer
from posattn.nn.law import law
from posattn.train.polish import polish

SHIFT = ("scale", "shift")


def answers(schedule: str, x: Tensor) -> Tensor:
    """What a model should hold after each iteration that completes blocks of 2, 4, 8 … numbers."""
    widths = [2 << level for level in range((x.shape[1] - 1).bit_length())]
    if schedule == "bitonic":
        return torch.cat([torch.cat([b.sort(1).values for b in x.split(w, 1)], 1) for w in widths], -1)
    nodes = range(x.shape[1])
    return torch.cat([torch.stack([x[:, max(0, i + 1 - w) : i + 1].amin(1) for i in nodes], 1) for w in widths], -1)


def sample(schedule: str, count: int, seed: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    x = 4 * torch.rand(count, 8, 1, generator=torch.Generator().manual_seed(seed), dtype=dtype) - 2
    return x, answers(schedule, x)


def roughly_trained(schedule: str, steps: int = 100) -> LoopedPositionalTransformer:
    model = LoopedPositionalTransformer(
        schedule=schedule, symmetry=SHIFT, hidden_dim=16, generator=torch.Generator().manual_seed(1)
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(steps):
        x, target = sample(schedule, 32, step, torch.float32)
        optimiser.zero_grad()
        (model(x, every=True) - target).square().mean().backward()
        optimiser.step()
    return model


@pytest.mark.parametrize("schedule", ["scan", "bitonic"])
def test_a_roughly_trained_model_gets_its_last_digits(schedule: str) -> None:
    model = roughly_trained(schedule)
    before = copy.deepcopy(model.state_dict())
    polished = polish(model, sample(schedule, 8, seed=0))
    assert float(law(model).epsilon) > 1e-5
    assert law(polished).epsilon <= 1e-12
    assert law(polished).snapped == (((0, -1),) if schedule == "scan" else ((0, -1), (1, 0)))
    assert polished.logits.dtype == torch.float64
    assert all(torch.equal(before[name], held) for name, held in model.state_dict().items())


def test_weights_that_were_stirred_are_found_again() -> None:
    model = with_slopes("bitonic", SHIFT, [(0.0, -1.0), (1.0, 0.0)])
    stir = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        parameter.data += 1e-3 * torch.randn(parameter.shape, generator=stir, dtype=torch.float64)
    assert law(model).epsilon > 1e-4
    assert law(polish(model, sample("bitonic", 4, seed=1))).epsilon <= 1e-12


def test_a_linear_step_becomes_the_sum_and_answers_without_a_target_count_for_nothing() -> None:
    model = LoopedPositionalTransformer(
        symmetry=("scale", "linear"), hidden_dim=8, generator=torch.Generator().manual_seed(0)
    )
    x, _ = sample("scan", 8, seed=0)
    sums = torch.stack([x[:, max(0, i - 1) : i + 1].sum(1) for i in range(8)], 1)
    unknown = torch.full((8, 8, 2), torch.nan, dtype=torch.float64)  # only the first iteration has a target
    polished = polish(model, (x, torch.cat([sums, unknown], -1)))
    ((a, b),) = law(polished).factors
    assert max(abs(a - 1), abs(b - 1)) <= 1e-12


def test_a_step_that_raises_the_error_is_undone() -> None:
    """From these first weights an undamped step would raise the error to 1e19."""
    x, target = sample("bitonic", 4, seed=0)
    seeded = torch.Generator().manual_seed(3)
    model = LoopedPositionalTransformer(schedule="bitonic", symmetry=SHIFT, hidden_dim=4, generator=seeded).double()

    def error(one: LoopedPositionalTransformer) -> float:
        with torch.no_grad():
            return float((one(x, every=True) - target).square().sum())

    errors = [error(polish(model, (x, target), steps=steps)) for steps in (1, 2, 3)]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] < error(model)


def test_samples_that_do_not_fit_are_refused() -> None:
    model = with_slopes("scan", SHIFT, [(0.0, -1.0)])
    x, target = sample("scan", 2, seed=0)
    with pytest.raises(PosattnError, match=r"\(2, 8, 2\), and the answers after all iterations \(2, 8, 3\)"):
        polish(model, (x, target[..., :2]))
    with pytest.raises(PosattnError, match="nothing to fit"):
        polish(model, (x, target * torch.nan))
