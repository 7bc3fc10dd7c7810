"""Inputs with a range and a grid each: every analysis, check and test input keeps to them."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from posattn import PosattnError
from posattn.compile import Certificate, Program, Round, compile, gate, library, load, maximum, positive, run, word
from posattn.compile import program_json as serial
from posattn.compile.verify_inputs import adversarial_inputs, climbed_inputs, exhaustive_inputs, random_inputs

x, flag = word("x"), word("flag")


def gated(**changed) -> Program:
    """x where the flag, a whole number, is at most 0."""
    held: dict[str, Any] = {
        "name": "gated", "length": 3, "nodes": 3, "registers": ("x", "flag"), "inputs": ("x", "flag"),
        "rounds": (Round(update={"x": gate(x, shut=positive(flag))}),), "grid": {"flag": 1}, "pad": 1.0,
    }  # fmt: skip
    return Program(**(held | changed))


DOMAIN = {"x": 1000.0, "flag": 1.0}


def test_a_grid_for_one_input_leaves_the_other_free():
    made = compile(gated(), domain=DOMAIN).verify(samples=32)
    assert made.certificate is not None
    assert made.certificate.holds
    assert made.certificate.relative_to == "the domain"
    numbers = torch.tensor([[[0.125, 1.0], [999.9, 0.0], [-3.3, -1.0]]])
    assert made(numbers)[0, :, 0].tolist() == [0.0, np.float32(999.9), np.float32(-3.3)]
    with pytest.raises(PosattnError, match=r"which can be any number"):
        compile(gated(grid={"x": 1}), domain=DOMAIN)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ([1001.0, 0.0], "1001 .* lies outside ±1000"),
        ([0.0, 2.0], "2 .* lies outside ±1,"),
        ([0.5, 0.5], "0.5 .* is not a multiple of 1"),
    ],
)
def test_every_input_is_held_to_its_own_range_and_grid(row, said):
    made = compile(gated(), domain=DOMAIN)
    with pytest.raises(PosattnError, match=said):
        made(torch.tensor([[row] * 3]))


def test_a_small_range_makes_small_gates():
    """A gate is as large as what it shuts: with one range for all, the flag's gate would be 1000 times as large."""
    shut = gated(rounds=(Round(update={"x": gate(flag, shut=positive(flag))}),))
    both = [compile(shut, domain=domain).model.state_dict() for domain in (DOMAIN, 1000.0)]
    small, large = (max(float(tensor.abs().max()) for name, tensor in held.items() if "mlp" in name) for held in both)
    assert small <= 4
    assert large >= 1000


def test_the_bound_is_that_of_the_box_of_inputs():
    added = Program(
        name="sum", length=2, nodes=2, registers=("x", "y"), inputs=("x", "y"),
        rounds=(Round(update={"x": x + word("y")}),),
    )  # fmt: skip
    one, two = (compile(added, domain=domain).verify(samples=64).certificate for domain in (8.0, {"x": 8.0, "y": 0.5}))
    assert one is not None
    assert two is not None
    assert (one.relative_to, two.relative_to) == ("the largest input", "the domain")
    # one rounding of a sum of two: u·|sum|
    assert one.bound == pytest.approx(2.0**-24 * 16 / 8, rel=0.01)
    assert two.bound == pytest.approx(2.0**-24 * 8.5 / 8, rel=0.01)
    assert two.holds
    assert two.bound is not None
    assert 0 < two.error <= two.bound


@pytest.mark.parametrize("grid", [{"flag": 1.0}, {"x": 0.5, "flag": 1.0}, None])
def test_every_input_that_is_tried_lies_in_its_range_and_on_its_grid(grid):
    program = gated(grid=grid, rounds=(Round(update={"x": maximum(x, flag)}),))
    rng = np.random.default_rng(0)
    tried = [
        random_inputs(program, DOMAIN, 40, rng),
        adversarial_inputs(program, DOMAIN, rng),
        exhaustive_inputs(program, DOMAIN),
    ]
    tried.append(climbed_inputs(program, DOMAIN, tried[0][:8].astype(np.float32), 40, rng))
    for inputs in tried:
        for column, name in enumerate(program.inputs):
            held = np.abs(inputs[:, :, column])
            assert DOMAIN[name] / 2 < held.max() <= DOMAIN[name]
            step = (grid or {}).get(name)
            assert step is None or (held % step == 0).all()


