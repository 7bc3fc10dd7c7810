"""Programs run as a plain loop over nodes would, compose, and say everything that is wrong with them."""

import re
from typing import Any

import numpy as np
import pytest

from posattn import PosattnError
from posattn.compile import compile, library
from posattn.compile.expressions import Constant, Word, call, maximum, product, relu, word
from posattn.compile.interpreter import run, trace
from posattn.compile.program import Program
from posattn.compile.rounds import Round, reads

from . import trees

x, y, s = word("x"), word("y"), word("s")


def program(**changed: Any) -> Program:
    held: dict[str, Any] = {
        "name": "p",
        "length": 2,
        "nodes": 3,
        "registers": ("x", "y", "c"),
        "constants": {"c": (1.0, 2.0, 3.0)},
        "rounds": (Round(receive={"s": reads("x", [1, None, 0])}, update={"y": x + s}, note="add"),),
        "outputs": ("y",),
    }
    return Program(**(held | changed))


def test_the_interpreter_does_what_a_loop_over_nodes_does():
    for seed in range(100):
        case = trees.any_case(seed)
        inputs = trees.whole_inputs(case.program, seed)
        np.testing.assert_array_equal(run(case.program, inputs), trees.simulated(case, inputs), f"seed {seed}")


def test_composed_programs_do_one_after_the_other():
    """Both have the same registers and slots, constants with other values, and leave something at every node."""
    for seed in range(100):
        pick = np.random.default_rng(seed)
        nodes = int(pick.integers(1, 5))
        sizes = {"nodes": nodes, "length": int(pick.integers(1, nodes + 1))}
        first, second = trees.any_case(seed, **sizes).program, trees.any_case(1000 + seed, **sizes).program
        inputs = trees.whole_inputs(first, seed)
        both = first.then(second)
        np.testing.assert_array_equal(run(both, inputs), run(second, run(first, inputs)), f"seed {seed}")
        assert both.inputs == first.inputs


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_trace_shows_what_arrives_and_what_becomes_of_it(dtype):
    before, after = trace(program(), np.array([[[5.0], [7.0]]], dtype))
    assert before.round is None
    assert before.received == {}
    assert {name: held.tolist() for name, held in before.registers.items()} == {
        "x": [[5, 7, 0]], "y": [[0, 0, 0]], "c": [[1, 2, 3]],
    }  # fmt: skip
    assert {name: held.tolist() for name, held in after.received.items()} == {"s": [[7, 0, 5]]}
    assert after.registers["y"].tolist() == [[12, 7, 5]]
    assert after.registers["y"].dtype == dtype
    assert run(program(), np.array([[[5.0], [7.0]]], dtype)).tolist() == [[[12], [7]]]


def test_registers_are_updated_all_at_once():
    swap = program(rounds=(Round(update={"y": x}), Round(update={"x": y + 1, "y": x + 2})), outputs=("x", "y"))
    assert run(swap, np.array([[[3.0], [4.0]]])).tolist() == [[[4, 5], [5, 6]]]


def test_whole_numbers_are_refused_as_a_dtype():
    with pytest.raises(PosattnError, match=re.escape("the input holds int64: fractions would be cut off")):
        run(program(), np.zeros((1, 2, 1), np.int64))


@pytest.mark.parametrize("shape", [(1, 3, 1), (1, 2, 2), (1, 1, 1)])
def test_an_input_of_another_shape_is_refused(shape):
    with pytest.raises(
        PosattnError, match=re.escape(f"the input has shape {shape}: program 'p' takes (samples, 2, 1)")
    ):
        run(program(), np.zeros(shape))


