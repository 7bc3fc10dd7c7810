"""Lipschitz bounds against brute force over activation patterns, full Jacobians and finite differences."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nn import oracle
from posattn.compile import compile, library
from posattn.errors import PosattnError
from posattn.nn import PositionalTransformer, StandardTransformer
from posattn.theory import lipschitz
from posattn.theory.lipschitz import lower, upper


def tiny(seed: int = 0, **options: object) -> PositionalTransformer:
    sizes = {"length": 2, "scratchpad": 1, "embed_dim": 2, "heads": 1, "hidden_dim": 2, "layers": 2} | options
    model = PositionalTransformer(**sizes, generator=torch.Generator().manual_seed(seed)).double()  # type: ignore[arg-type]
    for parameter in model.parameters():
        parameter.data.mul_(1.7)
    return model


def operators(model: PositionalTransformer) -> list[np.ndarray]:
    """The linear maps between ReLUs as whole matrices, from its weights and attention."""
    sizes, p = model.architecture, {name: t.detach() for name, t in model.replica().items()}
    attention = model.attention().detach().numpy()

    def weight(name: str, layer: int) -> np.ndarray:
        return p[f"{name}_weight"][0, layer].numpy()

    maps: list[np.ndarray] = []
    before = np.kron(np.eye(sizes.nodes)[:, : sizes.length], p["encoder_weight"][0].numpy().T)
    for layer in range(sizes.depth):
        values = weight("value", layer)
        width = sizes.embed_dim // sizes.heads
        read = sum(
            np.kron(
                attention[layer, head],
                (
                    values[:, head * width : (head + 1) * width]
                    @ weight("output", layer)[head * width : (head + 1) * width]
                ).T,
            )
            for head in range(sizes.heads)
        )
        own, lower_half = np.split(weight("mlp_in", layer), 2)
        eye = np.eye(sizes.nodes)
        maps.append((np.kron(eye, own.T) + np.kron(eye, lower_half.T) @ read) @ before)
        before = np.kron(eye, weight("mlp_out", layer).T)
    out = np.kron(np.eye(sizes.nodes)[: sizes.length], p["decoder_weight"][0].numpy().T)
    return [*maps, out @ before]


def test_factors_are_the_norms_of_the_maps_between_relus() -> None:
    for options in ({}, {"heads": 2, "bias": False}, {"length": 4, "layers": 3}):
        model = tiny(**options)
        found = upper(model)
        norms = [np.linalg.norm(matrix, 2) for matrix in operators(model)]
        assert [*found.layers, found.decoder] == pytest.approx(norms, rel=1e-8)
        assert found.bound == pytest.approx(np.prod(norms), rel=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_between_the_bounds_lies_the_largest_slope_of_any_activation_pattern(seed: int) -> None:
    model = tiny(seed, layers=1)
    first, last = operators(model)
    patterns = itertools.product([0.0, 1.0], repeat=first.shape[0])
    steepest = max(np.linalg.norm(last @ np.diag(pattern) @ first, 2) for pattern in patterns)
    assert lower(model, generator=torch.Generator().manual_seed(1)).bound <= steepest * (1 + 1e-9)
    assert steepest <= upper(model).bound


@pytest.mark.parametrize(
    "options", [{}, {"layers": 3, "mlp_layers": 3, "length": 3, "heads": 2, "embed_dim": 4}], ids=str
)
def test_the_lower_bound_is_the_norm_of_the_jacobian_where_it_says(options: dict[str, int]) -> None:
    model = tiny(5, **options)
    found = lower(model, generator=torch.Generator().manual_seed(0))
    jacobian = torch.autograd.functional.jacobian(lambda x: model(x[None])[0], found.at)
    assert isinstance(jacobian, torch.Tensor)
    side = found.at.numel()
    wanted = torch.linalg.matrix_norm(jacobian.reshape(-1, side), 2).item()
    assert found.bound <= wanted * (1 + 1e-9)
    assert found.bound >= wanted * 0.999
    assert found.bound <= upper(model).bound


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.floats(1e-4, 1e4))
def test_no_two_inputs_move_outputs_further_apart_than_the_upper_bound_says(seed: int, scale: float) -> None:
    model = tiny(seed % 5)
    generator = torch.Generator().manual_seed(seed)
    x, y = (scale * torch.randn(1, 2, 1, dtype=torch.float64, generator=generator) for _ in range(2))
    with torch.no_grad():
        moved = (model(x) - model(y)).norm().item()
    assert moved <= upper(model).bound * (x - y).norm().item() * (1 + 1e-9)


def test_too_large_matrices_are_bounded_by_their_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny(heads=2)
    exact = upper(model)
    monkeypatch.setattr(lipschitz, "LARGEST", 1)
    parts = upper(model)
    assert parts.bound >= exact.bound
    assert all(loose >= tight for loose, tight in zip(parts.layers, exact.layers, strict=True))


def test_constants_do_not_count_as_inputs() -> None:
    model = tiny(constants=torch.eye(3, dtype=torch.float64)[:, :2].float())
    assert upper(model).layers[0] == pytest.approx(np.linalg.norm(_first(model), 2), rel=1e-8)


def _first(model: PositionalTransformer) -> np.ndarray:
    p = {name: t.detach() for name, t in model.weights().items()}
    x = torch.zeros(2, 2, 1, dtype=torch.float64)
    x[0, 0], x[1, 1] = 1.0, 1.0

    def pre(batch: torch.Tensor) -> np.ndarray:
        nodes = torch.cat([torch.nn.functional.pad(batch, (0, 0, 0, 1)), p["constants"].expand(2, -1, -1)], dim=-1)
        state = nodes @ p["encoder_weight"]
        read = model.attention().detach()[0, 0] @ (state @ p["value_weight"][0]) @ p["output_weight"][0]
        return (torch.cat([state, read], -1) @ p["mlp_in_weight"][0]).flatten(1).numpy()

    return (pre(x) - pre(torch.zeros_like(x))).T


def test_attention_that_sees_values_has_no_bound_and_its_slope_grows_with_the_range() -> None:
    generator = torch.Generator().manual_seed(3)
    model = StandardTransformer(length=2, embed_dim=4, hidden_dim=4, layers=1, heads=1, generator=generator).double()
    with pytest.raises(PosattnError, match="slope grows"):
        upper(model)
    for parameter in model.parameters():
        parameter.data.mul_(3)
    near = lower(model, scale=0.1, generator=torch.Generator().manual_seed(0)).bound
    far = lower(model, scale=20.0, starts=64, generator=torch.Generator().manual_seed(0)).bound
    assert far > 2 * near


def test_a_compiled_programs_slope_is_its_functions() -> None:
    model = compile(library.get("cumsum", 4)).model
    steepest = np.linalg.norm(np.tril(np.ones((4, 4))), 2)
    assert lower(model, generator=torch.Generator().manual_seed(0)).bound == pytest.approx(steepest, rel=1e-3)
    assert upper(model).bound >= steepest


@pytest.mark.parametrize(
    ("options", "words"),
    [({"starts": 0}, "starts=0"), ({"rounds": 0}, "rounds=0"), ({"scale": 0.0}, "scale=0.0")],
)
def test_bad_input_is_one_clear_error(options: dict[str, float], words: str) -> None:
    with pytest.raises(PosattnError, match=words):
        lower(tiny(), generator=torch.Generator(), **options)  # type: ignore[arg-type]


def test_every_map_of_a_deeper_mlp_counts() -> None:
    model = tiny(mlp_layers=4)
    before = upper(model)
    after = upper(oracle.reweighted(model, lambda w: w["mlp_middle_weight"].mul_(10)))
    assert after.layers == pytest.approx([100 * factor for factor in before.layers], rel=1e-9)
