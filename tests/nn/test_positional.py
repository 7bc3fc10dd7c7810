"""The positional Transformer does what its formula says."""

import math

import numpy as np
import pytest
import torch

from posattn import PositionalTransformer
from posattn.nn import Positional

from . import oracle

SIZES = oracle.SIZES


def parameter_count(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def test_it_has_84577_parameters_at_length_8():
    assert parameter_count(PositionalTransformer(length=8, layers=None)) == 84_577


def test_the_defaults_are_the_papers_sizes_at_length_8():
    assert Positional() == Positional(length=8, layers=None, heads=2, embed_dim=64, hidden_dim=64, encoding="one-hot")


@pytest.mark.parametrize("scratchpad", [0, 1, 2])
@pytest.mark.parametrize("mlp_layers", [2, 3])
@pytest.mark.parametrize("bias", [True, False])
def test_it_equals_the_formula(scratchpad, mlp_layers, bias):
    options = SIZES | {"scratchpad": scratchpad, "mlp_layers": mlp_layers, "bias": bias}
    model = oracle.stirred(PositionalTransformer(**options))
    x = oracle.numbers(2, 5, 3)
    expected, _ = oracle.positional(oracle.weights_of(model), x, heads=2, scratchpad=scratchpad)
    assert oracle.relative_error(model(x), expected) < oracle.ROUNDING


def test_every_size_goes_to_its_own_axis():
    model = PositionalTransformer(
        length=7, scratchpad=2, in_dim=3, out_dim=5, embed_dim=22, heads=11, layers=13, hidden_dim=17, mlp_layers=4
    )
    shapes = oracle.shapes_of(model)
    assert shapes["encoding"] == (9, 9)
    assert shapes["encoder_weight"] == (3, 22)
    assert shapes["query_weight"] == shapes["key_weight"] == (13, 9, 11 * 9)
    assert shapes["value_weight"] == shapes["output_weight"] == (13, 22, 22)
    assert shapes["mlp_in_weight"] == (13, 44, 17)
    assert shapes["mlp_middle_weight"] == (13, 2, 17, 17)
    assert shapes["mlp_out_weight"] == (13, 17, 22)
    assert shapes["decoder_weight"] == (22, 5)
    assert model(torch.zeros(19, 7, 3)).shape == (19, 7, 5)
    assert model.attention().shape == (13, 11, 9, 9)


@pytest.mark.parametrize("encoding", ["one-hot", "binary", "sinusoidal"])
def test_attention_is_the_softmax_of_positions_alone(encoding):
    model = oracle.stirred(PositionalTransformer(**SIZES, encoding=encoding))
    _, expected = oracle.positional(oracle.weights_of(model), oracle.numbers(1, 5, 3), heads=2)
    found = model.attention()
    assert found.shape == (3, 2, 6, 6)
    assert oracle.relative_error(found, expected) < oracle.ROUNDING
    assert oracle.relative_error(found.sum(-1), np.ones((3, 2, 6))) < 1e-14
    assert (found.amax(-1) > 2 / 6).any()  # far from uniform, or the comparison would say little


def test_logits_are_scaled_by_the_root_of_the_encodings_width():
    """Hand-made: P = I, W_Q = c·I, W_K = I, so the logits are c·I/√d_P."""

    def by_hand(w: oracle.Params) -> None:
        w["query_weight"].copy_(5.0 * torch.eye(7))
        w["key_weight"].copy_(torch.eye(7))

    model = oracle.reweighted(PositionalTransformer(length=6, heads=1, layers=1).double(), by_hand)
    peak = math.exp(5 / math.sqrt(7))
    expected = torch.full((7, 7), 1 / (peak + 6), dtype=torch.float64).fill_diagonal_(peak / (peak + 6))
    assert torch.allclose(model.attention()[0, 0], expected, rtol=1e-12, atol=0)


def test_a_query_reads_and_a_key_is_read():
    """Hand-made: node 2 asks for node 4; the other way round nothing is asked for."""

    def by_hand(w: oracle.Params) -> None:
        w["query_weight"].zero_()[0, 2, 0] = 1.0
        w["key_weight"].zero_()[0, 4, 0] = 100.0

    model = oracle.reweighted(PositionalTransformer(length=5, heads=1, layers=1).double(), by_hand)
    attention = model.attention()[0, 0]
    assert attention[2, 4] > 0.999
    assert torch.allclose(attention[4], torch.full((6,), 1 / 6, dtype=torch.float64))


@pytest.mark.parametrize("length", [*range(1, 35), 63, 64, 65, 127, 128])
def test_layers_none_means_floor_log2_of_the_length_plus_1(length):
    assert Positional(length=length, layers=None).layers == math.floor(math.log2(length)) + 1


@pytest.mark.parametrize("short", [1, 2, 4])
@pytest.mark.parametrize("scratchpad", [0, 1, 2])
def test_a_shorter_input_sees_the_first_rows_of_p_and_the_scratchpads(short, scratchpad):
    generator = torch.Generator().manual_seed(3)
    table = torch.randn(5 + scratchpad, 4, generator=generator, dtype=torch.float64)
    model = oracle.stirred(PositionalTransformer(**dict(SIZES, scratchpad=scratchpad), encoding=table))
    kept = [*range(short), *range(5, 5 + scratchpad)]
    weights = oracle.weights_of(model)
    weights["encoding"] = weights["encoding"][kept]
    x = oracle.numbers(3, short, 3)
    expected, _ = oracle.positional(weights, x, heads=2, scratchpad=scratchpad)
    assert oracle.relative_error(model(x), expected) < oracle.ROUNDING


def test_scratchpad_nodes_have_input_0():
    """A scratchpad node is a node with input 0 whose output nobody sees."""
    with_one = oracle.stirred(PositionalTransformer(**SIZES, scratchpad=1))
    without = oracle.stirred(PositionalTransformer(**dict(SIZES, length=6), scratchpad=0))
    without.load_state_dict(with_one.state_dict())
    x = oracle.numbers(4, 5, 3)
    padded = torch.cat([x, torch.zeros(4, 1, 3, dtype=torch.float64)], dim=1)
    assert torch.equal(with_one(x), without(padded)[:, :5])
    assert with_one(x).shape == (4, 5, 2)


@pytest.mark.parametrize("nodes", [3, 6, 9])
def test_an_encoding_at_call_time_equals_a_model_built_with_it(nodes):
    generator = torch.Generator().manual_seed(5)
    draw = {"encoding": "stochastic", "encoding_dim": 7, "generator": generator}
    model = oracle.stirred(PositionalTransformer(**SIZES, **draw))
    fresh = torch.randn(nodes, 7, generator=generator).double()
    built = PositionalTransformer(**dict(SIZES, length=nodes - 1), encoding=fresh).double()
    built.load_state_dict(model.state_dict() | {"encoding": fresh})
    x = oracle.numbers(2, nodes - 1, 3)
    assert torch.equal(model(x, encoding=fresh), built(x))
    if nodes == 6:
        assert not torch.allclose(model(x, encoding=fresh), model(x))


def test_an_encoding_at_call_time_leaves_the_models_own_alone():
    model = oracle.stirred(PositionalTransformer(**SIZES))
    before, x = model.get_buffer("encoding").clone(), oracle.numbers(2, 5, 3)
    usual = model(x)
    model(x, encoding=torch.rand(6, 6, dtype=torch.float64))
    assert torch.equal(model.get_buffer("encoding"), before)
    assert torch.equal(model(x), usual)


def test_nodes_are_mixed_by_attention_that_x_cannot_change():
    """With W_1's upper half 0 and no ReLU in the way, every node's output is A·values: linear in x with fixed A."""

    def linear(w: oracle.Params) -> None:
        w["mlp_in_weight"].abs_()
        w["mlp_in_weight"][:, :14] = 0
        for name in ("encoder_weight", "value_weight", "output_weight"):
            w[name].abs_()

    model = oracle.stirred(PositionalTransformer(**dict(SIZES, layers=1), bias=False))
    model = oracle.reweighted(model, linear)
    x, y = oracle.numbers(2, 5, 3, seed=1).abs(), oracle.numbers(2, 5, 3, seed=2).abs()
    assert oracle.relative_error(model(x + y), (model(x) + model(y)).detach()) < oracle.ROUNDING


def test_constants_are_appended_to_the_input_scratchpad_included():
    generator = torch.Generator().manual_seed(6)
    constants = torch.randn(6, 4, generator=generator)
    model = oracle.stirred(PositionalTransformer(**SIZES, constants=constants))
    weights = oracle.weights_of(model)
    x = oracle.numbers(2, 5, 3)
    wide = np.concatenate([np.pad(x.numpy(), ((0, 0), (0, 1), (0, 0))), np.stack([constants.numpy()] * 2)], axis=2)
    expected, _ = oracle.positional(weights, wide, heads=2, scratchpad=0)
    assert oracle.relative_error(model(x), expected[:, :5]) < oracle.ROUNDING


@pytest.mark.parametrize("constants", [None, "one-hot"])
def test_under_uniform_attention_only_constants_tell_equal_nodes_apart(constants):
    model = oracle.stirred(PositionalTransformer(**SIZES, constants=constants))
    model = oracle.reweighted(model, lambda w: [w[name].zero_() for name in ("query_weight", "query_bias")])
    y = model(torch.ones(1, 5, 3, dtype=torch.float64))[0]
    gap = (y - y[0]).abs().max()
    assert gap > 1e-3 if constants else gap < oracle.ROUNDING


def test_an_empty_batch_gives_an_empty_batch():
    assert PositionalTransformer()(torch.zeros(0, 8, 1)).shape == (0, 8, 1)