def test_one_number_for_all_gives_the_inputs_it_gave_before():
    program = gated(grid=1.0, rounds=(Round(update={"x": maximum(x, flag)}),))
    named = adversarial_inputs(program, {"x": 5.0, "flag": 5.0}, np.random.default_rng(3))
    assert np.array_equal(named, adversarial_inputs(program, 5.0, np.random.default_rng(3)))


def test_shorter_inputs_are_filled_up_within_each_range():
    program = gated(rounds=(Round(update={"x": maximum(x, flag)}),), grid={"flag": 0.75}, pad=-1.0)
    made = compile(program, domain=DOMAIN)
    filled = made._filled(torch.tensor([[[1.0, 0.0]]], dtype=torch.float64))
    assert filled.tolist() == [[[1.0, 0.0], [-1000.0, -0.75], [-1000.0, -0.75]]]


def test_a_file_and_a_certificate_keep_ranges_and_grids(tmp_path):
    made = compile(gated(), domain=DOMAIN).verify(samples=8)
    made.save(tmp_path / "made.safetensors")
    back = load(tmp_path / "made.safetensors")
    assert back.domain == DOMAIN
    assert back.certificate == made.certificate
    assert back.program.grid == {"flag": 1.0}
    assert back.verify(samples=8).certificate == made.certificate
    with pytest.raises(PosattnError, match=r"the domain is 9 and was certified as 1000 for x and 1 for flag"):
        replace(back, domain=9.0)(torch.zeros(1, 3, 2))


def test_certificates_and_programs_of_old_files_stay_readable():
    made = compile(library.get("argsort", 3), domain=5).verify(samples=8)
    assert made.certificate is not None
    held = json.loads(made.certificate.to_json())
    assert (held["domain"], held["grid"]) == (5.0, 1.0)
    assert Certificate.from_json(json.dumps(held)) == made.certificate
    text = serial.to_json(gated())
    assert serial.from_json(text) == gated()
    assert serial.from_json(text.replace('{"flag":1.0}', "1.0")) == gated(grid=1)


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("domain", "said"),
    [
        ({"x": 1.0}, "domain says nothing of input flag"),
        ({"x": 1.0, "flga": 2.0}, "unknown input in domain 'flga': did you mean 'flag'?"),
        ({"x": "wide", "flag": 1.0}, r"domain\['x'\]='wide': it must be a finite number"),
        ({"x": -1.0, "flag": 1.0}, r"domain\['x'\]=-1.0: inputs lie in"),
        ({"x": 1e-40, "flag": 1.0}, r"domain\['x'\]=1e-40: torch.float32 keeps numbers whole"),
        ([1.0, 2.0], "it must be a finite number"),
    ],
)
def test_a_domain_by_name_names_every_input_once(domain, said):
    with pytest.raises(PosattnError, match=said):
        compile(gated(), domain=domain)


def test_a_permutation_has_a_range_of_its_own():
    ordered = gated(permutations=("flag",), grid=None, pad=None, rounds=(Round(update={"x": x + flag}),))
    made = compile(ordered, domain={"x": 5.0}).verify(samples=8)
    assert made.certificate is not None
    assert made.certificate.holds
    with pytest.raises(PosattnError, match="holds a permutation, which has a range of its own"):
        compile(ordered, domain={"x": 5.0, "flag": 2.0})


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("grid", "said"),
    [
        ({"z": 1.0}, "grid: 'z' is not an input that can have one"),
        ({"flag": 0.0}, "grid=0.0: the distance between neighbours must be a finite number above 0"),
        ({"flag": "x"}, "grid='x': it must be a number"),
        ({3: 1.0}, "map inputs to their grids"),
    ],
)
def test_a_grid_by_name_names_inputs(grid, said):
    with pytest.raises(PosattnError, match=said):
        gated(grid=grid)


def test_no_grid_by_name_is_no_grid():
    assert gated(grid={}, rounds=()).grid is None


def test_composition_keeps_the_first_programs_grids():
    first = gated(rounds=(Round(update={"x": x + flag}),))
    assert first.then(library.cumsum(3)).grid == {"flag": 1.0}
    plain = gated(grid=None, rounds=(), outputs=("x", "flag"))
    both = plain.then(gated(rounds=()))
    assert both.grid is None
    inputs = np.zeros((1, 3, 2))
    assert run(both, inputs).shape == (1, 3, 1)
