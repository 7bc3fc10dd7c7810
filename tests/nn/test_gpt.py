"""The GPT-style pair: its formula, its causality, and what its attention may see."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from posattn import GPT, PosattnError, tasks
from posattn.nn import gpt

from . import oracle

SIZES: dict[str, Any] = {"vocabulary": 7, "length": 11, "embed_dim": 15, "heads": 3, "layers": 2}
BOTH = pytest.mark.parametrize("positional", [False, True])


def tokens(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(0, 7, shape, generator=torch.Generator().manual_seed(seed))


GELUS: dict[str, Callable[[float], float]] = {
    "erf": lambda v: v * (1 + math.erf(v / math.sqrt(2))) / 2,
    "tanh": lambda v: v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))) / 2,
}
EITHER = pytest.mark.parametrize("gelu", GELUS)


def formula(w: oracle.Weights, sample: list[int], *, heads: int, positional: bool, gelu: str) -> oracle.Array:
    token = np.array([w["token_embedding"][code] for code in sample])
    place = w["position_embedding"][: len(sample)]
    state = token if positional else token + place
    for index in range(len(w["query_weight"])):
        weights = oracle.attention(w, index, place if positional else state, heads, causal=True)
        state = state + oracle.attended(w, index, state, weights)
        for i in range(len(state)):
            hidden = np.array([GELUS[gelu](v) for v in oracle.linear(w, "mlp_in", state[i], index)])
            state[i] = state[i] + oracle.linear(w, "mlp_out", hidden, index)
    return np.array([oracle.linear(w, "decoder", row) for row in state])


@BOTH
@EITHER
@pytest.mark.parametrize("length", [1, 5, 11])
def test_it_equals_the_formula(positional, length, gelu):
    model = oracle.stirred(GPT(**SIZES, positional=positional, gelu=gelu))
    batch = tokens(3, length)
    weights = oracle.weights_of(model)
    expected = [formula(weights, sample, heads=3, positional=positional, gelu=gelu) for sample in batch.tolist()]
    assert oracle.relative_error(model(batch), expected) < oracle.ROUNDING


@BOTH
def test_it_can_be_differentiated_twice(positional):
    model = oracle.stirred(GPT(vocabulary=3, length=3, embed_dim=4, heads=2, layers=1, positional=positional))
    p, batch = dict(model.named_parameters()), torch.tensor([[0, 2, 2], [1, 0, 1]])

    def output(*values: Tensor) -> Tensor:
        return torch.func.functional_call(model, dict(zip(p, values, strict=True)), (batch,))

    assert torch.autograd.gradgradcheck(output, list(p.values()), fast_mode=True)


@BOTH
def test_every_size_goes_to_its_own_axis(positional):
    model = GPT(vocabulary=13, length=17, embed_dim=22, heads=11, layers=3, positional=positional)
    shapes = oracle.shapes_of(model)
    assert shapes["token_embedding"] == (13, 22)
    assert shapes["position_embedding"] == (17, 22)
    assert shapes["query_weight"] == shapes["output_weight"] == (3, 22, 22)
    assert shapes["mlp_in_weight"] == (3, 22, 88)
    assert shapes["decoder_weight"] == (22, 13)
    assert "decoder_bias" not in shapes
    assert model(tokens(5, 7)).shape == (5, 7, 13)


@BOTH
def test_a_later_token_never_changes_an_earlier_logit(positional):
    model = oracle.stirred(GPT(**SIZES, positional=positional))
    batch = tokens(1, 11)
    before = model(batch)[0]
    for at in range(11):
        changed = batch.clone()
        changed[0, at] = (batch[0, at] + 3) % 7
        after = model(changed)[0]
        assert torch.equal(after[:at], before[:at])
        assert (after[at] - before[at]).abs().max() > 1e-3
        if at < 10:
            assert (after[at + 1 :] - before[at + 1 :]).abs().amax(1).min() > 1e-6  # and every later one sees it


@BOTH
def test_a_prefix_gives_the_same_logits_by_itself(positional):
    model = oracle.stirred(GPT(**SIZES, positional=positional))
    batch = tokens(2, 11)
    assert oracle.relative_error(model(batch[:, :4]), model(batch)[:, :4].detach()) < oracle.ROUNDING


def gradient_of_positions(positional: bool) -> Tensor:
    """How the logits of one token at nodes 0 and 1 react to the place embedding when attention sees nothing."""
    model = oracle.stirred(GPT(**SIZES, positional=positional))
    model = oracle.reweighted(model, lambda w: [w[name].zero_() for name in ("query_weight", "query_bias")])
    model(tokens(2, 5)).square().sum().backward()
    gradient: Any = model.get_parameter("position_embedding.weight").grad
    return gradient


def test_positional_positions_reach_the_logits_through_attention_alone():
    assert gradient_of_positions(positional=True).abs().max() < oracle.ROUNDING
    assert gradient_of_positions(positional=False).abs().max() > 1e-2


def test_positional_attention_does_not_depend_on_the_tokens():
    """One layer, no MLP: logits are token + A·values, so swapping two tokens' embeddings swaps what is summed."""

    def without_mlp(positional: bool) -> Any:
        model = oracle.stirred(GPT(**dict(SIZES, layers=1), positional=positional))
        return oracle.reweighted(model, lambda w: w["mlp_out_weight"].zero_())

    model, by_value = without_mlp(True), without_mlp(False)
    first, second = tokens(1, 6, seed=1), tokens(1, 6, seed=2)
    mixed = torch.cat([first[:, :3], second[:, 3:]], dim=1)
    other = torch.cat([second[:, :3], first[:, 3:]], dim=1)
    # With fixed A the model is additive over nodes: f(a‖b) + f(c‖d) = f(a‖d) + f(c‖b).
    assert oracle.relative_error(model(first) + model(second), (model(mixed) + model(other)).detach()) < oracle.ROUNDING
    gap = by_value(first) + by_value(second) - by_value(mixed) - by_value(other)
    assert gap.abs().max() > 1e-2


def test_the_defaults_fit_the_k_hop_task():
    inputs, target = tasks.get("khop").sample(3, generator=torch.Generator().manual_seed(0))
    assert GPT()(*inputs).shape == (*target.shape, 16)


@pytest.mark.parametrize("bad", [-1, 7])
def test_a_token_outside_the_vocabulary_is_named(bad):
    batch = tokens(2, 5)
    batch[1, 3] = bad
    with pytest.raises(PosattnError, match=f"token {bad} lies outside 0 … 6"):
        GPT(**SIZES)(batch)


def test_a_form_of_gelu_that_there_is_not_is_refused():
    with pytest.raises(PosattnError, match=r"unknown gelu 'tan': did you mean 'tanh'\? Known: erf, tanh"):
        GPT(**SIZES, gelu="tan")


def test_models_with_different_forms_of_gelu_are_no_family():
    assert gpt.GPTArchitecture(gelu="tanh").family() != gpt.GPTArchitecture().family()
