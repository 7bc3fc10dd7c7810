"""The hybrid Transformer (ablation M3): values and positions in queries and keys, values alone as input."""

import pytest
import torch

from posattn import HybridTransformer
from posattn.nn.fast.any_model import mapped

from . import oracle

SIZES = oracle.SIZES


@pytest.mark.parametrize("scratchpad", [0, 1, 2])
@pytest.mark.parametrize("bias", [True, False])
def test_it_equals_the_formula(scratchpad, bias):
    model = oracle.stirred(HybridTransformer(**SIZES, scratchpad=scratchpad, bias=bias))
    x = oracle.numbers(2, 5, 3)
    weights = oracle.weights_of(model)
    expected, _ = oracle.by_value(weights, x, heads=2, scratchpad=scratchpad, append=False, show=True)
    assert oracle.relative_error(model(x), expected) < oracle.ROUNDING


def test_a_shorter_input_sees_the_first_rows_of_p_and_the_scratchpads():
    model = oracle.stirred(HybridTransformer(**SIZES))
    weights = oracle.weights_of(model)
    weights["encoding"] = weights["encoding"][[0, 1, 5]]
    x = oracle.numbers(2, 2, 3)
    expected, _ = oracle.by_value(weights, x, heads=2, append=False, show=True)
    assert oracle.relative_error(model(x), expected) < oracle.ROUNDING


def test_every_size_goes_to_its_own_axis():
    model = HybridTransformer(length=5, in_dim=2, out_dim=7, embed_dim=22, heads=11, layers=3, hidden_dim=17)
    shapes = oracle.shapes_of(model)
    assert shapes["encoder_weight"] == (2, 22)
    assert shapes["query_weight"] == shapes["key_weight"] == (3, 22 + 6, 11 * (22 + 6))
    assert model(torch.zeros(13, 5, 2)).shape == (13, 5, 7)


def test_replicas_at_once_equal_each_by_itself():
    models = [oracle.stirred(HybridTransformer(**SIZES), seed) for seed in range(3)]
    x = oracle.numbers(3, 4, 5, 3)
    together = mapped(models[0].architecture)(oracle.stacked(models), x)
    for replica, model in enumerate(models):
        assert oracle.relative_error(together[replica], model(x[replica]).detach()) < oracle.ROUNDING


def test_both_values_and_positions_reach_attention():
    """Hand-made: W_Q and W_K that see only one of the two, with the other's rows set to 0."""
    x, order = oracle.numbers(2, 5, 3), torch.tensor([3, 0, 4, 1, 2])

    def blind(model: HybridTransformer, rows: slice) -> HybridTransformer:
        return oracle.reweighted(model, lambda w: [w[name][:, rows].zero_() for name in ("query_weight", "key_weight")])

    by_value = blind(oracle.stirred(HybridTransformer(**SIZES, scratchpad=0)), slice(14, None))
    by_place = blind(oracle.stirred(HybridTransformer(**SIZES, scratchpad=0, bias=False)), slice(14))
    # Values alone: equivariant. Positions alone: homogeneous without biases, and not equivariant.
    assert oracle.relative_error(by_value(x[:, order]), by_value(x)[:, order].detach()) < oracle.ROUNDING
    assert oracle.relative_error(by_place(7 * x), 7 * by_place(x).detach()) < oracle.ROUNDING
    assert oracle.relative_error(by_place(x[:, order]), by_place(x)[:, order].detach()) > 1e-2
