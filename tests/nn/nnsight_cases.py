"""nnsight reads and changes what passes between our modules, by their names; the answer is what the formula says."""

from typing import Any

import pytest
import torch
from torch import Tensor

from .test_transforms import case

pytestmark = [
    pytest.mark.usefixtures("as_users_run_it"),
    # W_O is called `output`, which nnsight keeps for what a module gives; it is `E_output` there.
    pytest.mark.filterwarnings("ignore:.*has a submodule named 'output':UserWarning"),
]


def looked_into(model: Any) -> Any:
    from nnsight import NNsight  # after everything else: it changes torch

    return NNsight(model)


def layer_by_hand(layer: Any, x: Tensor, attention: Tensor) -> Tensor:
    """x ← MLP([x ‖ W_O·concat_h(A_h·x·W_V,h)]), head by head."""
    heads = layer.value(x).chunk(attention.shape[-3], dim=-1)
    mixed = [attention[..., head, :, :] @ values for head, values in enumerate(heads)]
    hidden = torch.cat([x, layer.output(torch.cat(mixed, dim=-1))], dim=-1)
    for linear in (layer.mlp_in, *layer.mlp_middle):
        hidden = linear(hidden).clamp(min=0)
    return layer.mlp_out(hidden)


@pytest.mark.parametrize("name", ["positional", "standard", "hybrid"])
def test_states_and_attention_are_read_by_the_names_of_layers(name: str) -> None:
    model, (x,) = case(name)
    seen = looked_into(model)
    with seen.trace(x):
        attention = seen.layers[1].attention.output.save()
        state = seen.layers[1].output.save()
        answer = seen.output.save()
    expected = model.trace(x)[2]
    assert expected.name == "layers.1"
    assert torch.equal(state, expected.state)
    assert expected.attention is not None
    assert torch.equal(attention, expected.attention)
    assert torch.equal(answer, model(x))


def test_a_head_that_is_switched_off_changes_the_answer_as_the_formula_says() -> None:
    model, (x,) = case("positional")
    seen = looked_into(model)
    with seen.trace(x):
        seen.layers[1].attention.output[0] = 0
        answer = seen.output.save()
    _, before, at, _ = model.trace(x)
    assert at.attention is not None
    without = at.attention.clone()
    without[0] = 0
    expected = model.get_submodule("decoder")(layer_by_hand(model.get_submodule("layers.1"), before.state, without))
    torch.testing.assert_close(answer, expected[:, : x.shape[1]])
    assert (answer - model(x)).abs().max() > 1e-6


def test_a_layers_state_that_is_replaced_changes_the_answer_as_the_formula_says() -> None:
    model, (x,) = case("standard")
    seen = looked_into(model)
    with seen.trace(x):
        seen.layers[0].output = 2 * seen.layers[0].output
        answer = seen.output.save()
    doubled, last = 2 * model.trace(x)[1].state, model.get_submodule("layers.1")
    attention = last.get_submodule("attention")(doubled)
    expected = model.get_submodule("decoder")(layer_by_hand(last, doubled, attention))
    torch.testing.assert_close(answer, expected[:, : x.shape[1]])
    assert (answer - model(x)).abs().max() > 1e-6
