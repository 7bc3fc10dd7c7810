"""Expressions are graphs: parts that are used many times are visited once, in everything that is done with a program.

y = e + e, e = f + f … over 40 levels has 2⁴⁰ words: what visits them one by one never ends.
"""

import json
from collections.abc import Callable

import numpy as np
import pytest
import torch

from posattn import PosattnError
from posattn.compile import Program, Round, compile, exchange, gate, library, load, maximum, relu, run, select, word
from posattn.compile import program_json as serial
from posattn.compile.expressions import Expression, Once, children, shared_parts, walk
from posattn.compile.lowering.expression_bounds import Interval, bounds

#: Without the checks of annotations, which take longer than all the rest here.
pytestmark = pytest.mark.usefixtures("as_users_run_it")
LEVELS = 40
x, bit, other = word("x"), word("bit"), word("not bit")

#: How each level is made of the one below; values stay small, and are known.
STEPS: dict[str, Callable[[Expression], Expression]] = {
    "sums": lambda e: 0.5 * e + 0.5 * e,
    "products": lambda e: word("half") * e + word("half") * e,
    "maxima": lambda e: maximum(e, 0.5 * e + 0.5 * e),
    "exchanges": lambda e: exchange(e, e, upper=bit, lower=other),
    "selections": lambda e: select(bit, e, 1.0 * e, unless=other),
    "gates": lambda e: gate(0.5 * e, shut=bit) + gate(0.5 * e, shut=other) + 0.5 * e,
}


def deep(kind: str, levels: int = LEVELS) -> Program:
    expression: Expression = x
    for _ in range(levels if kind != "gates" else levels // 2):  # 3²⁰, and four parts per level
        expression = STEPS[kind](expression)
    return Program(
        name=kind,
        length=2,
        nodes=2,
        registers=("x", "bit", "not bit", "half"),
        constants={"bit": (0.0, 1.0), "not bit": (1.0, 0.0), "half": (0.5, 0.5)},
        rounds=(Round(update={"x": expression}),),
    )


@pytest.mark.parametrize("kind", STEPS)
def test_a_deep_graph_is_written_run_saved_and_compared(kind):
    program = deep(kind)
    numbers = np.array([[[3.0], [5.0]]])
    assert run(program, numbers).tolist() == numbers.tolist()
    assert program == deep(kind)
    assert hash(program.rounds[0].update["x"]) == hash(deep(kind).rounds[0].update["x"])
    assert program != deep(kind, LEVELS - 2)
    assert Program.parse(str(program)) == program
    text = serial.to_json(program)
    assert len(text) < 10**6
    assert serial.from_json(text) == program
    assert len(program.summary()) < 100_000
    twice = program.then(deep(kind))
    assert run(twice, numbers).tolist() == numbers.tolist()


@pytest.mark.parametrize("kind", ["sums", "exchanges"])
def test_a_deep_graph_compiles_and_is_verified_and_saved(kind, tmp_path):
    made = compile(deep(kind, 12 if kind == "exchanges" else LEVELS), domain=8, dtype=torch.float64).verify(samples=8)
    assert made.certificate is not None
    assert made.certificate.holds
    made.save(tmp_path / "made.safetensors")
    assert load(tmp_path / "made.safetensors").certificate == made.certificate
    assert made(torch.tensor([3.0, 5.0])).tolist() == [3.0, 5.0]


def test_a_sum_of_more_terms_than_float32_has_digits_for_has_no_bound():
    """(k − 1)·u is above 1 for k = 2⁴⁰: a bound that divides by 1 − (k − 1)·u would be negative."""
    with pytest.raises(PosattnError, match=r"rounding in torch.float32 could take all of its digits.*float64"):
        compile(deep("sums"), domain=8).verify(samples=8)


def test_units_of_a_deep_graph_are_made_once():
    """One ReLU deep per level: as many hidden layers as levels, and not more units than a few per layer."""
    made = compile(deep("maxima", 12), domain=8, dtype=torch.float64)
    assert made.model.architecture.hidden_dim < 100
    assert made(torch.tensor([3.0, 5.0])).tolist() == [3.0, 5.0]


def test_every_part_is_computed_once():
    seen = []
    count = Once(lambda part, of: seen.append(part) or 1 + sum(map(of, children(part))))
    expression = deep("sums").rounds[0].update["x"]
    assert count.of(expression) == 2 ** (LEVELS + 2) - 3  # of the tree, though only its distinct parts were visited
    assert len(seen) == len(walk(expression)) == 2 * LEVELS + 1
    ranges = {"x": Interval(np.array([-1.0]), np.array([1.0]))}
    assert bounds(expression, ranges).high.tolist() == [1.0]


def test_equal_graphs_that_share_nothing_with_each_other_are_equal():
    one, two, three = x, x, x
    for level in range(60):
        one, two, three = relu(one) + relu(one), relu(two) + relu(two), relu(three) + (relu(three) if level else x)
    assert one == two
    assert one != three
    assert len({one, two, three}) == 2


def test_an_error_about_a_deep_graph_is_short():
    program = deep("sums")
    expression = gate(x, shut=program.rounds[0].update["x"])
    with pytest.raises(PosattnError, match=r"gate\(x, shut=…\) decides by \(… \+ …\)") as caught:
        compile(Program(name="p", length=1, nodes=1, registers=("x",), rounds=(Round(update={"x": expression}),)))
    assert len(str(caught.value)) < 1000


def test_shared_parts_come_after_what_they_are_made_of():
    small = x + 1
    large = relu(small) + relu(small)
    found = shared_parts([large + large, small], least=2)
    assert found == [small, relu(small), large]
    assert shared_parts([large + large, small], least=4) == [
        relu(small)
    ]  # where it counts as one part of what is larger


def test_small_parts_are_saved_where_they_are_used():
    """As in files from before: their digests stay what they are."""
    for name in ("sort", "max-subarray", "argsort", "fetch"):
        assert "shared" not in json.loads(serial.to_json(library.get(name, 5)))["rounds"][0]


@pytest.mark.parametrize("place", [-1, 31, 0.5, True, "0", None])
@pytest.mark.parametrize("where", ["update", "shared"])
def test_a_part_that_is_not_there_is_refused(place, where):
    held = json.loads(SHARED)
    assert 1 < len(held["rounds"][0]["shared"]) <= 31
    held["rounds"][0][where]["x" if where == "update" else 0] = ["Shared", place]
    with pytest.raises(PosattnError, match="not the description of a program"):
        serial.from_json(json.dumps(held))


SHARED = serial.to_json(deep("sums"))
