"""Attention looked up in tables of pairs of places: the model's values and gradients, every replica by itself."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from nn import oracle
from nn.fast.equality import assert_equals_the_model
from posattn.nn import RandomPlacesTransformer
from posattn.nn.fast import layer_by_layer
from posattn.nn.fast.random_places import MANY_NODES, folded

SIZES: dict[str, Any] = {"length": 7, "in_dim": 2, "out_dim": 3, "embed_dim": 6, "hidden_dim": 13, "layers": 3}
#: With one number and the scratchpad each, they ask for 67·2² pairs, no fewer than four times the 8² of a table.
SAMPLES = 67


def fleet(**options: Any) -> list[RandomPlacesTransformer]:
    return [oracle.stirred(RandomPlacesTransformer(**SIZES | options), seed) for seed in range(2)]


def inputs_of(*, length: int = 5, samples: int = SAMPLES, known: int = SIZES["length"]) -> tuple[Tensor, Tensor]:
    drawing = torch.Generator().manual_seed(1)
    places = torch.rand(2, samples, known, generator=drawing).argsort(-1)[..., :length].sort(-1).values
    return oracle.numbers(2, samples, length, 2), places


def refuse(*_: Any) -> Tensor:
    raise AssertionError("not by tables")


@pytest.mark.parametrize("length", [1, 5, 7])
@pytest.mark.parametrize(
    "options",
    [{}, {"bias": False}, {"scratchpad": 2, "mlp_layers": 4}, {"heads": 3}, {"heads": 1}, {"layers": 1}],
    ids=str,
)
def test_it_equals_the_model(length: int, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_by_layer, "numeric", refuse)
    models = fleet(**options)
    sizes = models[0].architecture
    assert_equals_the_model(partial(folded, sizes), sizes, oracle.stacked(models), *inputs_of(length=length))


def test_it_equals_the_model_without_a_scratchpad(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_by_layer, "numeric", refuse)
    models = fleet(scratchpad=0)
    sizes = models[0].architecture
    assert_equals_the_model(partial(folded, sizes), sizes, oracle.stacked(models), *inputs_of())


@pytest.mark.parametrize("length", [MANY_NODES - 2, MANY_NODES - 1, 19])
def test_it_equals_the_model_on_either_side_of_where_attention_lies_another_way(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the scratchpad, the first has one node too few, the second just enough."""
    monkeypatch.setattr(layer_by_layer, "numeric", refuse)
    models = fleet(length=19, heads=3)
    sizes = models[0].architecture
    inputs = inputs_of(length=length, known=19)
    assert_equals_the_model(partial(folded, sizes), sizes, oracle.stacked(models), *inputs)


@pytest.mark.parametrize(("length", "least"), [(7, 4), (5, 8), (1, 64)])
def test_tables_serve_batches_that_look_up_four_times_as_many_pairs_as_they_have(
    length: int, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """4·8² pairs: that is 4 samples of 8² pairs, not quite 8 of 6², and 64 of 2²."""
    models = fleet()
    sizes, p = models[0].architecture, oracle.stacked(models)
    few = inputs_of(length=length, samples=least - 1)
    assert_equals_the_model(partial(folded, sizes), sizes, p, *few)
    monkeypatch.setattr(layer_by_layer, "numeric", refuse)
    folded(sizes, p, *inputs_of(length=length, samples=least))
    with pytest.raises(AssertionError, match="not by tables"):
        folded(sizes, p, *few)


@pytest.mark.parametrize("place", [-1, 8])
def test_a_place_that_is_none_is_not_looked_up_in_the_table_of_another_replica(place: int) -> None:
    models = fleet()
    x, places = inputs_of()
    for replica in range(2):
        wrong = places.clone()
        wrong[replica, 3, 2] = place
        with pytest.raises(RuntimeError, match="out of bounds"):
            folded(models[0].architecture, oracle.stacked(models), x, wrong)


def test_replicas_at_once_equal_each_by_itself() -> None:
    models, inputs = fleet(), inputs_of()
    together = folded(models[0].architecture, oracle.stacked(models), *inputs)
    for replica, model in enumerate(models):
        alone = model(*(x[replica] for x in inputs))
        assert oracle.relative_error(together[replica], alone.detach()) < oracle.ROUNDING
    assert (together[0] - together[1]).abs().max() > 0.1  # different weights, or the comparison would say nothing


def test_a_replica_gets_no_gradient_from_another() -> None:
    models = fleet()
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in oracle.stacked(models).items()}
    folded(models[0].architecture, leaves, *inputs_of())[1].square().sum().backward()
    grads = {name: leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}
    assert not any(grad[0].any() for grad in grads.values())
    assert grads["query_weight"][1].any()
