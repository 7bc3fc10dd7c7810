"""Models that cannot be folded, in fleets: the models' values and gradients, every replica by itself."""

from typing import Any

import pytest
import torch
from torch import Tensor

from nn import oracle
from nn.fast.equality import assert_equals_the_model
from posattn import HybridTransformer, MixedPositionalTransformer, MixedStandardTransformer, StandardTransformer
from posattn.nn import RandomPlacesTransformer
from posattn.nn.fast import choose, layer_by_layer

NUMERIC: dict[str, Any] = {"length": 5, "in_dim": 2, "out_dim": 3, "embed_dim": 6, "hidden_dim": 13, "layers": 2}
MIXED: dict[str, Any] = {"length": 8, "characters": 5, "vocabulary": 13, "embed_dim": 6, "hidden_dim": 7, "layers": 2}
#: A model of every kind that goes this way.
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "hybrid": (HybridTransformer, NUMERIC),
    "rotary": (StandardTransformer, NUMERIC | {"rotary": True}),
    "rotary without P": (StandardTransformer, NUMERIC | {"rotary": True, "append_encoding": False}),
    "random places": (RandomPlacesTransformer, NUMERIC | {"length": 9}),
    "mixed positional": (MixedPositionalTransformer, MIXED),
    "mixed standard": (MixedStandardTransformer, MIXED),
    "mixed rotary": (MixedStandardTransformer, MIXED | {"rotary": True}),
}
CHOICES: list[dict[str, Any]] = [
    {},
    {"bias": False},
    {"scratchpad": 0},
    {"scratchpad": 2, "mlp_layers": 4},
    {"heads": 3},
]
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)


def fleet(kind: str, **options: Any) -> list[Any]:
    cls, sizes = KINDS[kind]
    return [oracle.stirred(cls(**sizes, **options), seed) for seed in range(2)]


def inputs_of(kind: str, *, length: int = 5) -> list[Tensor]:
    """Four samples for each of two replicas."""
    drawing = torch.Generator().manual_seed(1)
    if kind.startswith("mixed"):
        return [torch.randint(0, 13, (2, 4, 5), generator=drawing), oracle.numbers(2, 4, 3)]
    x = oracle.numbers(2, 4, length, 2)
    places = torch.rand(2, 4, 9, generator=drawing).argsort(-1)[..., :length].sort(-1).values
    return [x, places] if kind == "random places" else [x]


def form_of(sizes: Any) -> Any:
    return layer_by_layer.form(sizes, device=torch.device("cpu"), precision="float64")


def test_there_is_a_case_of_every_architecture_that_goes_this_way() -> None:
    always = {describes for describes, form in choose.FORMS.items() if form is layer_by_layer.form}
    assert {cls.describes for cls, _ in KINDS.values()} >= always
    for kind in KINDS.keys() - {"mixed positional", "mixed standard", "random places"}:  # often, these are folded
        found: Any = choose.fast_form(fleet(kind)[0].architecture, device=torch.device("cpu"), precision="float64")
        assert found.func in (layer_by_layer.numeric, layer_by_layer.mixed)


@EVERY_KIND
@pytest.mark.parametrize("options", CHOICES, ids=str)
def test_it_equals_the_model(kind: str, options: dict[str, Any]) -> None:
    models = fleet(kind, **options)
    sizes = models[0].architecture
    assert_equals_the_model(form_of(sizes), sizes, oracle.stacked(models), *inputs_of(kind))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.startswith("mixed")])
@pytest.mark.parametrize("length", [1, 3])
def test_it_equals_the_model_on_shorter_inputs(kind: str, length: int) -> None:
    models = fleet(kind)
    sizes = models[0].architecture
    assert_equals_the_model(form_of(sizes), sizes, oracle.stacked(models), *inputs_of(kind, length=length))


@pytest.mark.parametrize("kind", ["hybrid", "rotary"])
def test_it_equals_the_model_with_constants(kind: str) -> None:
    models = fleet(kind, constants="sinusoidal")
    sizes = models[0].architecture
    assert_equals_the_model(form_of(sizes), sizes, oracle.stacked(models), *inputs_of(kind))


@EVERY_KIND
def test_replicas_at_once_equal_each_by_itself(kind: str) -> None:
    models, inputs = fleet(kind), inputs_of(kind)
    together = form_of(models[0].architecture)(oracle.stacked(models), *inputs)
    for replica, model in enumerate(models):
        alone = model(*(x[replica] for x in inputs))
        assert oracle.relative_error(together[replica], alone.detach()) < oracle.ROUNDING
    assert (together[0] - together[1]).abs().max() > 0.1  # different weights, or the comparison would say nothing
