"""Programs as text: what is printed is read back, people's texts are understood, and mistakes are named by place."""

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compile import trees
from compile.test_program_json import PROGRAMS
from posattn import PosattnError
from posattn.compile import Program, Round, call, compile, equal, exchange, gate, library, reads, run, select, word
from posattn.compile.expressions import Call, Constant, Product, Relu, Scaled, Sum, Word, tree
from posattn.compile.expressions.known_functions import FUNCTIONS
from posattn.compile.program_text import read_program

#: Without the checks of annotations, which take longer than all the rest here.
pytestmark = pytest.mark.usefixtures("as_users_run_it")
EXAMPLES = Path(__file__).parents[3] / "examples"


def without_oracle(program: Program) -> Program:
    return dataclasses.replace(program, oracle=None)


def updating(expression: tree.Expression) -> Program:
    names = ("x", "y", "b")
    round_ = Round(update={"x": expression})
    return Program(name="p", length=2, nodes=2, registers=names, inputs=names, rounds=(round_,))


def update_of(text: str) -> tree.Expression:
    read = Program.parse(f"program p\nlength 2\ninputs x, y, b\nregisters x, y, b\nround\n  x = {text}")
    return read.rounds[0].update["x"]


# ---- what is printed is read back


@pytest.mark.parametrize("make", PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_is_read_back_as_it_was_printed(make):
    program = make()
    assert Program.parse(str(program)) == without_oracle(program)


@pytest.mark.parametrize("name", ["sort", "cumsum", "max-subarray", "argsort", "permute"])
@pytest.mark.parametrize("length", [17, 32])
def test_long_tables_are_whole(name, length):
    program = library.get(name, length)
    assert Program.parse(str(program)) == without_oracle(program)


def test_regular_tables_are_short_to_read():
    assert len(str(library.get("sort", 256))) < 6000  # 36 rounds of 256 nodes


#: Numbers with many digits and at the ends of the range.
NUMBERS = st.sampled_from(
    [0.0, 1.0, -1.0, 2.0, 0.1, 0.3, -0.7, 1 / 3, 0.5, -0.25, 1e300, 5e-324, -1e-7, 1e16]
) | st.floats(allow_nan=False, allow_infinity=False)
LEAVES = st.tuples(st.just("constant"), NUMBERS) | st.tuples(st.just("word"), st.sampled_from(["x", "y", "b"]))
KINDS = {
    "sum": lambda *parts: Sum(parts),
    "product": Product,
    "relu": Relu,
    "min": tree.Minimum,
    "max": tree.Maximum,
    "gate": tree.Gate,
    "select": tree.Select,
    "exchange": tree.Exchange,
    "call": lambda part: Call("exp", FUNCTIONS["exp"], (part,)),
    "complement": lambda part, one, zero: select(part, one, zero),
    "scaled": lambda factor, part: Scaled(factor, part),
    "positive": lambda grid, part: tree.Positive(part, abs(grid) or 1.0),
    "equal": lambda grid, one, other: tree.Equal(one, other, abs(grid) or 1.0),
    "constant": Constant,
    "word": Word,
}


def _extended(part):
    def kind(name, *parts):
        return st.tuples(st.just(name), *parts)

    return st.one_of(
        kind("sum", part, part), kind("sum", part), kind("sum", part, part, part), kind("product", part, part),
        kind("relu", part), kind("min", part, part), kind("max", part, part), kind("gate", part, part),
        kind("select", part, part, part, part), kind("exchange", part, part, part, part), kind("call", part),
        kind("complement", part, part, part), kind("scaled", NUMBERS | st.just(-1.0), part),
        kind("positive", NUMBERS, part), kind("equal", NUMBERS, part, part),
    )  # fmt: skip


def grown(spec):
    kind, *parts = spec
    return KINDS[kind](*(grown(part) if isinstance(part, tuple) else part for part in parts))


@settings(max_examples=300, deadline=None)
@given(st.recursive(LEAVES, _extended, max_leaves=12))
def test_any_expression_is_read_back_as_it_was_printed(spec):
    """Constants where a number would mean something else, nested sums and products, numbers to the last digit."""
    program = updating(grown(spec))
    assert Program.parse(str(program)) == program


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6))
def test_any_program_is_read_back_as_it_was_printed(seed):
    program = trees.any_case(seed).program
    assert Program.parse(str(program)) == program


