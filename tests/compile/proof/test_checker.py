"""The independent checker: it agrees with the prover, stands alone, and refuses what does not stand."""

import ast
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from compile.models import library_model
from posattn.compile import Compiled, Program, Round, compile, gate, maximum, reads, relu, select, word
from posattn.compile.proof import checker
from posattn.nn import model_of

SOURCE = Path(checker.__file__)
x, left = word("x"), word("left")


def checked(made: Compiled, folder: Path) -> float:
    path = folder / "model.safetensors"
    replace(made, certificate=None, proof=None).save(path)
    return float(checker.check(checker.File(str(path))))


def test_it_has_at_most_300_lines_of_120_columns():
    lines = SOURCE.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 300
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize("arguments", [[], ["one", "two"]])
def test_it_takes_one_file(arguments):
    ended = subprocess.run([sys.executable, SOURCE, *arguments], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "usage: checker FILE\n", "")


def test_without_z3_it_says_so():
    code = "import runpy, sys; sys.modules['z3'] = None; runpy.run_path(sys.argv[1], run_name='__main__')"
    ended = subprocess.run([sys.executable, "-c", code, SOURCE, "FILE"], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "z3" in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr


def test_it_imports_nothing_of_posattn():
    found = set()
    for node in ast.walk(ast.parse(SOURCE.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name.split(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level
            found.add(str(node.module).split(".")[0])
    assert found == {"fractions", "itertools", "json", "math", "numpy", "safetensors", "sys", "typing", "z3"}


@pytest.mark.parametrize(
    ("name", "length"),
    [
        ("cumsum", 1), ("cumsum", 8), ("cummin", 7), ("cummax", 5), ("sort", 8), ("argsort", 3), ("max-subarray", 3),
        ("reduce", 8), ("permute", 6), ("broadcast", 9), ("cummedian", 2),
    ],
)  # fmt: skip
def test_it_agrees_with_the_prover_on_library_programs(name, length, tmp_path):
    made = library_model(name, length)
    proof = made.prove()
    bound = checked(made, tmp_path)
    assert proof.holds
    assert proof.bound is not None
    assert proof.bound * (1 - 1e-12) <= bound <= 4 * proof.bound
    if name not in ("max-subarray", "cummedian"):  # where every node's numbers reach as far as the others'
        assert bound == pytest.approx(proof.bound, rel=1e-12)


def test_it_takes_float64(tmp_path):
    made = library_model("cumsum", 8, dtype=torch.float64)
    found = checked(made, tmp_path)
    assert 0 < found == pytest.approx(made.prove().bound, rel=1e-12)
    assert found < 1e-11


def test_it_takes_every_kind_of_expression_on_a_grid_of_its_own(tmp_path):
    bit, neighbour = word("bit"), reads("x", [1, 2, 0])
    update = select(bit, maximum(x, left), 3 * gate(relu(x - left), shut=bit)) + bit * x
    program = Program(
        name="mixed", length=3, nodes=3, registers=("x", "bit"), grid=0.5, constants={"bit": (0.0, 1.0, 1.0)},
        rounds=(Round(receive={"left": neighbour}, update={"x": update}),), inputs=("x",), outputs=("x",),
    )  # fmt: skip
    made = compile(program, domain=8.0)
    assert made.prove().bound == 0
    assert checked(made, tmp_path) == 0


@pytest.mark.parametrize(
    ("tensor", "place", "value", "reason"),
    [
        ("query_weight", (0, 0, 0), 0.0, "layer 0: head 0 mixes nodes"),
        ("mlp_out_weight", (1, 0, 0), 1.0000001, "layer 1: the MLP may be different"),
        ("encoder_weight", (0, 0), 2.0, "the encoder does not fill 'x' as the program does"),
        ("decoder_weight", (0, 0), 0.5, "the decoder changes the outputs"),
        ("value_weight", (0, 0, 0), float("nan"), "some weights are not finite"),
        ("query_bias", (0, 0), 3e38, "layer 0: numbers can overflow"),
        ("mlp_in_weight", (0, 0, 3), 3e38, "layer 0: numbers can overflow"),
    ],
)
def test_it_says_what_does_not_stand(tensor, place, value, reason, tmp_path):
    made = library_model("cumsum", 4)
    weights = {name: held.detach().clone() for name, held in made.model.weights().items()}
    weights[tensor][place] = value
    if tensor == "query_weight":
        weights[tensor][:] = value
    with pytest.raises(checker.Refused, match=f"^{reason}$"):
        checked(replace(made, model=model_of(made.model.architecture, weights)), tmp_path)


def test_a_unit_that_nothing_reads_may_not_overflow(tmp_path):
    made = library_model("max-subarray", 4)
    weights = {name: held.detach().clone() for name, held in made.model.weights().items()}
    read = weights["mlp_middle_weight"] if "mlp_middle_weight" in weights else weights["mlp_out_weight"]
    layer, *_, idle = np.argwhere((read == 0).all(-1).numpy())[-1].tolist()
    weights["mlp_in_weight"][layer, made.registers.index("best"), idle] = 3e38
    spoilt = replace(made, model=model_of(made.model.architecture, weights))
    assert made.model(torch.full((1, 4, 1), 1000.0)).isfinite().all()
    assert not spoilt.model(torch.full((1, 4, 1), 1000.0)).isfinite().all()
    with pytest.raises(checker.Refused, match="overflow"):
        checked(spoilt, tmp_path)
    assert not spoilt.prove().holds


@pytest.mark.parametrize(("step", "held"), [(3.0, 3), (0.75, 0.25), (5.0, 1), (2.0**-40, 2.0**-40), (0.0, 0)])
def test_the_grain_of_a_number_is_the_power_of_two_that_divides_it(step, held):
    wanted = checker.F(held) if held != 3 else checker.F(1)
    assert checker.grain(checker.F(step)) == wanted


@pytest.mark.parametrize(("scale", "stands"), [(1.0, True), (2.0**-5, False)])
def test_it_takes_logits_that_the_dtype_rounds_as_long_as_they_are_far_enough_apart(scale, stands, tmp_path):
    made = library_model("cumsum", 8)
    weights = {name: held.detach().clone() for name, held in made.model.weights().items()}
    weights["query_weight"] *= scale * (1 + 2.0**-18)
    other = replace(made, model=model_of(made.model.architecture, weights))
    assert other.prove().holds == stands
    if stands:
        assert checked(other, tmp_path) == checked(made, tmp_path)
        file = checker.File(str(tmp_path / "model.safetensors"))
        p, query = weights["encoding"].double().numpy(), weights["query_weight"][2].double().numpy()
        assert not checker.times(file, p, query)[1]
    else:
        with pytest.raises(checker.Refused, match=r"^layer 0: head 0 mixes nodes$"):
            checked(other, tmp_path)
