"""A looped standard Transformer is the rotary one whose layers are all the same, as many as the length asks for."""

from typing import Any

import pytest
import torch
from torch import Tensor

from posattn.errors import PosattnError
from posattn.nn import LoopedStandard, LoopedStandardTransformer, StandardTransformer

from . import oracle

SIZES: dict[str, Any] = {"embed_dim": 6, "hidden_dim": 7, "heads": 3}


def looped(**options: Any) -> LoopedStandardTransformer:
    return oracle.stirred(LoopedStandardTransformer(**SIZES, **options, generator=torch.Generator().manual_seed(0)))


def unrolled(model: LoopedStandardTransformer, layers: int, x: Tensor) -> Tensor:
    """The rotary Transformer with so many copies of the layer."""
    other = StandardTransformer(**SIZES, length=99, layers=layers, rotary=True, append_encoding=False).double()
    held = {name: value for name, value in model.state_dict().items() if name != "encoding"}
    for name, value in model.state_dict().items():
        if name.startswith("layers.0."):
            held |= {name.replace("layers.0.", f"layers.{layer}."): value for layer in range(layers)}
    other.load_state_dict(held | {"encoding": other.get_buffer("encoding")})
    return other(x)


@pytest.mark.parametrize(("length", "layers"), [(1, 1), (2, 2), (3, 3), (4, 3), (5, 4), (8, 4), (9, 5), (64, 7)])
def test_it_is_the_rotary_model_with_equal_layers_and_their_number_grows_with_the_length(length, layers):
    model, x = looped(), oracle.numbers(2, length, 1)
    torch.testing.assert_close(model(x), unrolled(model, layers, x), rtol=1e-9, atol=1e-10)


def test_every_gives_the_answers_after_each_iteration_but_the_first():
    model, x = looped(), oracle.numbers(2, 8, 1)
    expected = torch.cat([unrolled(model, layers, x) for layers in (2, 3, 4)], dim=-1)
    torch.testing.assert_close(model(x, every=True), expected, rtol=1e-9, atol=1e-10)


def test_a_list_of_one_number_has_one_answer():
    assert looped()(oracle.numbers(2, 1, 1), every=True).shape == (2, 1, 1)


def test_several_layers_are_refused():
    with pytest.raises(PosattnError, match="layers=2: one layer is shared"):
        LoopedStandard(layers=2)
    with pytest.raises(PosattnError, match="embed_dim=5: rotary"):
        LoopedStandard(embed_dim=5, heads=1)
