"""symmetry=("scale", "shift"): f(c·x + t) = c·f(x) + t, for whatever weights."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posattn import PositionalTransformer
from posattn.errors import PosattnError
from posattn.nn import MixedPositional, Positional, RandomPlaces, load
from posattn.nn.fast.any_model import mapped
from posattn.nn.fast.choose import fast_form

from . import oracle

SYMMETRIES = [("scale", "shift"), ("shift",)]
SIZES = [{}, {"mlp_layers": 3, "scratchpad": 0, "heads": 4, "embed_dim": 8, "hidden_dim": 6}, {"scratchpad": 2}]


def drawn(symmetry: tuple[str, ...] = ("scale", "shift"), **sizes: int) -> PositionalTransformer:
    options: dict[str, Any] = {"layers": 3, "embed_dim": 8, "hidden_dim": 8} | sizes
    model = PositionalTransformer(symmetry=symmetry, **options, generator=torch.Generator().manual_seed(0))
    return oracle.stirred(model).double()


def whole_numbers(seed: int) -> torch.Tensor:
    """Multiples of 1/1024 in [−2, 2], to which whole numbers can be added without rounding."""
    return torch.randint(-2048, 2049, (4, 8, 1), generator=torch.Generator().manual_seed(seed)).double() / 1024


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("symmetry", SYMMETRIES)
@given(shift=st.integers(-(2**30), 2**30), seed=st.integers(0, 99))
@settings(max_examples=15, deadline=None, derandomize=True)
def test_a_shift_of_the_input_shifts_the_answer_but_for_the_last_sum(symmetry, sizes, shift, seed):
    """All that is computed between is the same, bit for bit; x + t is exact here, and one sum is rounded at the end."""
    model, x = drawn(symmetry, **sizes), whole_numbers(seed)
    with torch.no_grad():
        plain, moved = model(x), model(x + shift)
    rounded = torch.finfo(x.dtype).eps * (plain.abs() + moved.abs() + abs(shift))
    assert ((moved - (plain + shift)).abs() <= rounded).all()


@given(power=st.integers(-60, 60), shift=st.integers(-(2**20), 2**20), seed=st.integers(0, 99))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_powers_of_two_are_exact(power, shift, seed):
    model, x = drawn(), whole_numbers(seed) + shift
    with torch.no_grad():
        assert torch.equal(model(x * 2.0**power), model(x) * 2.0**power)


def stretch(model: PositionalTransformer) -> float:
    """What a model multiplies the largest difference of two inputs with, at most: norms of its maps, layer by layer."""
    w = {
        name: tensor.detach().abs().sum(-2).amax(-1)
        for name, tensor in model.weights().items()
        if name.endswith("_weight")
    }
    seen = (w["value_weight"] * w["output_weight"]).clamp(min=2)  # a difference of carriers may double
    return float((1 + w["mlp_out_weight"] * w["mlp_in_weight"] * seen).prod())


@given(c=st.floats(1e-6, 1e6), shift=st.floats(-1e3, 1e3), seed=st.integers(0, 99))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_other_scales_and_shifts_cost_what_rounding_costs(c, shift, seed):
    """The input is rounded once, and three layers of five sums of up to 32 products each: 2 + 3·5·32 roundings."""
    model, x = drawn(), whole_numbers(seed)
    with torch.no_grad():
        moved, plain = model(c * x + shift), model(x)
    bound = (2 + 3 * 5 * 32) * torch.finfo(x.dtype).eps * stretch(model) * (2 * c + abs(shift))
    assert (moved - (c * plain + shift)).abs().max() <= bound


def test_without_the_symmetry_it_does_not_hold():
    model = oracle.stirred(PositionalTransformer(symmetry="scale", generator=torch.Generator().manual_seed(0))).double()
    x = whole_numbers(0)
    assert (model(x + 5) - model(x) - 5).abs().max() > 0.1


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("symmetry", SYMMETRIES)
def test_the_forward_pass_is_the_formula(symmetry, sizes):
    """In NumPy, node by node, as the module's docstring has it."""
    model = drawn(symmetry, **sizes)
    x, w, heads = (
        whole_numbers(1)[:1],
        {n: t.detach().numpy() for n, t in model.weights().items()},
        model.architecture.heads,
    )
    length, embed = 8, model.architecture.embed_dim
    numbers = [float(v) for v in x.flatten()]
    carrier = np.array(numbers + [sum(numbers) / length] * model.architecture.scratchpad)
    z = np.zeros((len(carrier), embed))
    attention = model.attention().detach().numpy()

    def affine(name, value, layer):
        return value @ w[f"{name}_weight"][layer] + (w[f"{name}_bias"][layer] if f"{name}_bias" in w else 0)

    for layer in range(3):
        values = affine("value", z, layer)
        each = np.split(values, heads, axis=1)
        attended = affine(
            "output", np.concatenate([a @ v for a, v in zip(attention[layer], each, strict=True)], 1), layer
        )
        read = np.stack([a @ carrier - carrier for a in attention[layer]], axis=1)
        hidden = np.maximum(affine("mlp_in", np.concatenate([z, attended, read], 1), layer), 0)
        for inner in range(model.architecture.mlp_layers - 2):
            hidden = hidden @ w["mlp_middle_weight"][layer, inner]
            hidden = np.maximum(hidden + (w["mlp_middle_bias"][layer, inner] if "mlp_middle_bias" in w else 0), 0)
        step = affine("mlp_out", hidden, layer)
        carrier, z = carrier + step[:, 0], step[:, 1:]
    found = model(x).detach().flatten().numpy()
    np.testing.assert_allclose(found, carrier[:length], rtol=0, atol=1e-12 * max(1.0, np.abs(carrier).max()))


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("symmetry", SYMMETRIES)
def test_fleets_compute_the_same_function_and_gradients(symmetry, sizes):
    """In float64, up to rounding: errors of 1e-16 relative to sums of a few hundred products."""
    architecture = Positional(symmetry=symmetry, layers=2, **({"embed_dim": 8, "hidden_dim": 8} | sizes))
    generator = torch.Generator().manual_seed(1)
    drawn = [architecture.init(generator) for _ in range(3)]
    learned = [name for name in drawn[0] if name != "encoding"]
    p = {name: torch.stack([one[name] for one in drawn]).double() for name in drawn[0]}
    for name in learned:
        p[name] = (p[name] + 0.3 * torch.randn(p[name].shape, generator=generator)).requires_grad_()
    x = torch.randn(3, 5, 8, 1, generator=generator).double() + 7
    fast, own = fast_form(architecture, device=torch.device("cpu"), precision="float32"), mapped(architecture)
    weights = torch.randn(3, 5, 8, 1, generator=generator).double()
    answers = [form(p, x) for form in (fast, own)]
    torch.testing.assert_close(*answers, rtol=1e-12, atol=1e-12)
    fast_grads, own_grads = (
        torch.autograd.grad((answer * weights).sum(), [p[name] for name in learned]) for answer in answers
    )
    for one, other in zip(fast_grads, own_grads, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def test_older_spellings_are_the_same_model():
    assert Positional(bias=False) == Positional(symmetry=("scale",)) == Positional(symmetry="scale")
    assert "symmetry" not in Positional(bias=False).to_json()
    assert Positional(bias=False).changed(bias=True) == Positional() == Positional(symmetry=())
    assert Positional().changed(symmetry=("scale",)) == Positional(bias=False)
    assert Positional(bias=False).symmetries == ("scale",)
    assert RandomPlaces(symmetry="scale") == RandomPlaces(bias=False)


def test_a_saved_model_comes_back(tmp_path):
    model = drawn()
    model.save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    assert again.architecture == model.architecture
    assert torch.equal(again(whole_numbers(0)), model(whole_numbers(0)))


def test_the_trace_ends_in_the_answer():
    model, x = drawn(), whole_numbers(0)
    steps = model.trace(x)
    assert torch.equal(steps[-1].state, model(x))
    assert len(steps) == 5  # what enters, three layers, what leaves


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"symmetry": ("scale", "potential")}, "LoopedPositionalTransformer"),
        ({"symmetry": ("scale", "scale")}, "named twice"),
        ({"symmetry": "sale"}, "scale"),
        ({"symmetry": ("shift",), "in_dim": 2}, "in_dim=2"),
        ({"symmetry": ("shift",), "bias": False}, "Name it"),
        ({"symmetry": ("scale",), "constants": "one-hot"}, "constants"),
    ],
)
def test_what_cannot_be_is_said(options, said):
    with pytest.raises(PosattnError, match=said):
        PositionalTransformer(**options)


def test_kinds_have_symmetries_of_their_own():
    with pytest.raises(PosattnError, match="can have scale"):
        RandomPlaces(symmetry=("shift",))
    with pytest.raises(PosattnError, match="can have none"):
        MixedPositional(symmetry=("scale",))


def test_a_model_with_a_carrier_is_not_hardened():
    with pytest.raises(PosattnError, match="shift"):
        drawn().harden()
