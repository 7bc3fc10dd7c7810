"""Under autocast every model runs forward and backward, near what it gives without; a compiled one is not touched."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from posattn import compile as compiler
from posattn.nn import SelectorTransformer

from .test_weights import MODELS, inputs_of

#: bfloat16 rounds to 2⁻⁸ of a number. Between input and output, or loss and gradient, lie some ten products, each of
#: which rounds its factors and its result: 30 · 2⁻⁸, were all of it to add up and none to be magnified.
NEAR = 30 * 2**-8


def gradients(model: Any, inputs: tuple[Tensor, ...], dtype: torch.dtype | None) -> tuple[Tensor, Tensor]:
    """Output and all gradients of a squared error, as one row; `dtype`: that of autocast around the forward pass."""
    model.zero_grad()
    with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
        value = model(*inputs)
        loss = mse_loss(value, torch.ones_like(value))
    loss.backward()
    found = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert all(gradient.dtype == torch.float32 for gradient in found)
    return value.detach().float(), torch.cat([gradient.flatten() for gradient in found])


def distance(found: Tensor, expected: Tensor) -> float:
    return ((found - expected).norm() / expected.norm()).item()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("make", MODELS)
def test_every_model_can_be_trained_under_autocast(make, dtype):
    torch.manual_seed(0)
    model = make()
    inputs = inputs_of(model, torch.float32)
    value, slope = gradients(model, inputs, None)
    rounded, rounded_slope = gradients(model, inputs, dtype)
    exact = model.architecture.kind in (
        "positional-exact",
        "looped-slopes",
    )  # the one without autocast, the other without products
    assert distance(rounded, value) < NEAR
    assert distance(rounded_slope, slope) < NEAR
    assert (distance(rounded_slope, slope) == 0) == exact  # the others do multiply in fewer bits


def test_gradients_of_a_compiled_model_are_the_same_under_autocast():
    model = compiler.compile(compiler.library.sort(4), domain=10.0).model
    x = torch.tensor([[[3.0], [-1.5], [7.25], [0.5]]])
    for plain, rounded in zip(gradients(model, (x,), None), gradients(model, (x,), torch.bfloat16), strict=True):
        assert torch.equal(plain, rounded)


def test_autocast_does_not_reach_the_certificate_of_a_query():
    """Encodings that are nearly dependent: the certificate's product with each chosen one is 1, or there is none."""
    model = SelectorTransformer(length=6, dim=1, encoding="stochastic", encoding_dim=16)
    chosen = model.encodings(torch.arange(6).expand(40, 6), torch.arange(40), torch.float32)
    chosen = chosen[torch.linalg.eigvalsh(chosen @ chosen.mT)[:, 0] > 0.05]
    assert len(chosen) > 5
    with torch.autocast("cpu", dtype=torch.bfloat16):
        query = model.e_query(chosen)
    products = (chosen @ query.unsqueeze(-1)).squeeze(-1)
    # Elimination at a condition of at most 6/0.05 = 120: a few hundred roundings of 2⁻²⁴, and not of 2⁻⁸.
    assert (products - 1).abs().max() < 1e-3
