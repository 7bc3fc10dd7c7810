"""The standard Transformer does what its formula says."""

from typing import Any

import numpy as np
import pytest
import torch

from posattn import StandardTransformer

from . import oracle

SIZES = oracle.SIZES
X_ONLY: dict[str, Any] = {"append_encoding": False}


def test_it_has_150273_parameters_at_length_8():
    model = StandardTransformer(length=8, layers=None)
    assert sum(parameter.numel() for parameter in model.parameters()) == 150_273


def test_every_size_goes_to_its_own_axis():
    model = StandardTransformer(length=5, in_dim=2, out_dim=7, embed_dim=22, heads=11, layers=3, hidden_dim=17)
    shapes = oracle.shapes_of(model)
    assert shapes["encoder_weight"] == (2 + 6, 22)
    assert shapes["query_weight"] == shapes["key_weight"] == (3, 22, 11 * 22)
    assert shapes["mlp_in_weight"] == (3, 44, 17)
    assert shapes["decoder_weight"] == (22, 7)
    assert model(torch.zeros(13, 5, 2)).shape == (13, 5, 7)
    assert model.attention(torch.zeros(13, 5, 2)).shape == (13, 3, 11, 6, 6)


@pytest.mark.parametrize("append", [True, False])
@pytest.mark.parametrize("rotary", [True, False])
@pytest.mark.parametrize("scratchpad", [0, 2])
def test_output_and_attention_equal_the_formula(append, rotary, scratchpad):
    model = oracle.stirred(
        StandardTransformer(**SIZES, append_encoding=append, rotary=rotary, scratchpad=scratchpad, mlp_layers=3)
    )
    x = oracle.numbers(2, 5, 3)
    expected, seen = oracle.by_value(
        oracle.weights_of(model),
        x,
        heads=2,
        scratchpad=scratchpad,
        append=append,
        turn=oracle.turned if rotary else None,
    )
    assert oracle.relative_error(model(x), expected) < oracle.ROUNDING
    assert oracle.relative_error(model.attention(x), seen) < oracle.ROUNDING
    assert np.abs(seen[0] - seen[1]).max() > 0.05  # two samples lead to different weights


def test_rows_of_attention_sum_to_1():
    attention = oracle.stirred(StandardTransformer(**SIZES)).attention(oracle.numbers(2, 5, 3))
    assert attention.shape == (2, 3, 2, 6, 6)
    assert oracle.relative_error(attention.sum(-1), np.ones((2, 3, 2, 6))) < 1e-14


def test_rotation_changes_the_output():
    """The published rotary baseline rotated by head, so that its logits never changed."""
    still = oracle.stirred(StandardTransformer(**SIZES, **X_ONLY))
    turned = oracle.stirred(StandardTransformer(**SIZES, **X_ONLY, rotary=True))
    x = oracle.numbers(2, 5, 3)
    assert (still(x) - turned(x)).abs().max() > 1e-2


@pytest.mark.parametrize("short", [1, 3])
def test_a_shorter_input_is_encoded_by_the_first_rows_and_the_scratchpads(short):
    model = oracle.stirred(StandardTransformer(**SIZES))
    weights = oracle.weights_of(model)
    weights["encoding"] = weights["encoding"][[*range(short), 5]]
    x = oracle.numbers(2, short, 3)
    expected, seen = oracle.by_value(weights, x, heads=2)
    assert oracle.relative_error(model(x), expected) < oracle.ROUNDING
    assert oracle.relative_error(model.attention(x), seen) < oracle.ROUNDING


def test_an_encoding_at_call_time_equals_a_model_built_with_it():
    model = oracle.stirred(StandardTransformer(**SIZES))
    longer = torch.randn(9, 6, generator=torch.Generator().manual_seed(4)).double()
    built = StandardTransformer(**dict(SIZES, length=8), encoding=longer).double()
    built.load_state_dict(model.state_dict() | {"encoding": longer})
    x = oracle.numbers(2, 8, 3)
    assert torch.equal(model(x, encoding=longer), built(x))


def permuted_gap(**options: Any) -> float:
    """How far f(πx) is from πf(x)."""
    model = oracle.stirred(StandardTransformer(**SIZES, scratchpad=0, **options))
    x, order = oracle.numbers(2, 5, 3), torch.tensor([3, 0, 4, 1, 2])
    return oracle.relative_error(model(x[:, order]), model(x)[:, order].detach())


def test_on_x_alone_it_is_permutation_equivariant():
    assert permuted_gap(**X_ONLY) < oracle.ROUNDING


def test_with_the_encoding_in_its_input_it_is_not():
    assert permuted_gap() > 1e-2


def test_with_rotation_it_is_not():
    assert permuted_gap(**X_ONLY, rotary=True) > 1e-2
