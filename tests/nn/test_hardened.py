"""Hardening: reads in place of attention, with the same output to the last bit."""

from typing import Any

import pytest
import torch

from posattn import PosattnError, PositionalTransformer
from posattn.compile import compile, library
from posattn.nn.hardened import HardenedTransformer, selected

from . import oracle

BITS = {torch.float32: torch.int32, torch.float64: torch.int64}
CASES = [
    *((name, length, {}) for name in library.PROGRAMS for length in (1, 4, 7) if (name, length) != ("fetch", 7)),
    ("sort", 32, {}),
    ("cumsum", 33, {}),
    ("fetch", 3, {"route": "grid"}),
    ("permute", 11, {"route": "direct"}),
]


@pytest.mark.parametrize("dtype", BITS)
@pytest.mark.parametrize(("name", "length", "options"), CASES)
def test_a_hardened_model_gives_the_same_bits(name, length, options, dtype):
    made = compile(library.get(name, length, **options), dtype=dtype)
    generator = torch.Generator().manual_seed(length)
    x = torch.empty(12, length, made.model.architecture.in_dim, dtype=dtype).uniform_(-1000, 1000, generator=generator)
    x[3:6] = x[3:6].round()
    x[6] = 0.0
    x[7] = -0.0
    hard = made.model.harden()
    assert isinstance(hard, HardenedTransformer)
    with torch.no_grad():
        dense = made.model(x)
    assert torch.equal(hard(x).view(BITS[dtype]), dense.view(BITS[dtype]))
    assert made.harden().hardened is not None


def test_reads_are_where_attention_is_one():
    model = compile(library.get("cumsum", 5)).model
    hard = model.harden()
    attention = model.attention().detach()
    assert hard.reads.shape == attention.shape[:3]
    assert torch.equal(torch.nn.functional.one_hot(hard.reads, attention.shape[3]).float(), attention)
    # round r adds what is 2^r to the left; who has nobody there reads the sink, the node after the last
    expected = [[i - shift if i >= shift else 5 for i in range(5)] for shift in (1, 2, 4)]
    assert hard.reads[:, 0, :5].tolist() == expected


def test_biases_heads_and_more_maps_are_part_of_it():
    """Saturated attention with learned everything else: the rest of the model is used whole."""
    generator = torch.Generator().manual_seed(3)
    model = PositionalTransformer(
        length=5, embed_dim=6, hidden_dim=7, layers=3, heads=3, mlp_layers=4, in_dim=2, out_dim=2
    )

    def saturate(w: oracle.Params) -> None:
        w["key_weight"].copy_(torch.eye(6).repeat(3, 1, 3))
        for layer in range(3):
            for head in range(3):
                order = torch.randperm(6, generator=generator)
                w["query_weight"][layer, :, 6 * head : 6 * head + 6] = 4096 * torch.eye(6)[order]
        for name in ("query_bias", "key_bias"):
            w[name].zero_()

    model = oracle.reweighted(model, saturate)
    x = torch.randn(4, 5, 2, generator=generator)
    assert torch.equal(model.harden()(x), model(x))
    with pytest.raises(
        PosattnError, match="the input has length 4: a hardened model has the one it was hardened at, 5"
    ):
        model.harden()(x[:, :4])


def test_a_model_with_spread_attention_is_refused_with_the_place():
    model = PositionalTransformer(length=3, layers=2, generator=torch.Generator().manual_seed(0))
    with pytest.raises(PosattnError, match=r"layer 0, head 0: node 0 reads 4 nodes, the most with weight 0\.\d+"):
        model.harden()


@pytest.mark.parametrize(("layer", "head", "node"), [(0, 0, 0), (1, 2, 3), (2, 1, 4)])
def test_the_first_node_that_reads_several_is_named(layer, head, node):
    attention = torch.eye(5).repeat(3, 3, 1, 1)
    assert torch.equal(selected(attention), torch.arange(5).expand(3, 3, 5))
    for row in ([0.5, 0.5, 0, 0, 0], [1.0, 1e-30, 0, 0, 0], [0.0] * 5, [torch.nan] * 5, [0.9, 0, 0, 0, 0]):
        spread = attention.clone()
        spread[layer, head, node] = torch.tensor(row)
        with pytest.raises(PosattnError, match=rf"layer {layer}, head {head}: node {node} reads"):
            selected(spread)


@pytest.mark.usefixtures("as_users_run_it")
def test_bad_input_is_refused_as_by_the_model():
    hard = compile(library.get("sort", 4)).model.harden()
    given: tuple[Any, ...] = (
        torch.zeros(1, 3, 1),
        torch.zeros(1, 5, 1),
        torch.full((1, 4, 1), torch.inf),
        torch.zeros(1, 4, 1).double(),
        [[[0.0]]],
    )
    for x in given:
        with pytest.raises(PosattnError):
            hard(x)
