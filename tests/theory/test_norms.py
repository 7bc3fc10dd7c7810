"""Norms against NumPy, one model at a time and a fleet at once."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posattn.nn import GPTArchitecture, Hybrid, MixedPositional, MixedStandard, Positional, Standard
from posattn.nn.architecture import Architecture
from posattn.theory import norms
from posattn.theory.norms import attends_by_value, column_norm, query_key_norm, spectral_norm


@given(st.integers(1, 7), st.integers(1, 9), st.integers(0, 2**31))
def test_norms_of_matrices_are_those_of_numpy(rows: int, columns: int, seed: int) -> None:
    weights = np.random.default_rng(seed).normal(size=(3, 2, rows, columns))
    for found, wanted in (
        (spectral_norm(torch.from_numpy(weights)), np.linalg.svd(weights, compute_uv=False)[..., 0]),
        (column_norm(torch.from_numpy(weights)), np.sqrt((weights**2).sum(-2)).sum(-1)),
    ):
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)


def test_many_matrices_are_shared_among_the_cores_and_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    weights = torch.randn(norms.SHARE * 4 + 1, 5, 3, dtype=torch.float64)
    wanted = torch.linalg.svdvals(weights)[:, 0]
    torch.testing.assert_close(spectral_norm(weights), wanted, rtol=1e-12, atol=0)


MODELS: list[Architecture] = [
    Positional(length=3, embed_dim=6, hidden_dim=5, layers=2, mlp_layers=4),
    Positional(length=3, embed_dim=6, hidden_dim=5, layers=2, bias=False),
    Standard(length=3, embed_dim=6, hidden_dim=5, layers=3, heads=3),
    Hybrid(length=3, embed_dim=6, hidden_dim=5, layers=2),
    GPTArchitecture(length=5, embed_dim=6, layers=2),
    GPTArchitecture(length=5, embed_dim=6, layers=2, positional=True),
    MixedPositional(),
    MixedStandard(),
]


def fleet(model: Architecture, count: int) -> dict[str, torch.Tensor]:
    drawn = [model.init(torch.Generator().manual_seed(seed)) for seed in range(count)]
    return {name: torch.stack([one[name] for one in drawn]) for name in drawn[0]}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.kind)
def test_a_fleets_norms_are_each_models_own_over_every_matrix_but_queries_and_keys(model: Architecture) -> None:
    stacked = fleet(model, 3)
    found = norms.norms(model, stacked)
    for replica in range(3):
        spectral, column = [], []
        for name, tensor in stacked.items():
            if not name.endswith("_weight") or name.startswith(("query", "key")):
                continue
            for matrix in tensor[replica].double().numpy().reshape(-1, *tensor.shape[-2:]):
                spectral.append(np.linalg.norm(matrix, 2))
                column.append(np.linalg.norm(matrix, axis=0).sum())
        assert found.spectral[replica].item() == pytest.approx(max(spectral), rel=1e-12)
        assert found.column[replica].item() == pytest.approx(max(column), rel=1e-12)
    assert (found.query_key is not None) == attends_by_value(model)


def test_which_models_attend_by_value() -> None:
    assert [attends_by_value(model) for model in MODELS] == [False, False, True, True, True, False, False, True]


def test_query_key_norm_bounds_how_logits_depend_on_values_and_is_reached() -> None:
    model = Standard(length=3, embed_dim=6, hidden_dim=5, layers=2, heads=3)
    p = {name: tensor.double() for name, tensor in fleet(model, 1).items()}
    logits = []
    for layer in range(2):
        query, key = (p[f"{name}_weight"][0, layer].reshape(6, 3, 6) for name in ("query", "key"))
        logits += [(query[:, head] @ key[:, head].T / 6**0.5).numpy() for head in range(3)]
    wanted = max(np.linalg.norm(matrix, 2) for matrix in logits)
    assert query_key_norm(model, p).item() == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize(("form", "named"), [("erf", "none"), ("tanh", "tanh")])
def test_gelu_slope_is_the_largest_slope_of_gelu(form: str, named: str) -> None:
    x = torch.linspace(-6, 6, 2_000_001, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(torch.nn.functional.gelu(x, approximate=named).sum(), x)
    assert slope.abs().max().item() == pytest.approx(norms.GELU_SLOPES[form], abs=1e-7)
