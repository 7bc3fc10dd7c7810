"""What programs should compute: specifications say what NumPy says, are saved, and fit their program."""

import itertools
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from posattn.compile import Program, Round, library, maximum, program_json, run, word
from posattn.compile.expected import expected
from posattn.compile.specification import (
    ArgSorted,
    Broadcast,
    Computes,
    Fetched,
    Gathered,
    Merged,
    Permuted,
    PrefixMedians,
    Ranked,
    Reduced,
    Scan,
    Semigroup,
    Sorted,
    Specification,
)
from posattn.errors import PosattnError

LENGTH = 5
#: The largest sum of a stretch that ends at a node, as one step at a time finds it.
ENDING = Semigroup(
    parts=("sum", "end"),
    enter={"sum": word("x"), "end": word("x")},
    join={
        "sum": word("left sum") + word("right sum"),
        "end": maximum(word("right end"), word("left end") + word("right sum")),
    },
    leave=(word("end"),),
    never_negative=(word("end") - word("sum"),),
)


def kadane(v: list[float]) -> list[float]:
    found: list[float] = []
    for number in v:
        found.append(max(number, found[-1] + number if found else number))
    return found


def median(v: list[float]) -> float:
    held = sorted(v)
    return (held[(len(held) - 1) // 2] + held[len(held) // 2]) / 2


#: Each with the same function of a list, in plain Python.
MEANINGS = {
    Sorted: (Sorted(), sorted),
    Merged: (Merged((2, 3)), sorted),
    Ranked: (Ranked((0, 0, 2, 4, 4)), lambda v: [sorted(v)[rank] for rank in (0, 0, 2, 4, 4)]),
    ArgSorted: (ArgSorted(), lambda v: sorted(range(len(v)), key=lambda i: (v[i], i))),
    PrefixMedians: (PrefixMedians(), lambda v: [median(v[: i + 1]) for i in range(len(v))]),
    Permuted: (Permuted((4, 0, 1, 3, 2)), lambda v: [v[4], v[0], v[1], v[3], v[2]]),
    Broadcast: (Broadcast(3), lambda v: [v[3]] * len(v)),
    "sums": (Scan("sum"), lambda v: list(itertools.accumulate(v))),
    "maxima": (Scan("max"), lambda v: list(itertools.accumulate(v, max))),
    "minimum": (Reduced("min"), lambda v: [min(v)] * len(v)),
    "a semigroup": (Scan(ENDING), kadane),
    Computes: (
        Computes({"x": tuple(word(f"x[{i}]") - word("x[0]") for i in range(LENGTH))}),
        lambda v: [number - v[0] for number in v],
    ),
}


def having(specification: Specification, length: int = LENGTH) -> Program:
    return Program(
        name="any", length=length, nodes=length, registers=("x",), rounds=(), grid=1.0, specification=specification
    )


@pytest.mark.parametrize(("specification", "meaning"), MEANINGS.values(), ids=map(str, MEANINGS))
def test_a_specification_says_what_plain_python_says_on_all_small_inputs(specification, meaning):
    inputs = np.array(list(itertools.product((-1.0, 0.0, 2.0), repeat=LENGTH)))
    found = expected(having(specification), inputs[:, :, None])
    assert found.shape == (len(inputs), LENGTH, 1)
    assert found[:, :, 0].tolist() == [meaning(list(x)) for x in inputs.tolist()]


def test_fetched_is_the_number_of_the_node_that_is_named():
    program = library.get("fetch", 4)
    assert program.specification == Fetched()
    for addresses in itertools.permutations(range(4)):
        x = np.array([[[10.0 + i, float(addresses[i])] for i in range(4)]])
        assert expected(program, x)[0, :, 0].tolist() == [10.0 + at for at in addresses]


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_gathered_is_the_number_of_the_nearest_node_to_the_one_that_is_named(length):
    program = library.get("gather", length)
    assert program.specification == Gathered()
    numbers = [10.5 + i for i in range(length)]
    asked = list(itertools.product(range(-2, length + 2), repeat=length))
    x = np.array([list(zip(numbers, addresses, strict=True)) for addresses in asked], float)
    wanted = [[min(enumerate(numbers), key=lambda n: abs(n[0] - a))[1] for a in addresses] for addresses in asked]
    assert expected(program, x)[:, :, 0].tolist() == wanted
    assert run(program, x)[:, :, 0].tolist() == wanted


@pytest.mark.parametrize("name", ["fetch", "gather"])
def test_specifications_of_two_inputs_come_back_from_json_and_text(name):
    program = library.get(name, 2)
    assert program_json.from_json(program_json.to_json(program)).specification == program.specification
    assert Program.parse(str(program)).specification == program.specification


def longer(specification: Specification, output_length: int) -> Program:
    """Of 5 numbers, on 8 nodes."""
    return Program(
        name="any",
        length=LENGTH,
        nodes=8,
        registers=("x",),
        rounds=(),
        output_length=output_length,
        specification=specification,
    )


LENGTHS = {
    "selected": (Ranked((4, 0)), lambda v: [max(v), min(v)]),
    "told to more nodes": (Broadcast(2), lambda v: [v[2]] * 7),
    "reduced": (Reduced("max"), lambda v: [max(v)]),
    "reduced, to more nodes": (Reduced("sum"), lambda v: [sum(v)] * 8),
    "fewer expressions": (Computes({"x": (word("x[4]") - word("x[0]"),)}), lambda v: [v[4] - v[0]]),
    "more expressions": (Computes({"x": tuple(word(f"x[{i % 5}]") for i in range(7))}), lambda v: [*v, *v[:2]]),
}


@pytest.mark.parametrize(("specification", "meaning"), LENGTHS.values(), ids=LENGTHS)
def test_a_specification_of_another_number_of_outputs_says_what_plain_python_says(specification, meaning):
    inputs = np.random.default_rng(0).integers(-9, 10, (20, LENGTH)).astype(float)
    wanted = [meaning(list(x)) for x in inputs.tolist()]
    program = longer(specification, len(wanted[0]))
    assert expected(program, inputs[:, :, None])[:, :, 0].tolist() == wanted
    assert program_json.from_json(program_json.to_json(program)) == program


@pytest.mark.parametrize("held", [Sorted(), Merged((2, 3)), ArgSorted(), PrefixMedians(), Scan("sum"), Scan(ENDING)])
def test_what_says_nothing_of_more_outputs_is_refused_with_them(held):
    kind = type(held).__name__
    with pytest.raises(PosattnError, match=f"{kind} says nothing of outputs beyond length=5"):
        longer(held, 6)


@pytest.mark.parametrize(("specification", "meaning"), MEANINGS.values(), ids=map(str, MEANINGS))
def test_fewer_outputs_are_those_of_the_first_nodes(specification, meaning):
    if isinstance(specification, Ranked | Computes):
        return  # these name their outputs one by one
    inputs = np.random.default_rng(0).integers(-9, 10, (20, LENGTH)).astype(float)
    found = expected(longer(specification, 2), inputs[:, :, None])[:, :, 0]
    assert found.tolist() == [list(meaning(list(x)))[:2] for x in inputs.tolist()]


def test_tables_of_another_number_of_outputs_are_refused():
    with pytest.raises(PosattnError, match="'ranks' of its specification has 5 entries for 3 numbers"):
        longer(Ranked((0, 1, 2, 3, 4)), 3)
    with pytest.raises(PosattnError, match="'ranks' of its specification names 6, outside 0 … 4"):
        longer(Ranked((0, 1, 2, 3, 4, 5, 6)), 7)
    with pytest.raises(PosattnError, match="has 5 expressions for 3 nodes"):
        longer(Computes({"x": (word("x[0]"),) * 5}), 3)


@pytest.mark.parametrize("name", library.PROGRAMS)
@pytest.mark.parametrize("length", [1, 2, 5, 8])
def test_every_library_program_states_what_its_oracle_computes(name, length):
    program = library.get(name, length)
    draw = np.random.default_rng(0)
    x = draw.integers(-3, 4, (50, length, len(program.inputs))).astype(float)
    for column, entry in enumerate(program.inputs):
        if entry in program.permutations:
            x[:, :, column] = draw.random((50, length)).argsort(axis=1)
    if isinstance(program.specification, Merged):
        cuts = np.cumsum(program.specification.runs)[:-1]
        x = np.concatenate([np.sort(run, axis=1) for run in np.split(x, cuts, axis=1)], axis=1)
    assert program.oracle is not None
    wanted = np.asarray(program.oracle(x if len(program.inputs) > 1 else x[:, :, 0]))
    assert np.array_equal(expected(program, x).ravel(), wanted.ravel())


def test_a_program_without_a_specification_has_nothing_to_expect():
    with pytest.raises(PosattnError, match="has no specification"):
        expected(replace(library.get("sort", 4), specification=None), np.zeros((1, 4, 1)))


@pytest.mark.parametrize("specification", [held for held, _ in MEANINGS.values()], ids=map(str, MEANINGS))
def test_a_specification_comes_back_from_json(specification):
    program = having(specification)
    assert program_json.from_json(program_json.to_json(program)) == program


@pytest.mark.parametrize("name", library.PROGRAMS)
def test_files_that_were_written_before_programs_had_a_specification_get_the_librarys(name):
    program = library.get(name, 3)
    held = json.loads(program_json.to_json(program))
    del held["specification"]
    back = program_json.from_json(json.dumps(held))
    assert back.specification == program.specification
    assert (back.recipe, back.oracle is None) == (program.recipe, False)


def test_an_old_file_with_a_changed_program_gets_no_specification():
    held = json.loads(program_json.to_json(library.get("sort", 4)))
    del held["specification"]
    held["rounds"][0]["note"] = "changed"
    back = program_json.from_json(json.dumps(held))
    assert (back.specification, back.recipe) == (None, None)


def test_a_program_whose_specification_was_changed_is_no_longer_the_librarys():
    held = json.loads(program_json.to_json(library.get("sort", 4)))
    held["specification"] = {"kind": "Scan", "op": "sum"}
    back = program_json.from_json(json.dumps(held))
    assert (back.specification, back.recipe, back.oracle) == (Scan("sum"), None, None)


def test_two_programs_together_have_no_specification():
    assert library.get("sort", 4).then(library.get("cumsum", 4)).specification is None


ODD = {
    "an unknown kind": {"kind": "Program"},
    "no kind": {"op": "sum"},
    "a list": [],
    "an unknown operator": {"kind": "Scan", "op": "product"},
    "a field too many": {"kind": "Sorted", "op": "sum"},
    "a field missing": {"kind": "Scan"},
    "half a semigroup": {"kind": "Scan", "op": {"parts": ["x"]}},
    "no permutation": {"kind": "Permuted", "table": [0, 0, 1, 2]},
    "another length": {"kind": "Permuted", "table": [1, 0]},
    "a table of texts": {"kind": "Permuted", "table": ["0", "1", "2", "3"]},
    "a number for a table": {"kind": "Permuted", "table": 4},
    "a function to run": {"kind": "Computes", "values": {"x": [["Call", "eval", ["Word", "x[0]"]]] * 4}},
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_a_description_with_an_odd_specification_is_refused(odd):
    held = json.loads(program_json.to_json(library.get("sort", 4)))
    held["specification"] = odd
    with pytest.raises(PosattnError, match="not the description of a program"):
        program_json.from_json(json.dumps(held))


MISFITS = {
    "runs of another length": (Merged((2, 2)), r"its runs \(2, 2\) have 4 of 5 numbers"),
    "a rank too large": (Ranked((0, 1, 2, 3, 5)), "'ranks' of its specification names 5, outside 0 … 4"),
    "a table too short": (Permuted((1, 0)), "'table' of its specification has 2 entries for 5 numbers"),
    "a source too large": (Broadcast(5), "its source 5 lies outside 0 … 4"),
    "an input too few": (Fetched(), "Fetched has 2 inputs, the program 1"),
    "an unknown output": (Computes({"y": (word("x[0]"),) * 5}), "leaves out output 'x'"),
    "an unknown input": (Computes({"x": (word("x[5]"),) * 5}), "reads 'x\\[5\\]'"),
    "expressions for some nodes": (Computes({"x": (word("x[0]"),)}), "has 1 expressions for 5 nodes"),
}


@pytest.mark.parametrize(("specification", "message"), MISFITS.values(), ids=MISFITS)
def test_a_specification_that_does_not_fit_its_program_is_refused(specification, message):
    with pytest.raises(PosattnError, match=message):
        having(specification)


def test_a_semigroup_may_read_only_what_it_has():
    good: dict[str, Any] = {
        "parts": ("s",),
        "enter": {"s": word("x")},
        "join": {"s": word("left s")},
        "leave": (word("s"),),
    }
    spoilt: list[tuple[dict[str, Any], str]] = [
        ({"join": {"s": word("s")}}, r"join reads \['s'\]"),
        ({"leave": (word("left s"),)}, "leave reads"),
        ({"enter": {}}, "enter gives nothing"),
        ({"leave": ()}, "give an expression for each output"),
    ]
    for change, message in spoilt:
        with pytest.raises(PosattnError, match=message):
            Semigroup(**(good | change))
    with pytest.raises(PosattnError, match="reads 'x', which is not an input"):
        Program(
            name="any",
            length=2,
            nodes=2,
            registers=("y",),
            rounds=(Round(update={"y": word("y")}),),
            inputs=("y",),
            outputs=("y",),
            specification=Scan(Semigroup(**good)),
        )