PROBLEMS: list[tuple[dict[str, Any], str]] = [
    ({"length": 4}, "length=4 and nodes=3: it must be 1 ≤ length ≤ nodes."),
    ({"length": 0}, "length=0 and nodes=3: it must be 1 ≤ length ≤ nodes."),
    ({"registers": ("x", "y", "c", "one")}, "register 'one': the name is reserved"),
    ({"registers": ("x", "y", "c", "y")}, "register 'y' is declared twice."),
    ({"inputs": ("x", "x")}, "input 'x' is named twice."),
    ({"inputs": ("x", "w")}, "input 'w' is not a register."),
    ({"outputs": ("w",)}, "output 'w' is not a register."),
    ({"constants": {"c": (0.0,) * 3, "w": (0.0,) * 3}}, "constant 'w' is not a register."),
    ({"constants": {"c": (1.0,)}}, "constant 'c' has 1 values for 3 nodes."),
    ({"constants": {"c": (1.0, float("nan"), 0.0)}}, "constant 'c' is not finite."),
    ({"constants": {"c": (0.0,) * 3, "x": (0.0,) * 3}}, "'x' is both an input and a constant."),
    ({"permutations": ("y",)}, "permutation 'y' is not an input."),
    ({"rounds": ()}, "output 'y' is never written."),
    ({"rounds": (Round(update={"y": x}), Round(receive={"c": reads("x", [0, 1, 2])}))},
     "round 2: slot 'c' has a register's name."),
    ({"rounds": (Round(receive={"s": reads("x", [0, 1])}, update={"y": s}),)},
     "round 1: slot 's' has 2 sources for 3 nodes."),
    ({"rounds": (Round(receive={"s": reads("x", [0, 1, 3])}, update={"y": s}),)},
     "round 1: slot 's': node 2 reads from node 3, outside 0 … 2."),
    ({"rounds": (Round(receive={"s": reads("x", [0, -1, 2])}, update={"y": s}),)},
     "round 1: slot 's': node 1 reads from node -1, outside 0 … 2."),
    ({"rounds": (Round(receive={"s": reads("y", [0, 1, 2])}, update={"y": s}),)},
     "round 1: slot 's': node 0 reads register 'y', which was never written."),
    ({"rounds": (Round(update={"y": y + 1}),)}, "round 1: 'y' is computed from 'y', which was never written."),
    ({"rounds": (Round(update={"y": x}), Round(update={"y": s}))},
     "round 2: 'y' is computed from 's', which is neither a register nor a slot."),
    ({"rounds": (Round(update={"y": word("one")}),)}, "'one', which is neither a register nor a slot."),
    ({"rounds": (Round(update={"y": x, "w": x}),)}, "round 1: 'w' is updated, but it is not a register."),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "problem"), PROBLEMS, ids=[problem for _, problem in PROBLEMS])
def test_every_problem_is_named_with_its_place(changed, problem):
    with pytest.raises(PosattnError, match=re.escape(problem)):
        program(**changed)


@pytest.mark.usefixtures("as_users_run_it")
def test_an_update_by_a_number_is_a_constant():
    number: Any = 2
    assert Round(update={"y": number}).update == {"y": Constant(2.0)}


def test_all_problems_are_listed_at_once():
    broken = (
        Round(receive={"s": reads("y", [0, 1, 2]), "c": reads("x", [9, 0, 0])}, update={"w": x, "y": word("nobody")}),
        Round(update={"y": s}),
    )
    with pytest.raises(PosattnError) as raised:
        program(length=7, inputs=("x", "x", "u"), constants={"c": (1.0,)}, rounds=broken, outputs=("v",))
    lines = str(raised.value).splitlines()
    assert lines[0] == "program 'p' cannot run:"
    assert len(lines) == 1 + 12
    assert sum(line.startswith("  - round 1: ") for line in lines) == 5
    assert sum(line.startswith("  - round 2: ") for line in lines) == 1


def test_a_register_written_in_an_earlier_round_may_be_read():
    later = Round(receive={"s": reads("y", [2, 1, 0])}, update={"y": s + y})
    assert run(program(rounds=(*program().rounds, later)), np.array([[[5.0], [7.0]]])).tolist() == [[[17], [14]]]


def test_slots_counts_the_most_words_of_a_round():
    assert program().slots == 1
    assert program(rounds=(Round(update={"y": x}),)).slots == 0
    assert library.max_subarray(4).slots == 4


def test_places_outside_the_language_are_all_listed():
    outside = program(
        rounds=(
            Round(update={"y": call(product, x, x) + relu(call(np.exp, x))}),
            Round(update={"x": maximum(y, call(np.tanh, y, name="tanh"))}),
        )
    ).outside()
    assert outside == [
        "round 1, register 'y': product(x, x) is not piecewise linear",
        "round 1, register 'y': exp(x) is not piecewise linear",
        "round 2, register 'x': tanh(y) is not piecewise linear",
    ]


def test_a_summary_cuts_long_tables_short():
    assert program().summary().splitlines() == [
        "program p: 3 nodes, length 2, 1 round",
        "  registers x, y, c; in x; out y",
        "  round 1: add",
        "    s ← x of 1 – 0",
        "    y = (x + s)",
    ]
    mixed = program(rounds=(Round(receive={"s": ((1, "x"), (0, "c"), None)}, update={"y": x}),))
    assert "    s ← x@1 c@0 –" in mixed.summary().splitlines()
    assert "    left ← x of – 0 1 2 3 4 5 6 7 8 9 10 …" in library.cumsum(16).summary().splitlines()


