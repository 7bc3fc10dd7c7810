"""Programs with more or fewer outputs than inputs, interpreted, compiled, saved and composed, against NumPy."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from posattn import PosattnError
from posattn.compile import Program, Round, compile, equal, library, load, reads, run, word
from posattn.compile import program_json as serial
from posattn.compile.show import trace


def histogram(length: int = 5, bins: int = 3, **changed) -> Program:
    """How many of the inputs are 0, 1, … bins − 1."""
    nodes = max(length, bins)
    slots = [f"s{j}" for j in range(length)]
    counted = sum((equal(word(slot), word("place")) for slot in slots[1:]), equal(word("s0"), word("place")))
    tables = {slot: reads("x", [j] * nodes) for j, slot in enumerate(slots)}
    held: dict[str, Any] = {
        "name": "histogram",
        "length": length,
        "nodes": nodes,
        "output_length": bins,
        "registers": ("x", "place"),
        "constants": {"place": tuple(map(float, range(nodes)))},
        "rounds": (Round(receive=tables, update={"x": counted}),),
        "grid": 1.0,
        "oracle": lambda v: np.stack([(v == k).sum(axis=1) for k in range(bins)], axis=1).astype(v.dtype),
    }  # fmt: skip
    return Program(**(held | changed))


def doubled(length: int = 3) -> Program:
    """Every number twice."""
    return Program(
        name="twice each",
        length=length,
        nodes=2 * length,
        output_length=2 * length,
        registers=("x",),
        rounds=(Round(receive={"own": reads("x", [i // 2 for i in range(2 * length)])}, update={"x": word("own")}),),
        oracle=lambda v: np.repeat(v, 2, axis=1),
    )


CASES = {
    "fewer": histogram,
    "more bins than numbers": lambda: histogram(2, 5),
    "one bin": lambda: histogram(4, 1),
    "twice as many": doubled,
    "fewer, on more nodes than either": lambda: replace(library.cumsum(4), output_length=2, oracle=None),
}


@pytest.mark.parametrize("make", CASES.values(), ids=CASES)
def test_a_program_has_as_many_outputs_as_it_says(make, tmp_path):
    program = make()
    x = np.random.default_rng(0).integers(-1, 4, (20, program.length, 1)).astype(np.float64)
    exact = run(program, x)
    assert exact.shape == (20, program.output_length, 1)
    if program.oracle is not None:
        assert np.array_equal(exact[:, :, 0], program.oracle(x[:, :, 0]))
    made = compile(program, domain=9).verify(samples=16)
    assert made.certificate is not None
    assert made.certificate.holds
    made.save(tmp_path / "made.safetensors")
    back = load(tmp_path / "made.safetensors")
    assert back.program.output_length == program.output_length
    for model in (made, made.harden(), back):
        assert torch.equal(model(torch.from_numpy(x)).double(), torch.from_numpy(exact))
        assert model(torch.from_numpy(x[0, :, 0])).shape == (program.output_length,)


def test_a_wrong_oracle_of_another_length_is_noticed():
    wrong = histogram(oracle=lambda v: np.zeros((len(v), 3)))
    found = compile(wrong, domain=9).verify(samples=16).certificate
    assert found is not None
    assert not found.holds


def test_shorter_inputs_are_filled_up_and_the_outputs_stay_as_many():
    made = compile(histogram(pad=-1.0), domain=9).verify(samples=16)  # −9 is in no bin
    assert made.certificate is not None
    assert made.certificate.holds
    assert made.certificate.shorter > 0
    assert made(torch.tensor([2.0, 2.0])).tolist() == [0.0, 0.0, 2.0]


def test_composed_programs_hand_over_as_many_numbers_as_they_have():
    x = (
        np.random.default_rng(0).integers(0, 5, (9, 5, 1)).astype(np.float64)
    )  # counted at all five nodes, given at three
    counts = histogram(5, 3)
    total = Program(
        name="total", length=3, nodes=5, registers=("x",),
        rounds=(Round(receive={"far": reads("x", [4] * 5), "left": reads("x", [None, 0, 1, 2, 3])},
                      update={"x": word("x") + word("far") + word("left")}),),
    )  # fmt: skip
    both = counts.then(total)
    assert both.output_length == 3
    assert run(counts, x).any()
    assert np.array_equal(run(both, x), run(total, run(counts, x)))
    with pytest.raises(PosattnError, match="gives 3 × 1 numbers and 'cumsum' takes 5 × 1"):
        counts.then(library.cumsum(5))
    assert library.cumsum(3).then(library.sort(3)).output_length is None


def test_text_and_json_keep_the_length_of_the_output():
    program = replace(histogram(), oracle=None)
    assert Program.parse(str(program)) == program
    assert serial.from_json(serial.to_json(program)) == program
    assert "output_length" not in serial.to_json(library.get("sort", 3))  # as in files from before


def test_a_trace_ends_with_the_outputs():
    assert trace.text(doubled(2), np.array([[7.0], [8.0]])).splitlines()[-1].split() == ["output", "7", "7", "8", "8"]


@pytest.mark.parametrize("wrong", [0, 6, -1])
def test_outputs_are_at_some_of_the_nodes(wrong):
    with pytest.raises(PosattnError, match=f"output_length={wrong} and nodes=5"):
        histogram(output_length=wrong)
