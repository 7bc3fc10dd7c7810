"""Programs as JSON: they come back as they were, and nothing but a program ever comes out of a text."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from posattn import PosattnError
from posattn.compile import (
    Program,
    Round,
    absolute,
    call,
    compile,
    equal,
    exchange,
    gate,
    library,
    maximum,
    minimum,
    mpc,
    positive,
    product,
    reads,
    relu,
    run,
    select,
    word,
)
from posattn.compile import program_json as serial
from posattn.compile.arguments import Source


def every_kind() -> Program:
    """A program with every kind of expression, a table of two registers, and functions that a file may name."""
    a, b, bit, got = word("a"), word("b"), word("bit"), word("got")
    table: tuple[Source, ...] = ((1, "a"), None, (0, "b"))
    one = Round(
        receive={"got": table},
        update={
            "a": select(bit, a + 2 * b - 0.5, minimum(a, got)) / 3,
            "b": exchange(b, got, upper=bit) + gate(absolute(a), shut=1 - bit),
        },
        note="“ä” </script> \\ \" 'quoted'",
    )
    two = Round(
        update={
            "a": call(np.exp, minimum(a, 1.0), name="exp") + call(product, a, b),
            "b": call(np.reciprocal, maximum(relu(b), 1.0), name="reciprocal") + positive(b) + equal(a, 0.0),
        }
    )
    return Program(
        name="every kind <&>",
        length=3,
        nodes=3,
        registers=("a", "b", "bit"),
        rounds=(one, two),
        inputs=("a", "b"),
        outputs=("b", "a"),
        constants={"bit": (0.0, 1.0, 1.0)},
        pad=None,
    )


PROGRAMS: dict[str, Callable[[], Program]] = {
    **{f"{name} {n}": lambda name=name, n=n: library.get(name, n) for name in library.PROGRAMS for n in (1, 2, 5)},
    "reduce min": lambda: library.get("reduce", 6, operation="min"),
    "fetch grid": lambda: library.get("fetch", 3, route="grid"),
    "argsort fine": lambda: library.get("argsort", 6, grid=0.1),
    "permute": lambda: library.get("permute", 4, destinations=[2, 0, 3, 1]),
    "broadcast": lambda: library.get("broadcast", 4, source=2),
    "composed": lambda: library.get("sort", 5).then(library.get("cummax", 5)),
    "mpc": lambda: mpc.to_program(mpc.fetch(3), route="grid"),
    "every kind": every_kind,
    "renamed": lambda: replace(library.get("sort", 4), name="mine"),
}


def inputs_of(program: Program) -> np.ndarray:
    rng = np.random.default_rng(0)
    x = rng.integers(-9, 10, (7, program.length, len(program.inputs))).astype(float)
    for name in program.permutations:
        x[:, :, program.inputs.index(name)] = [rng.permutation(program.length) for _ in x]
    return x


@pytest.mark.parametrize("make", PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_comes_back_as_it_was(make):
    program = make()
    text = serial.to_json(program)
    back = serial.from_json(text)
    assert str(back) == str(program)
    assert serial.to_json(back) == text
    for field in ("name", "length", "nodes", "registers", "rounds", "inputs", "outputs", "pad", "grid", "permutations"):
        assert getattr(back, field) == getattr(program, field)
    assert dict(back.constants) == dict(program.constants)
    x = inputs_of(program)
    assert np.array_equal(run(back, x), run(program, x))
    assert (back.oracle is not None) == (program.recipe is not None)
    if back.oracle is not None:
        given = x if len(program.inputs) > 1 else x[:, :, 0]
        assert np.array_equal(back.oracle(given).reshape(x.shape[:2]), run(program, x)[:, :, 0])


@pytest.mark.usefixtures("as_users_run_it")
def test_numbers_of_numpy_are_saved_as_pythons():
    order: Any = np.array([2, 0, 3, 1])
    for destinations in (order, list(order)):
        program = library.get("permute", 4, destinations=destinations)
        back = serial.from_json(serial.to_json(program))
        assert back.recipe == {"name": "permute", "length": 4, "destinations": [2, 0, 3, 1]}
        assert str(back) == str(program)


def test_a_function_of_ones_own_is_not_saved():
    for function, name in ((np.sqrt, "root"), (np.sqrt, "exp"), (lambda v: v, "product")):
        update = {"x": word("x") + call(function, word("x"), name=name)}
        program = Program(name="own", length=1, nodes=1, registers=("x",), rounds=(Round(update=update),))
        with pytest.raises(PosattnError, match=rf"{name}\(x\): a program with a function of your own cannot be saved"):
            serial.to_json(program)


def test_a_program_that_is_no_longer_the_librarys_is_saved_as_its_own():
    made = library.get("sort", 2)
    strange = replace(made, recipe={"name": "sort", "length": 2, "more": object()})
    for changed in (strange, replace(made, pad=None), replace(made, recipe={"name": "sort", "length": 3})):
        back = serial.from_json(serial.to_json(changed))
        assert (back.recipe, back.oracle, back.pad) == (None, None, changed.pad)
    assert serial.from_json(serial.to_json(made)).recipe == made.recipe


def put(expression: Any) -> Callable[[dict[str, Any]], Any]:
    def change(fields: dict[str, Any]) -> None:
        fields["rounds"][0]["update"]["x"] = expression

    return change


def receive(table: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda fields: fields["rounds"][0]["receive"].update(other=table)


def fields(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda held: held.update(changes)


X = ["Word", "x"]
ODD: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a function to run": put(["Call", "eval", X]),
    "an import": put(["Call", "__import__", ["Word", "os"]]),
    "an unhashable function": put(["Call", ["exp"], X]),
    "a call of nothing": put(["Call"]),
    "too few arguments": put(["Call", "exp"]),
    "too many arguments": put(["Call", "exp", X, X]),
    "half a product": put(["Call", "product", X]),
    "the base class": put(["Expression"]),
    "a class from elsewhere": put(["Program"]),
    "an unknown kind": put(["Quotient", X, X]),
    "no expression": put(3),
    "nothing": put(None),
    "an empty list": put([]),
    "a name that is none": put(["Word", 3]),
    "an unknown word": put(["Word", "y"]),
    "a text as factor": put(["Scaled", "2", X]),
    "NaN": put(["Constant", float("nan")]),
    "infinity": put(["Constant", float("inf")]),
    "a huge number": put(["Constant", 10**400]),
    "true": put(["Constant", True]),
    "no number": put(["Constant", None]),
    "an empty sum": put(["Sum", []]),
    "a sum of numbers": put(["Sum", [1, 2]]),
    "a number for an expression": put(["Minimum", 3, X]),
    "a field too few": put(["Minimum", X]),
    "a field too many": put(["Minimum", X, X, X]),
    "a grid of 0": put(["Positive", X, 0.0]),
    "deep": put(json.loads('["Relu",' * 300 + '["Nothing"]' + "]" * 300)),
    "half a node": receive([[0.5, "x"]] * 4),
    "a node by name": receive([["0", "x"]] * 4),
    "a node that is true": receive([[True, "x"]] * 4),
    "a node that is not there": receive([[4, "x"]] * 4),
    "no register": receive([[0]] * 4),
    "a register by number": receive([[0, 0]] * 4),
    "three parts": receive([[0, "x", 1]] * 4),
    "a table too short": receive([[0, "x"]] * 3),
    "no table": receive(7),
    "a text as table": receive("abcd"),
    "a length of text": fields(length="4"),
    "a broken length": fields(length=4.0),
    "a length that is true": fields(length=True),
    "more nodes": fields(nodes=10**12),
    "no name": fields(name=None),
    "no outputs": fields(outputs=[], recipe=None),
    "no inputs": fields(inputs=[], recipe=None),
    "registers by number": fields(registers=[1, 2]),
    "pad of text": fields(pad="1"),
    "pad NaN": fields(pad=float("nan")),
    "grid 0": fields(grid=0, recipe=None),
    "grid of text": fields(grid="1", recipe=None),
    "constants of text": fields(constants={"upper0": "abcd"}),
    "constants as list": fields(constants=[]),
    "an oracle": fields(oracle="print"),
    "an oracle without a recipe": fields(oracle="print", recipe=None),
    "something more": fields(more=1),
    "rounds as text": fields(rounds="abc"),
    "a note by number": lambda held: held["rounds"][0].update(note=3),
    "recipe as list": fields(recipe=["sort", 4]),
    "recipe as text": fields(recipe="sort"),
    "recipe of nothing": fields(recipe={}),
    "recipe of another length": fields(recipe={"name": "sort", "length": 5}),
    "recipe with a strange option": fields(recipe={"name": "sort", "length": 4, "key": "eval"}),
    "a small text for something large": fields(
        length=10**9, nodes=10**9, rounds=[], constants={}, recipe={"name": "sort", "length": 10**9}
    ),
}


#: What the library writes in another way by now, or never wrote: a program of its own.
OTHER = {
    "recipe of another program": fields(recipe={"name": "cumsum", "length": 4}),
    "recipe unknown": fields(recipe={"name": "os.system", "length": 4}),
    "another pad than the library's": fields(pad=0.0),
    "another output than the library's": fields(outputs=["upper0"]),
}


@pytest.mark.parametrize("change", OTHER.values(), ids=OTHER)
def test_a_program_that_the_library_writes_otherwise_is_read_as_it_stands_without_an_oracle(change):
    held = json.loads(serial.to_json(library.get("sort", 4)))
    change(held)
    found = serial.from_json(json.dumps(held))
    assert (found.recipe, found.oracle) == (None, None)
    assert found.rounds == library.get("sort", 4).rounds


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize("change", ODD.values(), ids=ODD)
def test_a_description_with_something_odd_is_refused(change):
    held = json.loads(serial.to_json(library.get("sort", 4)))
    change(held)
    with pytest.raises(PosattnError, match="not the description of a program") as caught:
        serial.from_json(json.dumps(held))
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("text", ["", "{", "null", "[]", "7", '"sort"', "{}", "[" * 100_000, '{"rounds":' * 50_000])
def test_a_text_that_describes_nothing_is_refused(text):
    with pytest.raises(PosattnError, match="not the description of a program"):
        serial.from_json(text)


@pytest.mark.usefixtures("as_users_run_it")
def test_a_description_with_any_part_missing_is_refused():
    whole = json.loads(serial.to_json(library.get("sort", 4)))
    for name in set(whole) - {"recipe", "specification"}:
        with pytest.raises(PosattnError, match="not the description of a program"):
            serial.from_json(json.dumps({key: value for key, value in whole.items() if key != name}))


def test_a_program_of_ones_own_compiles_to_the_same_weights_when_it_is_back():
    program = library.get("sort", 4).then(library.get("cumsum", 4))
    one, other = (compile(made).model for made in (program, serial.from_json(serial.to_json(program))))
    assert one.architecture == other.architecture
    for name, tensor in one.state_dict().items():
        assert np.array_equal(tensor.numpy(), other.state_dict()[name].numpy())


def test_every_receive_table_may_be_empty():
    program = Program(
        name="quiet", length=2, nodes=2, registers=("x",), rounds=(Round(receive={"o": reads("x", [None, None])}),)
    )
    assert serial.from_json(serial.to_json(program)) == program
