"""Remark 5.1: a standard Transformer as a program with static communication computes what the model computes."""

from typing import Any

import numpy as np
import pytest
import torch

from nn.oracle import reweighted
from posattn import PosattnError, StandardTransformer
from posattn.compile import compile, run
from posattn.compile import program_json as serial
from posattn.compile.programs.simulate_standard import simulate

SIZES: list[dict[str, Any]] = [
    {"length": 1, "scratchpad": 0, "layers": 1, "heads": 1, "embed_dim": 2},
    {"length": 1, "scratchpad": 1, "layers": 2, "heads": 1, "embed_dim": 3},
    {"length": 2, "scratchpad": 2, "layers": 1, "heads": 2, "embed_dim": 4, "mlp_layers": 3},
    {"length": 3, "scratchpad": 1, "layers": 2, "heads": 3, "embed_dim": 6, "bias": False},
    {"length": 4, "scratchpad": 0, "layers": 1, "heads": 2, "embed_dim": 4, "append_encoding": False},
    {"length": 5, "scratchpad": 2, "layers": 3, "heads": 1, "embed_dim": 2, "mlp_layers": 4},
    {"length": 6, "scratchpad": 1, "layers": 2, "heads": 2, "embed_dim": 4, "in_dim": 2, "out_dim": 3},
    {"length": 6, "scratchpad": 0, "layers": 1, "heads": 1, "embed_dim": 2, "constants": "binary"},
    {"length": 3, "scratchpad": 1, "layers": 1, "heads": 1, "embed_dim": 3, "constants": "sinusoidal"}
    | {"append_encoding": False},
    {"length": 4, "scratchpad": 1, "layers": 1, "heads": 1, "embed_dim": 2, "mlp_layers": 3, "bias": False},
]


def standard(**sizes: Any) -> StandardTransformer:
    """Every weight and bias drawn anew and larger, so that attention is far from uniform and no bias is 0."""
    generator = torch.Generator().manual_seed(7)
    model = StandardTransformer(hidden_dim=5, generator=generator, **sizes)

    def redraw(weights: dict[str, torch.Tensor]) -> None:
        for name in model.architecture.parameters():
            weights[name].normal_(0.0, 1.5 if name.startswith(("query", "key")) else 0.6, generator=generator)

    return reweighted(model, redraw)


def log(n: int) -> int:
    steps = 0
    while 2**steps < n:
        steps += 1
    return steps


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_the_program_computes_what_the_model_computes(sizes):
    model = standard(**sizes).double()
    program = simulate(model)
    x = np.random.default_rng(1).normal(size=(6, sizes["length"], sizes.get("in_dim", 1)))
    with torch.no_grad():
        expected = model(torch.from_numpy(x)).numpy()
    found = run(program, x)
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= 1e-10 * np.abs(expected).max()
    single = run(program, x.astype(np.float32))
    assert single.dtype == np.float32
    assert np.abs(single - expected).max() <= 1e-4 * np.abs(expected).max()
    with torch.no_grad():
        float_model = model.float()(torch.from_numpy(x).float()).numpy()
    assert np.abs(single - float_model).max() <= 1e-4 * np.abs(float_model).max()


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_nodes_and_rounds_are_as_the_remark_has_them(sizes):
    program = simulate(standard(**sizes))
    n = sizes["length"] + sizes["scratchpad"]
    assert program.nodes == n * n + n
    assert program.length == sizes["length"]
    assert len(program.rounds) == 2 + sizes["layers"] * (3 + 2 * log(n) + sizes.get("mlp_layers", 2))
    assert program.pad is None
    assert program.outside()  # exp, product and division: refused without a fit
    with pytest.raises(PosattnError, match="cannot be compiled exactly"):
        compile(program)


def test_inputs_that_differ_by_much_do_not_overflow():
    model = standard(length=3, scratchpad=1, layers=2, heads=1, embed_dim=2).double()
    x = np.array([[[300.0], [-200.0], [1e-3]]])
    with torch.no_grad():
        expected = model(torch.from_numpy(x)).numpy()
    found = run(simulate(model), x)
    assert np.isfinite(found).all()
    assert np.abs(found - expected).max() <= 1e-10 * np.abs(expected).max()


def test_the_oracle_is_the_model():
    model = standard(length=3, scratchpad=1, layers=1, heads=1, embed_dim=2).double()
    oracle = simulate(model).oracle
    assert oracle is not None
    x = np.random.default_rng(1).normal(size=(4, 3))
    with torch.no_grad():
        expected = model(torch.from_numpy(x)[:, :, None]).numpy()
    assert np.abs(oracle(x).reshape(expected.shape) - expected).max() <= 1e-10 * np.abs(expected).max()


@pytest.mark.parametrize(
    "options", [{"length": 3, "heads": 1, "embed_dim": 2}, {"length": 4, "heads": 2, "embed_dim": 6}]
)
def test_a_rotary_model_is_simulated_too(options):
    model = standard(**options, layers=2, scratchpad=1, rotary=True).double()
    x = np.random.default_rng(3).normal(size=(6, options["length"], 1))
    with torch.no_grad():
        wanted = model(torch.from_numpy(x)).numpy()
    plain = simulate(standard(**options, layers=2, scratchpad=1))
    found = run(simulate(model), x)
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10 * np.abs(wanted).max())
    assert np.abs(run(plain, x) - wanted).max() > 1e-6 * np.abs(wanted).max()  # the turn is not for nothing


def test_a_simulation_comes_back_from_json():
    program = simulate(standard(length=2, scratchpad=1, layers=1, heads=1, embed_dim=2))
    back = serial.from_json(serial.to_json(program))
    x = np.random.default_rng(1).normal(size=(4, 2, 1))
    assert np.array_equal(run(back, x), run(program, x))
    assert str(back) == str(program)


def test_the_tiny_instance_is_lowered_whole_and_more_knots_make_it_better():
    """Three nodes, one layer."""
    generator = torch.Generator().manual_seed(0)
    model = StandardTransformer(
        length=2, scratchpad=1, embed_dim=2, hidden_dim=5, layers=1, heads=1, generator=generator
    )
    program = simulate(model)
    errors, bounds, own = [], [], []
    for knots in (5, 17, 65):
        made = compile(program, domain=1, fit=knots, dtype=torch.float64).verify(samples=40)
        found = made.certificate
        assert found is not None
        assert found.bound is not None
        assert found.holds
        assert found.error <= found.bound
        assert {name for name, _ in found.fits} == {"exp", "product", "reciprocal"}
        assert "fitted to" in str(found)
        errors.append(found.error)
        bounds.append(found.bound)
        own.append(dict(found.fits))
        # the certificate's error, against the model itself
        x = torch.empty(50, 2, 1, dtype=torch.float64).uniform_(-1, 1, generator=generator)
        with torch.no_grad():
            assert (made.model(x) - model.double()(x)).abs().max() <= 2 * found.error * 10
    assert errors[0] > 4 * errors[1] > 16 * errors[2] > 0
    assert bounds[0] > 8 * bounds[1] > 64 * bounds[2]
    for name in ("exp", "product", "reciprocal"):
        assert own[0][name] > 8 * own[1][name] > 64 * own[2][name]  # a broken line's error falls with knots²
    sizes = made.model.architecture
    assert (sizes.depth, sizes.nodes) == (2 + 3 + 2 * 2 + 2, 3 + 9 + 1)
