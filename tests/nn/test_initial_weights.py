"""First weights: the paper's choices, and what PyTorch does elsewhere."""

import math

import pytest
import torch
from torch import Tensor, nn

from posattn import (
    GPT,
    HybridTransformer,
    MixedPositionalTransformer,
    MixedStandardTransformer,
    PositionalTransformer,
    StandardTransformer,
)

SEEDED = [
    (PositionalTransformer, {"encoding": "near-orthogonal"}),
    (StandardTransformer, {"encoding": "stochastic"}),
    (HybridTransformer, {}),
    (GPT, {"layers": 1}),
    (MixedPositionalTransformer, {"layers": 1}),
    (MixedStandardTransformer, {"layers": 1}),
]


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def assert_uniform(weight: Tensor, bound: float) -> None:
    """Within ±bound, right up to it, and with a uniform's mean 0 and deviation bound/√3."""
    assert weight.abs().max() <= bound
    assert weight.abs().max() > bound * (1 - 20 / weight.numel())  # P(all closer to 0) = e^−20
    assert abs(weight.mean()) < 5 * bound / math.sqrt(3 * weight.numel())
    assert abs(weight.std() / (bound / math.sqrt(3)) - 1) < 5 / math.sqrt(weight.numel())


def assert_normal(weight: Tensor, deviation: float) -> None:
    assert abs(weight.mean()) < 5 * deviation / math.sqrt(weight.numel())
    assert abs(weight.std() / deviation - 1) < 5 / math.sqrt(2 * weight.numel())
    assert weight.abs().max() > 2.5 * deviation  # beyond any uniform of that deviation


@pytest.mark.parametrize(("model", "seen"), [(PositionalTransformer, 14), (StandardTransformer, 30)])
def test_queries_and_keys_are_xavier_uniform_as_one_stacked_matrix(model, seen):
    """All heads' [W_Q | W_K] is seen × 2·heads·seen."""
    made = model(length=13, embed_dim=30, heads=3, layers=5, generator=seeded(0))
    stacked = torch.empty(2 * 3 * seen, seen)
    bound = math.sqrt(6 / sum(stacked.shape))
    nn.init.xavier_uniform_(stacked, generator=seeded(1))
    assert_uniform(stacked, bound)
    query, key = (made.weights()[f"{name}_weight"] for name in ("query", "key"))
    assert query.shape == key.shape == (5, seen, 3 * seen)
    assert_uniform(query, bound)
    assert_uniform(key, bound)


@pytest.mark.parametrize("model", [PositionalTransformer, StandardTransformer, HybridTransformer])
def test_values_and_output_are_xavier_uniform_and_attentions_biases_zero(model):
    made = model(embed_dim=30, heads=3, layers=5, generator=seeded(0)).weights()
    for name in ("value", "output"):
        assert_uniform(made[f"{name}_weight"], math.sqrt(6 / (30 + 30)))
    for name in ("query", "key", "value", "output"):
        assert not made[f"{name}_bias"].any()


@pytest.mark.parametrize(
    ("name", "into", "out"),
    [("encoder", 70, 30), ("decoder", 30, 50), ("mlp_in", 60, 34), ("mlp_middle", 34, 34), ("mlp_out", 34, 30)],
)
def test_the_other_maps_start_as_torch_linear_does(name, into, out):
    made = PositionalTransformer(
        in_dim=70, out_dim=50, embed_dim=30, hidden_dim=34, mlp_layers=4, layers=5, generator=seeded(0)
    ).weights()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        theirs = [nn.Linear(into, out) for _ in range(10)]
    bound = 1 / math.sqrt(into)
    assert_uniform(torch.stack([linear.weight for linear in theirs]), bound)
    assert_uniform(torch.stack([linear.bias for linear in theirs]), bound)
    assert_uniform(made[f"{name}_weight"], bound)
    assert_uniform(made[f"{name}_bias"], bound)


def test_layers_heads_and_inner_maps_start_different():
    made = PositionalTransformer(mlp_layers=4, generator=seeded(0)).weights()
    query, middle = made["query_weight"], made["mlp_middle_weight"]
    assert not torch.equal(query[0], query[1])
    assert not torch.equal(query[0, :, :9], query[0, :, 9:])
    assert not torch.equal(middle[0, 0], middle[0, 1])


@pytest.mark.parametrize(("model", "options"), SEEDED)
def test_the_same_generator_state_gives_the_same_model(model, options):
    first, second = (model(**options, generator=seeded(7)).state_dict() for _ in range(2))
    other = model(**options, generator=seeded(8)).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    drawn = [name for name in first if first[name].any() and name != "encoding"]
    assert drawn
    assert not any(torch.equal(first[name], other[name]) for name in drawn)


@pytest.mark.parametrize(("model", "options"), SEEDED)
def test_a_generator_leaves_the_global_state_alone(model, options):
    before = torch.get_rng_state()
    model(**options, generator=seeded(7))
    assert torch.equal(torch.get_rng_state(), before)


def test_without_a_generator_the_global_seed_decides():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        first = PositionalTransformer(encoding="stochastic").state_dict()
        torch.manual_seed(3)
        second = PositionalTransformer(encoding="stochastic").state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_random_encodings_are_drawn_from_the_generator():
    first, second = (PositionalTransformer(encoding="near-orthogonal", generator=seeded(s)) for s in (1, 2))
    assert not torch.equal(first.get_buffer("encoding"), second.get_buffer("encoding"))


@pytest.mark.parametrize("layers", [1, 4])
def test_gpt_starts_normal_and_narrower_where_it_writes_into_the_residual(layers):
    made = GPT(layers=layers, generator=seeded(0))
    for name, parameter in made.weights().items():
        if name.endswith("_bias"):
            assert not parameter.any()
        elif name in ("output_weight", "mlp_out_weight"):
            assert_normal(parameter, 0.02 / math.sqrt(2 * layers))
        else:
            assert_normal(parameter, 0.02)


def test_mixed_embeddings_start_standard_normal():
    made = MixedStandardTransformer(generator=seeded(0)).weights()
    assert_normal(made["character_embedding"], 1.0)
    assert_normal(made["position_embedding"], 1.0)
    assert_uniform(made["encoder_weight"], 1.0)  # 1/√1: one number in
