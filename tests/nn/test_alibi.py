"""ALiBi against the formula in NumPy, one node at a time, and the slopes of the paper."""

import numpy as np
import pytest
import torch

from posattn.nn import AlibiTransformer
from posattn.nn.alibi import slopes

from . import oracle


@pytest.mark.parametrize("length", [1, 4, 5])
@pytest.mark.parametrize(
    ("heads", "fade"), [(1, [2**-8]), (2, [2**-4, 2**-8]), (7, [2 ** (-8 * h / 7) for h in range(1, 8)])]
)
def test_outputs_and_attention_are_those_of_the_formula(length, heads, fade):
    sizes = oracle.SIZES | {"heads": heads}
    model = oracle.stirred(AlibiTransformer(**sizes, generator=torch.Generator().manual_seed(0)))
    x = oracle.numbers(3, length, 3)
    y, weights = oracle.by_value(oracle.weights_of(model), x, heads=heads, append=False, fade=fade)
    assert oracle.relative_error(model(x), y) < oracle.ROUNDING
    found = torch.stack([step.attention for step in model.trace(x) if step.attention is not None], dim=1)
    assert oracle.relative_error(found, weights) < oracle.ROUNDING


def test_eight_heads_have_the_slopes_of_the_paper():
    """Press et al. 2022, section 3: 1/2, 1/4, … 1/256 for eight heads."""
    assert slopes(8) == [1 / 2**h for h in range(1, 9)]


def test_sixteen_heads_have_the_square_roots_in_between():
    np.testing.assert_allclose(slopes(16)[:3], [2**-0.5, 2**-1.0, 2**-1.5], rtol=1e-15)


def test_longer_inputs_than_the_model_was_built_for_are_taken():
    model = AlibiTransformer(length=4, layers=1, embed_dim=4, hidden_dim=4)
    assert model.takes_any_length
    assert model(torch.zeros(1, 37, 1)).shape == (1, 37, 1)
