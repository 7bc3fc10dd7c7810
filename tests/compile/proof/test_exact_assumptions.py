"""Numbers that the dtype does not hold: what a proof assumes of them has to be true of the model's own numbers."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from posattn.compile import Program, Round, absolute, call, clip, compile, maximum, positive, ramp, relu, word
from posattn.compile.interpreter import run
from posattn.compile.proof import checker

x, y, c = map(word, "xyc")


def one_node(*updates: dict, grid: float | None = None, constant: float | None = None) -> Program:
    constants = {} if constant is None else {"c": (constant,)}
    return Program(
        name="p", length=1, nodes=1, registers=("x", "y", *constants), constants=constants, grid=grid,
        rounds=tuple(Round(update=update) for update in updates),
    )  # fmt: skip


def largest_error(made, program: Program, domain: float) -> float:
    inputs = np.linspace(-domain, domain, 4001)
    if isinstance(program.grid, float):
        steps = np.floor(domain / program.grid * (1 + 1e-12))
        inputs = np.arange(-steps, steps + 1) * program.grid
    held = inputs.astype(str(next(made.model.parameters()).dtype).removeprefix("torch."))[:, None, None]
    with torch.no_grad():
        found = made.model(torch.from_numpy(held)).numpy().astype(np.longdouble)
    return float(np.abs(found - run(program, held.astype(np.longdouble))).max())


@pytest.mark.parametrize(("grid", "constant", "domain"), [(None, 0.1, 1.0), (1 / 3, 1 / 3, 30.0), (0.1, 0.3, 30.0)])
def test_a_constant_beside_its_lattice_makes_no_claim_empty(grid, constant, domain):
    program = one_node({"y": absolute(c)}, {"x": x + y}, grid=grid, constant=constant)
    made = compile(program, domain=domain)
    proof = made.prove()
    assert proof.holds
    assert largest_error(made, program, domain) <= (proof.bound or 0)
    with torch.no_grad():
        made.model.get_parameter("layers.1.mlp_out.weight").mul_(1000)
    assert largest_error(made, program, domain) > 100
    assert not made.prove().holds


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_domain_s_edge_is_an_input_on_any_grid(dtype, tmp_path):
    program = one_node({"x": positive(x - 0.2, grid=0.1)}, grid=0.1)
    made = compile(program, domain=0.3, dtype=dtype)
    assert made.prove().holds
    with torch.no_grad():
        made.model.get_parameter("layers.0.mlp_out.weight").zero_()
    assert not made.prove().holds
    made.save(tmp_path / "edge.safetensors")
    assert checker.main(str(tmp_path / "edge.safetensors")) == 1


def test_a_proof_with_an_error_beyond_its_bound_does_not_hold():
    proof = compile(one_node({"x": x + 1})).prove()
    assert proof.holds
    assert proof.bound is not None
    assert not replace(proof, found=2 * proof.bound).holds


@pytest.mark.parametrize(
    ("update", "dtype"),
    [
        (0.7 * x, torch.float32),
        (relu(x / 3), torch.float32),
        (x + 0.1 + 0.2, torch.float64),
        (0.1 * (0.1 * x), torch.float64),
        (maximum(0.1, x) + 0.5, torch.float64),
        (ramp(x - 0.1, width=1 / 3), torch.float64),
        (clip(x, low=0.1, high=0.3) * 0.7, torch.float32),
    ],
    ids=str,
)
def test_numbers_that_are_stored_together_are_part_of_the_bound(update, dtype):
    program = one_node({"x": update})
    made = compile(program, domain=2.0, dtype=dtype)
    proof = made.prove()
    assert proof.holds
    assert 0 < largest_error(made, program, 2.0) <= (proof.bound or 0)


def test_numbers_that_rounding_takes_below_0_do_not_refute_a_layer():
    assert compile(one_node({"x": relu(x + 1 / 3)}, {"x": absolute(x)}), domain=1).prove().holds


def test_a_constant_divisor_needs_no_fit():
    proof = compile(one_node({"x": x / c}, constant=4.0)).prove()
    assert proof.holds


def test_a_function_of_a_constant_is_fitted_at_one_point():
    assert compile(one_node({"x": x + call(np.sqrt, absolute(x) * 0)}), domain=1, fit=9).prove().holds
