"""The programs of `examples`: as written they compute what NumPy does; compiled, they are proved and checked."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from posattn.compile import Program, compile, run
from posattn.compile.input_ranges import bound_of, grid_of
from posattn.compile.proof import checker, prove


def _programs():
    found = importlib.util.spec_from_file_location("programs", Path(__file__).parents[2] / "examples" / "programs.py")
    assert found
    assert found.loader
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module.PROGRAMS


PROGRAMS = _programs()
#: What the checker does not know, by the page on proofs.
REFUSED = {"FFT": "is not a number of float32", "Horner": "Product is not piecewise linear"}


def inputs_of(program: Program, domain, samples: int) -> np.ndarray:
    """Numbers of the domain, on the grid where there is one; the first samples are extreme."""
    rng = np.random.default_rng(0)
    columns = []
    for name in program.inputs:
        bound, grid = bound_of(program, domain, name), grid_of(program, name)
        drawn = rng.uniform(-bound, bound, (samples, program.length))
        drawn[: samples // 4] = rng.choice([-bound, 0, bound], (samples // 4, program.length))
        columns.append(drawn if grid is None else np.round(drawn / grid) * grid)
    return np.stack(columns, axis=2)


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_written_they_compute_what_numpy_does(name):
    program, domain, _ = PROGRAMS[name]
    x = inputs_of(program, domain, 400)
    expected = program.oracle(x if len(program.inputs) > 1 else x[:, :, 0])
    found = run(program, x)
    assert len(np.unique(found)) > 1
    np.testing.assert_allclose(found, np.asarray(expected).reshape(found.shape), rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_they_are_proved_and_the_checker_agrees(name, tmp_path, monkeypatch, as_users_run_it):
    monkeypatch.setattr(prove, "STARTS", 2)  # how hard a larger error is looked for
    program, domain, fit = PROGRAMS[name]
    made = compile(program, domain=domain, fit=fit).proved()
    assert made.proof is not None
    assert made.proof.holds, str(made.proof)
    made.save(tmp_path / "model.safetensors")
    if name in REFUSED:
        with pytest.raises(checker.Refused, match=REFUSED[name]):
            checker.check(checker.File(str(tmp_path / "model.safetensors")))
        return
    rechecked = checker.check(checker.File(str(tmp_path / "model.safetensors")))
    assert made.proof.found is not None
    assert rechecked >= made.proof.found
    assert (rechecked == 0) == (made.proof.bound == 0)


def test_a_text_gives_each_of_them_back():
    for example in PROGRAMS.values():
        parsed = Program.parse(str(example.program))
        assert str(parsed) == str(example.program)