ENTRIES = st.lists(st.sampled_from([0, 1, 2, 3, None]), min_size=1, max_size=6)


@settings(max_examples=200, deadline=None)
@given(ENTRIES, st.integers(1, 20), st.integers(0, 12), st.sampled_from([1, -1]))
def test_any_table_and_any_constant_is_read_back_as_it_was_printed(some, times, up, step):
    counted = list(range(up))[::step]
    nodes = [*some * times, *counted, *some, *counted]
    held = tuple(float(-1 if node is None else node) for node in nodes)
    many = tuple(None if node is None else (node, "xc"[node % 2]) for node in nodes)
    program = Program(
        name="tables",
        length=1,
        nodes=max(len(nodes), 12),
        registers=("x", "c"),
        rounds=(
            Round(
                receive={
                    "one": reads("x", [*nodes, *(None,) * (12 - len(nodes))]),
                    "two": (*many, *(None,) * (12 - len(nodes))),
                }
            ),
        ),
        constants={"c": (*held, *(-0.0,) * (12 - len(nodes)))},
    )
    back = Program.parse(str(program))
    assert back == program
    assert repr(back.constants) == repr(program.constants)


NAMES = ["sum left", "i", "of", "let", "round", "sum", "x'", "ä", '"', "\\", "a#b", "x@y", "1", "-", "\u2028\n\ud800"]


def test_any_name_is_read_back_as_it_was_printed():
    for name, other in itertools.permutations(NAMES, 2):
        if "@" in name + other:
            continue
        program = Program(
            name=name,
            length=2,
            nodes=2,
            registers=(name, "c"),
            inputs=(name,),
            outputs=(name,),
            constants={"c": (1.0, 2.0)},
            rounds=(
                Round(receive={other: reads(name, [1, None])}, update={name: word(other) + word(name)}, note=name),
            ),
        )
        assert Program.parse(str(program)) == program


def test_a_function_of_ones_own_prints_and_is_not_read():
    text = str(updating(call(np.sqrt, word("x"), name="exp")))
    assert '  x = call("exp", x)' in text
    with pytest.raises(PosattnError, match=r"line \d+, column 7: a text knows no functions of your own, only exp"):
        Program.parse(text)


def test_parts_that_are_used_twice_are_printed_once():
    part = word("x")
    for _ in range(40):
        part = exchange(part + part, part, upper=word("b"))
    program = updating(part)
    assert len(str(program)) < 10_000
    assert Program.parse(str(program)) == program


# ---- what people write

WRITTEN = {
    "x + y + b": (word("x") + word("y")) + word("b"),
    "x + (y + b)": word("x") + (word("y") + word("b")),
    "x - y - 1": word("x") - word("y") - 1,
    "2 - x": 2 - word("x"),
    "3 + x": 3 + word("x"),
    "-x * 2": -word("x") * 2,
    "-2 * x": -2 * word("x"),
    "x / 3": word("x") / 3,
    "x * (1 + 1) / 4": word("x") * 2 / 4,
    "x * y": word("x") * word("y"),
    "1e-3 * x": 1e-3 * word("x"),
    "2": Constant(2.0),
    "-2": Constant(-2.0),
    "abs(x)": abs(word("x")),
    "equal(x, 3, grid=0.5)": equal(word("x"), 3, grid=0.5),
    "gate(x, shut=b)": gate(word("x"), shut=word("b")),
    "select(b, x, 1 - y, unless=1 - b)": select(word("b"), word("x"), 1 - word("y")),
    "exchange(x, y, upper=b)": exchange(word("x"), word("y"), upper=word("b")),
    '"x" + y  # a comment': word("x") + word("y"),
}


@pytest.mark.parametrize(("text", "expression"), WRITTEN.items(), ids=WRITTEN)
def test_expressions_are_written_as_in_python(text, expression):
    assert update_of(text) == expression


def test_little_needs_to_be_said():
    program = Program.parse(
        """
        # every node gets the sum of all
        program all sum
        length 4
        round "edge 1"
          other <- x of i xor 1
          x = x + other
        round
          other <- x of i xor 2
          let both = x + other
          x = both
        """
    )
    assert (program.name, program.nodes, program.registers, program.inputs) == ("all sum", 4, ("x",), ("x",))
    assert run(program, np.arange(4.0).reshape(1, 4, 1)).tolist() == [[[6.0]] * 4]


