"""torch.export with axes of any size: one program for every batch, and for every length that the model takes."""

from typing import Any

import pytest
import torch

import posattn.nn
from posattn import PosattnError
from posattn.nn.example_inputs import inputs_of

from .test_transforms import CASES, SIZES, case, every_model

pytestmark = pytest.mark.usefixtures("as_users_run_it")  # sizes that are traced are no whole numbers to the checks


def exported(model: posattn.nn.Model, **sizes: int) -> Any:
    taken = inputs_of(model)
    inputs = taken.draw({"batch": 3} | taken.usual | sizes, torch.Generator().manual_seed(0))
    dynamic = tuple(dict.fromkeys(axes, torch.export.Dim.DYNAMIC) for axes in taken.axes)
    return torch.export.export(model, inputs, dynamic_shapes=dynamic).module()


def tried(model: posattn.nn.Model) -> list[dict[str, int]]:
    """Sizes of every axis: the smallest, some between, the usual and, where there is no end, larger ones."""
    taken = inputs_of(model)
    found = [{"batch": 1} | dict.fromkeys(taken.usual, 1), {"batch": 4} | dict.fromkeys(taken.usual, 2)]
    for more in (0, 3):
        usual = {name: min(size + more, taken.most.get(name, 99)) for name, size in taken.usual.items()}
        found.append({"batch": 2} | usual | ({"subset": 2} if "subset" in usual else {}))
    return found


@every_model
def test_one_exported_program_is_the_model_at_every_batch_and_length(name: str) -> None:
    model, _ = case(name)
    program, generator = exported(model), torch.Generator().manual_seed(1)
    for sizes in tried(model):
        inputs = inputs_of(model).draw(sizes, generator)
        torch.testing.assert_close(program(*inputs), model(*inputs), msg=lambda text, sizes=sizes: f"{sizes}: {text}")


@pytest.mark.parametrize("at", [3, 7])
@pytest.mark.parametrize("name", ["PositionalTransformer", "StandardTransformer"])
def test_a_model_of_any_length_is_exported_for_any_length_whatever_it_was_exported_at(name: str, at: int) -> None:
    model = getattr(posattn.nn, name)(**SIZES, encoding="sinusoidal", constants="parabolic", scratchpad=2).double()
    program = exported(model, length=at)
    for length in (1, 3, 4, 5, 6, 7, 8, 13):
        (x,) = inputs_of(model).draw({"batch": 2, "length": length}, torch.Generator().manual_seed(length))
        torch.testing.assert_close(program(x), model(x))


def test_a_program_refuses_a_length_that_its_model_refuses() -> None:
    model, (x,) = case("standard")
    with pytest.raises(PosattnError, match="length 6"):
        model(torch.cat([x, x[:, :1]], dim=1))
    with pytest.raises((AssertionError, RuntimeError), match="<= 5"):
        exported(model)(torch.cat([x, x[:, :1]], dim=1))


def test_inputs_are_drawn_for_every_kind_and_for_no_other_module() -> None:
    for name in CASES:
        model, given = case(name)
        drawn = inputs_of(model).draw({"batch": 3} | inputs_of(model).usual, torch.Generator().manual_seed(0))
        assert [(x.dim(), x.dtype) for x in drawn] == [(x.dim(), x.dtype) for x in given]
        model(*drawn)
    with pytest.raises(PosattnError, match="the model is a Linear"):
        inputs_of(torch.nn.Linear(1, 1))
