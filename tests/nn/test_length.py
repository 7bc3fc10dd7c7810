"""Encodings that are a formula have any number of rows, and a model with one takes inputs of any length."""

from typing import Any

import pytest
import torch

from posattn import HybridTransformer, PosattnError, PositionalTransformer, StandardTransformer, encodings
from posattn.nn.fast.any_model import mapped
from posattn.nn.fast.choose import fast_form

from . import oracle

SIZES: dict[str, Any] = {"length": 5, "embed_dim": 6, "hidden_dim": 7, "layers": 2}
KINDS = [PositionalTransformer, StandardTransformer, HybridTransformer]


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("name", sorted(encodings.ENDLESS))
@pytest.mark.parametrize("rows", [1, 7, 40])
def test_more_rows_do_not_change_the_first_ones(name: str, rows: int) -> None:
    longer = encodings.make(name, rows + 23, dim=None if name == "parabolic" else 6)
    assert torch.equal(encodings.make(name, rows, dim=longer.shape[1]), longer[:rows])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("encoding", sorted(encodings.ENDLESS))
@pytest.mark.parametrize("scratchpad", [0, 2])
def test_a_longer_input_meets_the_rows_behind_the_scratchpads(kind: Any, encoding: str, scratchpad: int) -> None:
    """The same weights with the longer P given by hand: rows 0 … 4 and 5 + scratchpad …, then the scratchpad's."""
    model = oracle.stirred(kind(**SIZES, encoding=encoding, scratchpad=scratchpad, generator=generator()))
    x = oracle.numbers(3, 11, 1)
    rows = encodings.make(encoding, 11 + scratchpad, dim=model.architecture.encoding_width).double()
    by_hand = torch.cat([rows[:5], rows[5 + scratchpad :], rows[5 : 5 + scratchpad]])
    assert oracle.relative_error(model(x), model(x, encoding=by_hand).detach()) < oracle.ROUNDING


@pytest.mark.parametrize("kind", [PositionalTransformer, StandardTransformer])
@pytest.mark.parametrize("length", [2, 5, 9])
def test_fleets_compute_the_same_at_every_length(kind: Any, length: int) -> None:
    model = oracle.stirred(kind(**SIZES, encoding="sinusoidal", constants="parabolic", generator=generator()))
    x = oracle.numbers(3, length, 1)
    with torch.no_grad():
        expected = model(x)
        form = fast_form(model.architecture, device=torch.device("cpu"), precision="float64")
        for how in (form, mapped(model.architecture)):
            assert oracle.relative_error(how(model.replica(), x[None])[0], expected) < oracle.ROUNDING


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("encoding", ["one-hot", "binary", "near-orthogonal", "stochastic", torch.eye(6)])
def test_other_encodings_end_with_the_models_length(kind: Any, encoding: Any) -> None:
    model = kind(**SIZES, encoding=encoding, generator=generator())
    with pytest.raises(PosattnError, match=r"length 6 and the .* of the model 5: .* length=6, or pass a longer P"):
        model(torch.zeros(1, 6, 1))


def test_constants_that_end_end_the_model_whatever_p_is_passed() -> None:
    model = PositionalTransformer(**SIZES, encoding="sinusoidal", constants="one-hot", generator=generator())
    longer = encodings.make("sinusoidal", 7, dim=6)
    for given in (None, longer):
        with pytest.raises(PosattnError, match=r"length 6 and the one-hot constants of the model 5"):
            model(torch.zeros(1, 6, 1), encoding=given)


def test_attention_can_be_asked_for_any_length_of_an_endless_encoding() -> None:
    model = PositionalTransformer(**SIZES, encoding="sinusoidal", generator=generator())
    assert model.attention().shape == (2, 2, 6, 6)
    longer = model.attention(9)
    assert longer.shape == (2, 2, 10, 10)
    torch.testing.assert_close(longer.sum(-1), torch.ones(2, 2, 10))


@pytest.mark.parametrize("rotary", [False, True])
def test_a_model_that_does_not_read_p_has_no_longest_input(rotary: bool) -> None:
    model = StandardTransformer(**SIZES, append_encoding=False, rotary=rotary, generator=generator())
    assert model.takes_any_length
    assert model(torch.zeros(2, 9, 1)).shape == (2, 9, 1)
    assert not StandardTransformer(**SIZES, generator=generator()).takes_any_length