@pytest.mark.parametrize(
    ("listed", "nodes"),
    [
        ("0..3", [0, 1, 2, 3]),
        ("3..0", [3, 2, 1, 0]),
        (". 0..2", [None, 0, 1, 2]),
        ("i - 1", [None, 0, 1, 2]),
        ("i + 2", [2, 3, None, None]),
        ("i", [0, 1, 2, 3]),
        ("i xor 3", [3, 2, 1, 0]),
        ("i xor 4", [0, 1, 2, 3]),
        ("2 * 4", [2] * 4),
        ("(0 .) * 2", [0, None, 0, None]),
        ("(0 * 2) (1) * 2", [0, 0, 1, 1]),
    ],
)
def test_tables_have_short_forms(listed, nodes):
    program = Program.parse(f"program p\nlength 4\nround\n  s <- x of {listed}\n  x = s")
    assert program.rounds[0].receive["s"] == reads("x", nodes)


def test_constants_and_tables_of_several_registers_have_short_forms():
    text = "program p\nlength 4\nconstant c = -1..1 0.5\nround\n  s <- x@1 . (c@0) * 2\n  x = s"
    program = Program.parse(text)
    assert program.constants == {"c": (-1.0, 0.0, 1.0, 0.5)}
    assert program.rounds[0].receive["s"] == ((1, "x"), None, (0, "c"), (0, "c"))


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.pos")), ids=lambda file: file.stem)
def test_examples_compile_and_hold(file):
    made = compile(read_program(file), domain=10).verify(samples=16)
    assert made.certificate is not None
    assert made.certificate.holds
    assert Program.parse(str(made.program)) == made.program


def test_there_is_an_example():
    assert list(EXAMPLES.glob("*.pos"))


# ---- what is wrong

