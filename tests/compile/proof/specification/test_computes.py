"""Programs whose outputs are given as expressions of their inputs."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from posattn.compile import Program, Round, absolute, call, library, maximum, minimum, positive, reads, relu, word
from posattn.compile.expressions import Line, renamed
from posattn.compile.proof.findings import Outcome, TimeLimit
from posattn.compile.proof.specification import prove_specification
from posattn.compile.specification import Computes
from posattn.errors import PosattnError


def outcome(program: Program) -> Outcome:
    return prove_specification(program, TimeLimit()).outcome


def one_round(length: int, update: dict, tables: dict, **options) -> Program:
    return Program(
        name="mine",
        length=length,
        nodes=length,
        registers=("x",),
        rounds=(Round(receive=tables, update=update),),
        **options,
    )


x0, x1 = word("x[0]"), word("x[1]")
BUTTERFLY = Computes({"x": (x0 + x1, x0 - x1)})


def butterfly(sign: tuple[float, float]) -> Program:
    other = {"other": reads("x", [1, 0])}
    return Program(
        name="butterfly",
        length=2,
        nodes=2,
        registers=("x", "sign"),
        rounds=(Round(receive=other, update={"x": word("other") + word("sign") * word("x")}),),
        constants={"sign": sign},
        specification=BUTTERFLY,
    )


def test_linear_programs_are_proved_by_their_forms():
    assert outcome(butterfly((1.0, -1.0))) == Outcome.STANDS
    assert outcome(butterfly((1.0, -1.0000001))) == Outcome.REFUTED


def test_piecewise_linear_programs_are_proved_by_z3():
    tables = {"other": reads("x", [1, 0])}
    apart = Computes({"x": (absolute(x0 - x1), absolute(x1 - x0))})
    made = relu(word("x") - word("other")) + relu(word("other") - word("x"))
    assert outcome(one_round(2, {"x": made}, tables, specification=apart)) == Outcome.STANDS
    wrong = replace(apart, values={"x": (absolute(x0 - x1), maximum(x1 - x0, 0))})
    finding = prove_specification(one_round(2, {"x": made}, tables, specification=wrong), TimeLimit())
    assert finding.outcome == Outcome.REFUTED
    assert "node 1" in finding.detail


def test_a_difference_on_a_thin_set_is_found_by_z3():
    tables = {"other": reads("x", [1, 0])}
    bump = word("x") + relu(1 - absolute(word("x") - 12345.5) - absolute(word("other") - 777.25))
    program = one_round(2, {"x": bump}, tables, specification=Computes({"x": (x0, x1)}))
    finding = prove_specification(program, TimeLimit())
    assert finding.outcome == Outcome.REFUTED


def test_a_grid_may_be_assumed():
    bit = Computes({"x": (minimum(maximum(x0, 0), 1),)})
    program = one_round(1, {"x": positive(word("x"), grid=1.0)}, {}, specification=bit, grid=1.0)
    assert outcome(program) == Outcome.STANDS
    assert outcome(replace(program, grid=0.25)) == Outcome.REFUTED


def test_a_grid_of_one_input_may_be_assumed_of_it_and_of_no_other():
    bit = Computes({"x": (minimum(maximum(word("y[0]"), 0), 1) + x0,)})
    program = Program(
        name="mine",
        length=1,
        nodes=1,
        registers=("x", "y"),
        inputs=("x", "y"),
        rounds=(Round(update={"x": word("x") + positive(word("y"), grid=1.0)}),),
        specification=bit,
        grid={"y": 1.0},
    )
    assert outcome(program) == Outcome.STANDS
    assert outcome(replace(program, grid={"x": 1.0})) == Outcome.REFUTED
    assert outcome(replace(program, grid={"x": 1.0, "y": 0.25})) == Outcome.REFUTED


@pytest.mark.parametrize("made", [word("x") + word("other"), absolute(word("x") - word("other"))], ids=str)
def test_a_program_with_another_number_of_outputs_is_proved_at_each_of_them(made):
    pairs = ((0, 1), (1, 0), (0, 0))
    program = Program(
        name="mine",
        length=2,
        nodes=3,
        registers=("x",),
        rounds=(
            Round(
                receive={"one": reads("x", [i for i, _ in pairs]), "other": reads("x", [j for _, j in pairs])},
                update={"x": renamed(made, {"x": "one", "other": "other"})},
            ),
        ),
        specification=Computes({"x": tuple(renamed(made, {"x": f"x[{i}]", "other": f"x[{j}]"}) for i, j in pairs)}),
        output_length=3,
    )
    assert outcome(program) == Outcome.STANDS
    assert isinstance(program.specification, Computes)
    values = program.specification.values["x"]
    assert outcome(replace(program, output_length=1, specification=Computes({"x": values[:1]}))) == Outcome.STANDS
    assert outcome(replace(program, specification=Computes({"x": (*values[:2], x1)}))) == Outcome.REFUTED


def test_a_broken_line_is_followed_as_it_is():
    line = Line(word("x"), 1.0, (0.0, 2.0), (0.5, -0.5), 0.0)  # 1 + x/2 from 0 to 2, flat elsewhere
    right = Computes({"x": (1 + minimum(maximum(x0, 0), 2) / 2,)})
    program = one_round(1, {"x": line}, {}, specification=right)
    assert outcome(program) == Outcome.STANDS
    assert outcome(replace(program, specification=Computes({"x": (1 + maximum(x0, 0) / 2,)}))) == Outcome.REFUTED


def test_a_permutation_may_be_assumed():
    both = Computes({"x": (word("x[0]") + word("x[1]"),) * 2})
    program = one_round(2, {"x": 1.0 + 0 * word("x")}, {}, specification=both)
    assert outcome(program) == Outcome.REFUTED
    assert outcome(replace(program, permutations=("x",))) == Outcome.STANDS


def test_a_function_from_outside_the_language_leaves_the_claim_open():
    program = one_round(1, {"x": call(np.square, word("x"))}, {}, specification=Computes({"x": (call(np.square, x0),)}))
    finding = prove_specification(program, TimeLimit())
    assert (finding.outcome, finding.detail) == (Outcome.OPEN, "'square' is not piecewise linear")


@pytest.mark.usefixtures("as_users_run_it")
def test_without_z3_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "z3", None)
    with pytest.raises(PosattnError, match=r"pip install 'posattn\[proof\]'"):
        prove_specification(library.get("sort", 4), TimeLimit())