def test_composed_library_programs_equal_numpy():
    inputs = np.random.default_rng(0).integers(-9, 10, (20, 6, 1)).astype(np.float64)
    both = library.sort(6).then(library.cumsum(6))
    np.testing.assert_array_equal(run(both, inputs), np.cumsum(np.sort(inputs, axis=1), axis=1))
    assert both.oracle is not None
    np.testing.assert_array_equal(both.oracle(inputs), run(both, inputs))
    assert both.name == "sort, cumsum"
    assert len(both.rounds) == 6 + 3
    twice = library.sort(6).then(library.sort(6))
    assert twice.registers == library.sort(6).registers  # the same constants are shared
    assert library.sort(6).then(library.argsort(6)).grid == 1  # what the second needs of its numbers


def test_composition_keeps_slots_and_registers_apart():
    """The first has a register of the second's slot's name, and a slot of its register's; primes may be taken too."""
    first = Program(
        name="first",
        length=2,
        nodes=2,
        registers=("x", "s", "s'", "s''", "t'"),
        rounds=(Round(receive={"t": reads("x", [1, 0])}, update={"s": word("t") * 2, "s'": x, "s''": x, "t'": x}),),
        outputs=("s",),
    )
    second = Program(
        name="second",
        length=2,
        nodes=2,
        registers=("a", "t", "x"),
        rounds=(
            Round(receive={"s": reads("a", [0, 0]), "s'": reads("a", [1, 1])}, update={"t": s - 3 * word("s'")}),
            Round(receive={"s": reads("t", [1, 0])}, update={"x": s + word("t") + word("a")}),
        ),
        inputs=("a",),
        outputs=("x",),
    )
    inputs = np.array([[[3.0], [5.0]]])
    np.testing.assert_array_equal(run(first.then(second), inputs), run(second, run(first, inputs)))
    assert run(first.then(second), inputs).tolist() == [[[10 - 2 * 8], [6 - 2 * 8]]]


def test_a_constant_that_is_handed_over_is_not_shared():
    """The first's output is its constant c, which becomes the second's input and changes; the other c does not."""
    constant = {"c": (4.0, 5.0)}
    first = Program(
        name="first", length=2, nodes=2, registers=("x", "c"), rounds=(), outputs=("c",), constants=constant
    )
    second = Program(
        name="second", length=2, nodes=2, registers=("x", "c"), constants=constant,
        rounds=(Round(update={"x": x + 1}), Round(update={"x": x + word("c")})),
    )  # fmt: skip
    inputs = np.array([[[1.0], [2.0]]])
    assert run(first.then(second), inputs).tolist() == run(second, run(first, inputs)).tolist() == [[[9], [11]]]


def test_leftovers_beyond_the_length_are_not_handed_over():
    leaves = program(rounds=(Round(update={"x": x + 1}),), outputs=("x",))
    reads_them = program(rounds=(Round(receive={"s": reads("x", [2, 2, 2])}, update={"y": x + s}),))
    inputs = np.array([[[5.0], [7.0]]])
    assert (
        run(leaves.then(reads_them), inputs).tolist() == run(reads_them, run(leaves, inputs)).tolist() == [[[6], [8]]]
    )


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (library.sort(4), library.sort(5), "'sort' runs on 4 nodes and 'sort' on 5"),
        (program(), program(length=1), "'p' gives 2 × 1 numbers and 'p' takes 1 × 1"),
        (program(outputs=("y", "x")), program(), "'p' gives 2 × 2 numbers and 'p' takes 2 × 1"),
    ],
)
def test_programs_that_do_not_fit_together_are_refused(first, second, message):
    with pytest.raises(PosattnError, match=re.escape(message)):
        first.then(second)


def test_words_of_a_composition_are_words_of_its_registers():
    both = library.argsort(4).then(library.argsort(4))
    assert all(isinstance(word(name), Word) for name in both.registers)
    inputs = np.array([[[3.0], [1.0], [1.0], [0.0]]])
    assert run(both, inputs)[0, :, 0].tolist() == np.argsort(np.argsort(inputs[0, :, 0], kind="stable")).tolist()


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize("terms", [3000])
def test_an_expression_that_python_cannot_walk_is_refused(terms):
    total = x
    for _ in range(terms):
        total = maximum(total, x)
    with pytest.raises(PosattnError, match=r"nested too deeply\. Spread it over several rounds"):
        compile(program(rounds=(Round(update={"y": total}),)))
