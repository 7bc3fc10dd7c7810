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
from posattn.nn.fast.random_places import folded

SIZES: dict[str, Any] = {"length": 7, "in_dim": 2, "out_dim": 3, "embed_dim": 6, "hidden_dim": 13, "layers": 3}
SAMPLES = 29  # with one number and the scratchpad each, they ask for 29·2² pairs; the tables have 8²


def fleet(**options: Any) -> list[RandomPlacesTransformer]:
    return [oracle.stirred(RandomPlacesTransformer(**SIZES | options), seed) for seed in range(2)]


def inputs_of(*, length: int = 5, samples: int = SAMPLES) -> tuple[Tensor, Tensor]:
    drawing = torch.Generator().manual_seed(1)
    places = torch.rand(2, samples, SIZES["length"], generator=drawing).argsort(-1)[..., :length].sort(-1).values
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


def test_few_samples_leave_the_tables_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """With five numbers and the scratchpad a sample asks for 36 pairs: one of them for fewer than 64, two for more."""
    models = fleet()
    sizes, p = models[0].architecture, oracle.stacked(models)
    assert_equals_the_model(partial(folded, sizes), sizes, p, *inputs_of(samples=1))
    monkeypatch.setattr(layer_by_layer, "numeric", refuse)
    folded(sizes, p, *inputs_of(samples=2))
    with pytest.raises(AssertionError, match="not by tables"):
        folded(sizes, p, *inputs_of(samples=1))


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


def test_an_empty_batch_gives_an_empty_batch() -> None:
    models = fleet()
    assert folded(models[0].architecture, oracle.stacked(models), *inputs_of(samples=0)).shape == (2, 0, 5, 3)
