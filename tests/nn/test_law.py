"""The law of a looped model's step, against its MLP one number at a time and against the model itself."""

from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from looped_models import with_slopes
from posattn.errors import PosattnError
from posattn.nn import Action, LoopedPositionalTransformer
from posattn.nn.law import SIMPLE, TOLERANCE, Law, law, snap


def made(schedule: str, *symmetry: str, seed: int = 0, **options: Any) -> LoopedPositionalTransformer:
    return LoopedPositionalTransformer(
        schedule=schedule, symmetry=symmetry, generator=torch.Generator().manual_seed(seed), **options
    )


def by_hand(model: LoopedPositionalTransformer, seen: list[Fraction], role: int) -> Fraction:
    """The MLP in fractions, written one number at a time."""
    shares = model.logits.detach().double().softmax(-1)[role, :, 1:].tolist()
    values = [sum((Fraction(s) * v for s, v in zip(head, seen, strict=True)), Fraction(0)) for head in shares]
    for place, layer in enumerate(model.layers):
        if place and not model.architecture.linear:
            values = [v if v > 0 else Fraction(0) for v in values]
        rows = layer.weight.tolist()  # type: ignore[union-attr]
        values = [sum((Fraction(w) * v for w, v in zip(row, values, strict=True)), Fraction(0)) for row in rows]
    return values[0]


@pytest.mark.parametrize(
    ("schedule", "symmetry", "roles"),
    [
        ("scan", ("scale", "shift"), 1),
        ("bitonic", ("scale", "shift"), 2),
        ("pairs", ("scale", "potential"), 1),
        ("pairs", ("scale", "shift"), 2),
        ("grid", ("scale", "potential"), 2),
    ],
)
def test_slopes_are_what_the_mlp_answers_to_plus_and_minus_one(
    schedule: str, symmetry: tuple[str, ...], roles: int
) -> None:
    model = made(schedule, *symmetry, hidden_dim=5, heads=3)
    one = Fraction(1)
    assert law(model) == Law(
        False, tuple((by_hand(model, [one], r), by_hand(model, [-one], r)) for r in range(roles)), compares=True
    )


def test_factors_of_a_linear_step_are_a_product_of_matrices() -> None:
    model = made("scan", "scale", "linear", hidden_dim=7, heads=3)
    one, none = Fraction(1), Fraction(0)
    assert law(model) == Law(True, ((by_hand(model, [one, none], 0), by_hand(model, [none, one], 0)),))


def test_the_law_is_the_step() -> None:
    model = made("bitonic", "scale", "shift", seed=3).double()
    (up0, down0), (up1, down1) = ([float(slope) for slope in role] for role in law(model).factors)
    x = torch.tensor([[[0.7], [-1.6]]], dtype=torch.float64)
    # node 0 sees −2.3 and node 1 sees 2.3
    expected = [0.7 + 2.3 * down0, -1.6 + 2.3 * up1]
    assert model(x).flatten().tolist() == pytest.approx(expected, rel=1e-14)
    assert model(x.flip(1)).flatten().tolist() == pytest.approx([-1.6 + 2.3 * up0, 0.7 + 2.3 * down1], rel=1e-14)


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_slopes_as_evaluated_are_the_floats_that_inference_uses(dtype: torch.dtype) -> None:
    """Read off the model, one node and one sign of d at a time, on pairs for which nothing is rounded.

    A step starts from the nearer candidate: where that is 0, the answer is what is left of the way, times 1 or −1.
    """
    model = with_slopes("bitonic", ("scale", "shift"), [(0.3, -0.99), (1.2, -0.45)]).to(dtype)
    for role, slopes in enumerate(law(model, evaluated=True).factors):
        for d, share in ((1.0, slopes[0]), (-1.0, -slopes[1])):
            nearer = share > Fraction(1, 2)
            own, other = (-d, 0.0) if nearer else (0.0, d)
            pair = [own, other] if role == 0 else [other, own]
            answer = model(torch.tensor(pair, dtype=dtype).reshape(1, 2, 1))[0, role, 0]
            assert Fraction(float(answer)) == (share - nearer) * int(d)
    assert law(model, evaluated=True) != law(model)


@torch.no_grad()
def test_a_step_that_chooses_returns_its_choice_as_it_is() -> None:
    """From 2²⁴ to 1 + 2⁻²³, of which a sum in float32 would keep nothing."""
    model = made("pairs", "scale", "potential", hidden_dim=1, heads=1, mlp_layers=2)
    values = {"logits": [[[-1000.0, 0.0]]], "layers.0.weight": [[-1.0]], "layers.1.weight": [[-1.0]]}
    model.load_state_dict({name: torch.tensor(value) for name, value in values.items()})
    far, short = 2.0**24, 1 + 2.0**-23
    x = torch.tensor([[0, far, 1], [far, 0, far], [far, short - 1, 0]]).reshape(1, 9, 1)
    assert model(x).reshape(3, 3)[0, 1] == short


def test_epsilon_is_the_largest_distance_from_a_simple_fraction() -> None:
    model = with_slopes("bitonic", ("scale", "shift"), [(1e-4, -1 + 2e-4), (1 - 7e-4, -3e-4)])
    found = law(model)
    assert found.snapped == ((0, -1), (1, 0))
    assert float(found.epsilon) == pytest.approx(7e-4, rel=1e-10)
    assert str(found) == "role 0: the smaller of two; role 1: the larger of two"


@settings(max_examples=60)
@given(st.fractions(-3, 3, max_denominator=10_000))
def test_a_number_snaps_to_the_fraction_of_the_smallest_denominator_that_is_near(value: Fraction) -> None:
    near = [
        Fraction(top, bottom)
        for bottom in range(1, SIMPLE + 1)
        for top in range(-4 * bottom, 4 * bottom + 1)
        if abs(Fraction(top, bottom) - value) <= TOLERANCE
    ]
    found = snap(value)
    if near:
        assert found in near
        assert found.denominator == min(one.denominator for one in near)
    else:
        assert found.denominator == 1
        assert abs(found - value) <= Fraction(1, 2)


@pytest.mark.parametrize(
    "model",
    [made("scan", "shift"), made("scan", "scale"), made("pairs", "scale"), made("scan", "scale", state_dim=3)],
    ids=["biases", "two numbers", "three numbers", "wide"],
)
def test_steps_of_more_than_two_factors_have_no_such_law(model: LoopedPositionalTransformer) -> None:
    with pytest.raises(PosattnError, match=r"two factors .* \('scale', 'shift'\)"):
        law(model)


def test_weights_that_are_not_finite_are_refused() -> None:
    model = made("scan", "scale", "shift")
    model.layers[0].weight.data[0, 0] = float("nan")  # type: ignore[union-attr, index]
    for evaluated in (False, True):
        with pytest.raises(PosattnError, match="NaN"):
            law(model, evaluated=evaluated)


def test_only_a_step_that_compares_two_is_called_the_smaller_of_them() -> None:
    own = Action(((1,), (0,), (1,)))  # d is the partner's number, and the carrier the node's own
    assert str(law(with_slopes("scan", ("scale", "shift"), [(0, -1)]))) == "role 0: the smaller of two"
    assert str(law(with_slopes("scan", ("scale", own), [(0, -1)]))) == "role 0: carrier + 0·relu(d) + -1·relu(−d)"