HEAD = "program p\nlength 4\n"
WRONG = {
    "nothing": ("", "needs a line 'program …'"),
    "no length": ("program p", "needs a line 'length …'"),
    "an unknown line": (HEAD + "regsters x", "line 3, column 1: found 'regsters', expected one of .*'registers'"),
    "a line twice": (HEAD + "pad 1\npad 0", "line 4, column 1: a second line for 'pad'"),
    "length by word": ("program p\nlength four", "line 2, column 8: found 'four', expected a whole number"),
    "half a length": ("program p\nlength 2.5", "line 2, column 8: found '2.5'"),
    "more": (HEAD + "pad 1 2", "line 3, column 7: found '2', expected the end of the line"),
    "too many nodes": (HEAD + f"nodes {10**12}", "line 3, .* at most 16,777,216"),
    "a short constant": (HEAD + "constant c = 1 2", "line 3, column 17: the list has 2 entries for 4 nodes"),
    "a constant without numbers": (HEAD + "constant c = x", "line 3, column 14: found 'x', expected a number"),
    "a constant twice": (HEAD + "constant c = 0 * 4\nconstant c = 0 * 4", "line 4, column 10: a second line"),
    "a huge list": (HEAD + f"constant c = 0 * {10**11}", "line 3, .* at most 16,777,216 entries in all"),
    "nested lists": (HEAD + "constant c = " + "(" * 9 + "0" + " * 99) " * 9, "at most 16,777,216 entries in all"),
    "a huge range": (HEAD + f"constant c = 0..{10**11}", "line 3, .* at most 16,777,216 entries in all"),
    "half a range": (HEAD + "constant c = 0.5..3", "line 3, column 14: a range goes from a whole number"),
    "an open list": (HEAD + "constant c = (0 1", "line 3, column 18: found the end of the line, expected '\\)'"),
    "an open quote": (HEAD + 'inputs "x', "line 3, column 8: found a quote that is not closed, expected a register"),
    "a bad escape": (HEAD + 'inputs "\\x"', "line 3, column 8: .* is not a text in quotes"),
    "a recipe": (HEAD + "recipe sort", "line 3, column 8: a recipe is written as JSON"),
    "a recipe by number": (HEAD + "recipe 3", "recipe=3: give the arguments of library.get"),
    "an unknown word": (HEAD + "round\n  x = x + lefty\n", "line 4, column 11: found 'lefty', expected a register"),
    "the nearest word": (HEAD + "round\n left <- x of i\n x = lefty", "line 5, column 6: .*did you mean 'left'\\?"),
    "an unknown function": (HEAD + "round\n x = rleu(x)", "line 4, column 6: .* did you mean 'relu'\\?"),
    "python": (HEAD + "round\n x = __import__(x)", "line 4, column 6: found '__import__', expected a function"),
    "an attribute": (HEAD + "round\n x = x.y", "line 4, column 7: found '.', expected an operator"),
    "too few arguments": (HEAD + "round\n x = min(x)", "line 4, column 6: min takes 2 by place, and here are 1"),
    "no shutter": (HEAD + "round\n x = gate(x)", "line 4, column 6: gate needs shut=…, as gate\\(x, shut=b\\)"),
    "an unknown argument": (HEAD + "round\n x = gate(x, shot=x)", "line 4, column 14: .*did you mean 'shut'\\?"),
    "an argument twice": (HEAD + "round\n x = gate(x, shut=x, shut=x)", "column 22: .*expected one of shut, once"),
    "a grid of 0": (HEAD + "round\n x = positive(x, grid=0)", "line 4, column 6: grid=0"),
    "a division by 0": (HEAD + "round\n x = x / 0", "line 4, column 10: x / 0: divide by a number other than 0"),
    "an overflow": (HEAD + "round\n x = x * 1e308 * 1e308 + 1e400", "line 4"),
    "no operator": (HEAD + "round\n x = x x", "line 4, column 8: found 'x', expected an operator or the end"),
    "a strange sign": (HEAD + "round\n x = x % 2", "line 4, column 8: found '%'"),
    "an open parenthesis": (HEAD + "round\n x = (x + 1", "column 12: found the end of the line, expected '\\)'"),
    "deep parentheses": (HEAD + "round\n x = " + "(" * 9999, "parentheses are nested too deeply"),
    "neither": (HEAD + "round\n x + 1", "line 4, column 2: found 'x', expected slot <- …, register = …"),
    "a header line late": (HEAD + "round\npad 1", "line 4, column 1: found 'pad', expected slot <- "),
    "a register twice": (HEAD + "round\n x = 1\n x = 2", "line 5, column 2: a second line for register 'x'"),
    "a part with a register's name": (HEAD + "round\n let x = 1", "line 4, column 6: 'x' has a meaning already"),
    "an unknown register": (HEAD + "registers x\nround\n y = x", "line 5, column 2: found 'y', expected a register"),
    "a node by name": (HEAD + "round\n s <- x of a b", "line 4, column 12: found 'a', expected a node's number"),
    "a missing of": (HEAD + "round\n s <- x i", "line 4, column 9: found 'i', expected 'of'"),
    "a strange formula": (HEAD + "round\n s <- x of i * 2", "column 14: found '\\*', expected the end of the line"),
    "a node that is not there": (HEAD + "round\n s <- x of 0 1 2 4", "node 3 reads from node 4, outside 0 … 3"),
    "a register of nobody": (HEAD + "round\n s <- y of i\n x = s", "reads register 'y', which was never written"),
    "a note without quotes": (HEAD + "round add", "line 3, column 7: found 'add', expected a note in quotes"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "said"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said_with_its_place(text, said):
    with pytest.raises(PosattnError, match=said):
        Program.parse(text)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "bad.pos").write_bytes(b"\xff")
    for name, said in (("none.pos", "No such file"), ("bad.pos", "cannot be read as the text of a program")):
        with pytest.raises(PosattnError, match=f"{name}.*{said}"):
            read_program(tmp_path / name)
    (tmp_path / "wrong.pos").write_text("program p\n")
    with pytest.raises(PosattnError, match=r"wrong.pos': a program's text needs a line 'length …'"):
        read_program(tmp_path / "wrong.pos")


def test_a_library_program_in_a_file_has_the_librarys_oracle_and_a_changed_one_has_none(tmp_path):
    text = str(library.get("cumsum", 5))
    (tmp_path / "a.pos").write_text(text)
    (tmp_path / "b.pos").write_text(text.replace("x + left", "x - left"))
    assert read_program(tmp_path / "a.pos").oracle is not None
    changed = read_program(tmp_path / "b.pos")
    assert (changed.recipe, changed.oracle) == (None, None)
