"""Compiled models run as the formula says, at one length."""

import dataclasses

import pytest
import torch

from posattn import PosattnError
from posattn.compile import compile, library
from posattn.nn import ExactPositional, ExactPositionalTransformer, Positional, PositionalTransformer, model_of
from posattn.nn.architecture import from_json
from posattn.nn.fast.choose import fast_form
from posattn.nn.fast.positional import folded

from . import oracle

NAMES = ["sort", "cumsum", "max-subarray", "argsort", "cummedian"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", NAMES)
def test_the_forward_pass_is_that_of_a_positional_transformer_bit_for_bit(name, dtype):
    model = compile(library.get(name, 7), dtype=dtype).model
    same = model_of(Positional(**dataclasses.asdict(model.architecture)), model.weights())
    x = torch.empty(20, 7, 1, dtype=dtype).uniform_(-1000, 1000, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(model(x), same(x))


@pytest.mark.parametrize("name", NAMES)
def test_a_fleet_runs_the_formula_and_does_not_fold(name):
    made = compile(library.get(name, 7), domain=1000, dtype=torch.float64).verify(samples=4)
    x = (1000 * oracle.numbers(20, 7, 1)).clamp(-1000, 1000)
    form = fast_form(made.model.architecture, device=torch.device("cpu"), precision="float64")
    assert made.certificate is not None
    assert made.certificate.bound is not None
    with torch.no_grad():
        apart = (form(made.model.replica(), x.unsqueeze(0))[0] - made.model(x)).abs().max()
    # Both add up the formula, in some order, and each is as near the program as the bound for every order says.
    assert apart <= 2 * made.certificate.bound * 1000


def test_the_folded_form_would_lose_what_the_model_keeps():
    """The reason for the class: in a fleet, the trained kind is worse than the certificate allows."""
    exact = compile(library.get("max-subarray", 7)).model
    x = torch.empty(200, 7, 1).uniform_(-1000, 1000, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert not torch.equal(folded(exact.architecture, exact.replica(), x.unsqueeze(0))[0], exact(x))


def test_random_weights_give_what_a_positional_transformer_gives():
    exact = ExactPositionalTransformer(length=5, embed_dim=6, hidden_dim=7, layers=2)
    sizes = {field: getattr(exact.architecture, field) for field in ("length", "embed_dim", "hidden_dim", "layers")}
    same = PositionalTransformer(**sizes)
    same.load_state_dict(exact.state_dict())
    x = torch.randn(3, 5, 1)
    torch.testing.assert_close(exact(x), same(x), rtol=1e-4, atol=1e-5)
    exact(x).sum().backward()  # it can be trained further


def test_only_the_compiled_length_is_taken():
    model = compile(library.get("sort", 4)).model
    assert model(torch.zeros(2, 4, 1)).shape == (2, 4, 1)
    for length in (1, 3, 5):
        said = rf"the input has length {length} and the model was compiled for 4: load it with posattn\.compile\.load"
        with pytest.raises(PosattnError, match=said):
            model(torch.zeros(2, length, 1))
    for bad, said in ((torch.zeros(2, 4), "shape"), (torch.full((1, 4, 1), torch.nan), "nan at")):
        with pytest.raises(PosattnError, match=said):
            model.check(bad)


def test_its_description_is_of_its_own_kind():
    architecture = compile(library.get("sort", 4)).model.architecture
    assert type(from_json(architecture.to_json())) is ExactPositional
    assert from_json(architecture.to_json()) == architecture
    assert '"kind":"positional-exact"' in architecture.to_json()
    model = compile(library.get("sort", 4)).model
    assert type(model_of(architecture, model.weights())) is ExactPositionalTransformer
