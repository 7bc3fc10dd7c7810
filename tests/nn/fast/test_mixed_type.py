"""The mixed-type pair, folded and read at node 0: the models' values and gradients, every replica by itself."""

from typing import Any

import pytest
import torch
from torch import Tensor

from nn import oracle
from nn.fast.equality import assert_equals_the_model
from posattn import MixedPositionalTransformer, MixedStandardTransformer
from posattn.nn.fast import layer_by_layer, mixed_type

SIZES: dict[str, Any] = {"length": 8, "characters": 5, "vocabulary": 13, "embed_dim": 6, "hidden_dim": 7}
KINDS = pytest.mark.parametrize("cls", [MixedPositionalTransformer, MixedStandardTransformer])


def inputs() -> list[Tensor]:
    drawing = torch.Generator().manual_seed(1)
    return [torch.randint(0, 13, (2, 4, 5), generator=drawing), oracle.numbers(2, 4, 3)]


@KINDS
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize(
    "options",
    [{}, {"bias": False}, {"scratchpad": 0}, {"scratchpad": 2, "mlp_layers": 4}, {"heads": 3}, {"hidden_dim": 40}],
    ids=str,
)
def test_the_folded_form_equals_the_model(cls: Any, layers: int, options: dict[str, Any]) -> None:
    models = [oracle.stirred(cls(**SIZES | {"layers": layers} | options), seed) for seed in range(2)]
    form = mixed_type.form(models[0].architecture, device=torch.device("cpu"), precision="float64")
    assert_equals_the_model(form, models[0].architecture, oracle.stacked(models), *inputs())


@KINDS
def test_other_nodes_than_node_0_are_read_and_not_computed(cls: Any) -> None:
    """What the last layer would give for the other nodes takes no part: a character still does."""
    model = oracle.stirred(cls(**SIZES, layers=1))
    form = mixed_type.form(model.architecture, device=torch.device("cpu"), precision="float64")
    (characters, numbers), p = (x[:1] for x in inputs()), model.replica()
    other = characters.clone()
    other[0, 0, 4] = (other[0, 0, 4] + 1) % 13
    assert not torch.allclose(form(p, characters, numbers)[0, 0], form(p, other, numbers)[0, 0])


def test_what_cannot_be_folded_goes_layer_by_layer() -> None:
    rotary = MixedStandardTransformer(**SIZES, layers=2, rotary=True).architecture
    form: Any = mixed_type.form(rotary, device=torch.device("cpu"), precision="float32")
    assert form.func is layer_by_layer.mixed
