"""M0 … M5 are the compositions that the paper's ablation table describes."""

from typing import Any

import numpy as np
import pytest
import torch

from posattn import HybridTransformer, PosattnError, PositionalTransformer, StandardTransformer, ablation
from posattn.nn import ABLATIONS

from . import oracle

SIZES: dict[str, Any] = {"length": 5, "in_dim": 1, "embed_dim": 14, "heads": 2, "layers": 3, "hidden_dim": 11}
X = oracle.numbers(2, 5, 1)


def test_there_are_six_of_three_kinds():
    kinds = [PositionalTransformer, HybridTransformer, StandardTransformer]
    assert [kinds.index(type(ablation(name))) for name in ABLATIONS] == [2, 0, 2, 1, 2, 0]
    assert list(ABLATIONS) == ["M0", "M1", "M2", "M3", "M4", "M5"]


@pytest.mark.parametrize("name", ABLATIONS)
def test_each_equals_its_formula(name):
    model = oracle.stirred(ablation(name, **SIZES))
    weights = oracle.weights_of(model)
    if name == "M1":
        nodes = np.pad(X.numpy(), ((0, 0), (0, 1), (0, 0)))
        wide = np.concatenate([nodes, np.stack([np.eye(6)] * 2)], axis=2)
        expected = oracle.positional(weights, wide, heads=2, scratchpad=0)[0][:, :5]
    elif name == "M5":
        expected, _ = oracle.positional(weights, X, heads=2)
    else:
        rotation = oracle.turned if name == "M4" else None
        expected, _ = oracle.by_value(weights, X, heads=2, append=name == "M0", show=name == "M3", turn=rotation)
    assert oracle.relative_error(model(X), expected) < oracle.ROUNDING


@pytest.mark.parametrize(
    ("name", "input_width", "query_width"),
    [("M0", 10, 64), ("M1", 10, 9), ("M2", 1, 64), ("M3", 1, 73), ("M4", 1, 64), ("M5", 1, 9)],
)
def test_parameters_are_as_many_as_the_formula_counts(name, input_width, query_width):
    """At length 8: n + 1 = 9 nodes, embed 64, 2 heads, 4 layers."""
    queries_and_keys = 2 * (query_width + 1) * 2 * query_width
    values_and_output = 2 * (64 + 1) * 64
    mlp = (128 + 1) * 64 + (64 + 1) * 64
    expected = (input_width + 1) * 64 + 4 * (queries_and_keys + values_and_output + mlp) + (64 + 1)
    assert sum(parameter.numel() for parameter in ablation(name).parameters()) == expected


def test_m1_is_the_positional_transformer_with_p_as_constants():
    model = ablation("M1", **SIZES, generator=torch.Generator().manual_seed(0))
    by_hand = PositionalTransformer(**SIZES, constants="one-hot", generator=torch.Generator().manual_seed(0))
    assert torch.equal(model(X.float()), by_hand(X.float()))


@pytest.mark.parametrize("encoding", ["binary", "near-orthogonal", torch.eye(6)[[5, 3, 1, 0, 2, 4]]])
def test_m1_appends_the_same_p_that_its_attention_sees(encoding):
    model = ablation("M1", **SIZES, encoding=encoding, generator=torch.Generator().manual_seed(0))
    assert torch.equal(model.get_buffer("constants"), model.get_buffer("encoding"))
    assert model(X.float()).shape == X.shape


def test_m2_sees_no_position_and_the_others_do():
    """Values in another order, no scratchpad: only M2's outputs follow."""
    order = torch.tensor([3, 0, 4, 1, 2])
    gaps = {}
    for name in ABLATIONS:
        model = oracle.stirred(ablation(name, **SIZES, scratchpad=0))
        gaps[name] = oracle.relative_error(model(X[:, order]), model(X)[:, order].detach())
    assert gaps.pop("M2") < oracle.ROUNDING
    assert min(gaps.values()) > 1e-2


def test_an_unknown_ablation_is_told_the_nearest():
    with pytest.raises(PosattnError, match="unknown ablation 'M33': did you mean 'M3'"):
        ablation("M33")


@pytest.mark.parametrize("name", ABLATIONS)
def test_an_unknown_option_is_told_the_nearest(name):
    with pytest.raises(PosattnError, match=f"unknown option of ablation {name} 'lenght': did you mean 'length'"):
        ablation(name, lenght=4)


@pytest.mark.parametrize(("name", "option"), [("M1", "constants"), ("M2", "append_encoding"), ("M4", "rotary")])
def test_what_makes_an_ablation_cannot_be_overridden(name, option):
    with pytest.raises(PosattnError, match=f"{option}='x': ablation {name}"):
        ablation(name, **{option: "x"})
