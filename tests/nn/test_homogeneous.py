"""Without biases a positional Transformer is homogeneous: f(c·x) = c·f(x)."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posattn import PositionalTransformer

from . import oracle

LAYERS = 4


def drawn(bias: bool, dtype: torch.dtype) -> PositionalTransformer:
    model = PositionalTransformer(layers=LAYERS, bias=bias, generator=torch.Generator().manual_seed(0))
    return oracle.stirred(model).to(dtype)


MODELS = {(bias, dtype): drawn(bias, dtype) for bias in (True, False) for dtype in (torch.float32, torch.float64)}


def deviation(bias: bool, dtype: torch.dtype, c: float) -> float:
    """|f(cx) − c·f(x)| over the largest |c·f(x)|."""
    model, x = MODELS[bias, dtype], oracle.numbers(5, 8, 1).to(dtype)
    with torch.no_grad():
        expected = c * model(x)
        return float((model(c * x) - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(exponent=st.floats(-3, 6))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_scaling_the_input_scales_the_output(dtype, exponent):
    """A sum of up to 128 products is rounded up to 128 times; there are about three a layer."""
    tolerance = 3 * LAYERS * 128 * torch.finfo(dtype).eps
    assert deviation(False, dtype, 10**exponent) < tolerance


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("power", [-10, -1, 1, 20])
def test_scaling_by_a_power_of_two_is_exact(dtype, power):
    assert deviation(False, dtype, 2.0**power) == 0.0


@pytest.mark.parametrize("c", [1e-3, 0.5, 2.0, 1e6])
def test_with_biases_it_does_not_hold(c):
    assert deviation(True, torch.float64, c) > 1e-2


def test_a_zero_input_gives_zero_and_with_biases_it_does_not():
    zero = torch.zeros(1, 8, 1, dtype=torch.float64)
    assert torch.equal(MODELS[False, torch.float64](zero), zero)
    assert not torch.allclose(MODELS[True, torch.float64](zero), zero)


def test_only_queries_and_keys_keep_their_biases():
    names = {name for name in MODELS[False, torch.float64].weights() if "bias" in name}
    assert names == {"query_bias", "key_bias"}
    assert len({name for name in MODELS[True, torch.float64].weights() if "bias" in name}) == 8


def test_the_bias_of_queries_shapes_attention_and_that_of_keys_never_does():
    """q_i·(k_j + b_K) adds the same to all of row i, and softmax does not see it; (q_i + b_Q)·k_j varies with j."""
    model = oracle.stirred(PositionalTransformer(layers=LAYERS, bias=False))
    before = model.attention()
    model = oracle.reweighted(model, lambda w: w["key_bias"].zero_())
    assert torch.allclose(model.attention(), before, rtol=0, atol=oracle.ROUNDING)
    model = oracle.reweighted(model, lambda w: w["query_bias"].zero_())
    assert (model.attention() - before).abs().max() > 1e-2
