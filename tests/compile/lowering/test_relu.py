"""Expressions become ReLU units that compute the same: exactly on whole numbers, and no deeper than promised."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compile import trees
from posattn import PosattnError
from posattn.compile.expressions import (
    Expression,
    absolute,
    call,
    distance,
    equal,
    exchange,
    gate,
    maximum,
    minimum,
    positive,
    product,
    relu,
    select,
    walk,
    word,
)
from posattn.compile.interpreter import evaluate
from posattn.compile.lowering.expression_bounds import Interval, bounds
from posattn.compile.lowering.linear_forms import levels, mentions
from posattn.compile.lowering.mlp_matrices import Network, network
from posattn.compile.lowering.relu import Translator
from posattn.compile.program import ONE

NAMES, BITS = ("x", "a", "b"), ("p", "q")
x, a, b, p, q = map(word, (*NAMES, *BITS))
not_p = word("not p")


def interval(low: float, high: float) -> Interval:
    return Interval(np.array([low]), np.array([high]))


def ranges(reach: float = 4.0) -> dict[str, Interval]:
    bits = {name: interval(0, 1) for bit in BITS for name in (bit, f"not {bit}")}
    return {name: interval(-reach, reach) for name in NAMES} | bits


def translated(expression: Expression, words: dict[str, Interval], *, deeper: int = 0) -> Network:
    form = Translator(words).form(expression)
    unsigned = {name for name, held in words.items() if held.low.min() >= 0} | {ONE}
    return network([*words, ONE], [form], depth=levels([form]) + deeper, unsigned=unsigned)


def applied(net: Network, words: dict[str, np.ndarray]) -> np.ndarray:
    columns = [np.asarray(held, np.float64) for held in words.values()]
    return net(np.stack([*columns, np.ones_like(columns[0])], axis=-1))[..., 0]


def depth(expression: Expression, reach: float = 4.0) -> int:
    return levels([Translator(ranges(reach)).form(expression)])


def drawn(seed: int, *, whole: bool, samples: int = 60) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    bits = {bit: generator.integers(0, 2, samples).astype(np.float64) for bit in BITS}
    both = {name: held for bit in BITS for name, held in ((bit, bits[bit]), (f"not {bit}", 1 - bits[bit]))}
    numbers = generator.integers(-4, 5, (3, samples)) if whole else generator.uniform(-4, 4, (3, samples))
    return dict(zip(NAMES, numbers.astype(np.float64), strict=True)) | both


@pytest.mark.parametrize("deeper", [0, 1])
@settings(max_examples=100, deadline=None, derandomize=True)
@given(spec=trees.trees(NAMES, BITS, whole=True), seed=st.integers(0, 2**32))
def test_networks_equal_whole_expressions_exactly(deeper, spec, seed):
    tree, words = trees.grown(spec), drawn(seed, whole=True)
    expected = [tree.value(dict(zip(words, held, strict=True))) for held in zip(*words.values(), strict=True)]
    found = applied(translated(tree.expression, ranges(), deeper=deeper), words)
    np.testing.assert_array_equal(found, expected)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(trees.trees(NAMES, BITS, whole=False), st.integers(0, 2**32))
def test_networks_equal_expressions_within_rounding(spec, seed):
    expression, words = trees.grown(spec).expression, drawn(seed, whole=False)
    reach = sum(bounds(part, ranges()).reach for part in walk(expression))
    error = np.abs(applied(translated(expression, ranges()), words) - evaluate(expression, words)).max()
    assert error <= 4 * np.finfo(np.float64).eps * reach


@settings(max_examples=60, deadline=None, derandomize=True)
@given(trees.trees(NAMES, BITS, whole=True))
def test_nothing_comes_from_nothing(spec):
    """No unit has a bias: where every word is 0, and the register of ones too, as at the sink, the result is 0."""
    net = translated(trees.grown(spec).expression, ranges(), deeper=1)
    assert net(np.zeros((1, len(ranges()) + 1))) == 0


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (2 * x - a + 3, 1),  # there is always one
        (relu(x), 1),
        (minimum(x, a), 1),
        (maximum(x, a), 1),
        (absolute(x), 1),
        (gate(x, shut=p), 1),
        (gate(relu(x - a), shut=p), 1),
        (gate(x, shut=1 - p), 2),
        (gate(minimum(x, a), shut=p), 2),
        (gate(x, shut=distance(a, b)), 2),
        (exchange(x, a, upper=p, lower=not_p), 2),  # nobody knows that the two are complements
        (exchange(x, a, upper=p), 2),
        (select(p, x, a, unless=not_p), 2),
        (select(p, x, a), 2),
        (positive(x), 2),
        (1 - positive(x), 2),
        (select(positive(x - a), a, b), 3),
        (equal(x, a), 2),
        (minimum(minimum(x, a), minimum(b, p)), 2),
        (minimum(minimum(minimum(x, a), b), p), 3),
    ],
    ids=str,
)
def test_depth_is_as_promised(expression, expected):
    assert depth(expression) == expected


@pytest.mark.parametrize("expression", [exchange(x, a, upper=p, lower=not_p), select(p, x, a, unless=not_p)], ids=str)
def test_a_complement_that_is_a_constant_saves_a_level(expression):
    bits = np.array([0.0, 1.0, 1.0])
    known = {"p": Interval(bits, bits), "not p": Interval(1 - bits, 1 - bits)}
    wide = Interval(np.full(3, -4.0), np.full(3, 4.0))
    assert levels([Translator({"x": wide, "a": wide} | known).form(expression)]) == 1
    wrong = {"p": Interval(bits, bits), "not p": Interval(bits, bits)}
    assert levels([Translator({"x": wide, "a": wide} | wrong).form(expression)]) == 2


def test_a_gate_of_a_relu_is_one_unit_and_an_exchange_two():
    form = Translator(ranges()).form
    assert len(form(gate(relu(x - a), shut=p))) == 1
    assert len(form(gate(x - a, shut=p))) == 2
    assert len(form(exchange(x, a, upper=p, lower=not_p))) == 3  # own, and two units
    assert form(gate(0 * x, shut=p)) == {}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("complement", [None, not_p])
def test_open_gates_lose_nothing_beside_the_largest_constants(dtype, complement):
    words = ranges(reach=2.0**60)
    small = dtype(1e-3)
    assert dtype(2.0**61) + small == dtype(2.0**61)  # the gate's constant would swallow it
    for expression, shut, expected in [
        (gate(x, shut=p), 0, small),
        (gate(-x, shut=p), 0, -small),
        (gate(relu(x), shut=p), 0, small),
        (gate(x, shut=1 - p if complement is None else complement), 1, small),
        (select(p, x, 0, unless=complement), 1, small),
        (select(p, 0, x, unless=complement), 0, small),
        (exchange(x, 0 * a, upper=p, lower=complement), 1, small),
        (exchange(x, 0 * a, upper=p, lower=complement), 0, 0),
        (exchange(-x, 0 * a, upper=p, lower=complement), 0, -small),
        (gate(x, shut=distance(a, b)), 0, small),
        (gate(x, shut=p), 1, 0),
        (gate(x, shut=distance(a, b + 1)), 0, 0),
    ]:
        net = translated(expression, words)
        row = np.array([small, 0, 0, shut, 1 - shut, 0, 1, 1], dtype)
        got = Network(tuple(matrix.astype(dtype) for matrix in net.matrices))(row[None])
        assert got[0, 0] == expected, str(expression)


def test_shut_gates_hold_back_everything_within_the_bounds():
    words = ranges(reach=1000.0)
    edge = np.array([-1000.0, -999.9, 0.0, 999.9, 1000.0])
    held = dict.fromkeys(NAMES, edge) | {bit: np.ones(5) for bit in BITS}
    held = {name: held.get(name, np.zeros(5)) for name in words}
    for expression in (gate(x, shut=p), gate(x - a + b, shut=p), gate(relu(x), shut=p), gate(x, shut=p + q)):
        assert (applied(translated(expression, words), held) == 0).all(), str(expression)


def test_a_shutter_that_may_be_negative_shuts_nothing_then():
    words = {"x": interval(-4, 4), "a": interval(-2, 2)}
    held = {"x": np.array([3.0, 3.0, 3.0, -3.0]), "a": np.array([-2.0, 0.0, 1.0, -1.0])}
    assert applied(translated(gate(x, shut=a), words), held).tolist() == [3, 3, 0, -3]


def test_bits_are_whole_where_a_grid_was_rounded():
    """Multiples of 0.1 in float32, off by up to a fifth of that."""
    steps = np.arange(-10_000, 10_001) // 100
    grid = ((steps + np.random.default_rng(0).uniform(-0.2, 0.2, len(steps))) * 0.1).astype(np.float32)
    words = {"x": interval(-1000, 1000)}
    for expression, expected in [(positive(x, grid=0.1), steps > 0), (1 - positive(x, grid=0.1), steps <= 0)]:
        form = Translator(words).bit(expression)
        net = network(["x", ONE], [form], depth=levels([form]), unsigned={ONE})
        single = Network(tuple(matrix.astype(np.float32) for matrix in net.matrices))
        found = single(np.stack([grid, np.ones_like(grid)], axis=1))[:, 0]
        np.testing.assert_array_equal(found, expected)


def test_equal_units_are_computed_once():
    net = translated(minimum(x, a) + 2 * minimum(x, a) + relu(x - a), {"x": interval(0, 1), "a": interval(0, 1)})
    assert [matrix.shape for matrix in net.matrices] == [(3, 2), (2, 1)]  # relu(x − a), and x carried


def test_a_long_chain_compiles_quickly_and_right():
    names = [f"w{k}" for k in range(31)]
    words = {name: interval(-9, 9) for name in names}
    chain: Expression = word(names[0])
    for name in names[1:]:
        chain = minimum(chain, word(name))
    values = np.random.default_rng(0).integers(-9, 10, (31, 50)).astype(np.float64)
    net = translated(chain, words)
    assert len(net.matrices) == 31
    np.testing.assert_array_equal(applied(net, dict(zip(names, values, strict=True))), values.min(0))


def test_mentions_looks_into_units():
    form = Translator(ranges()).form(minimum(x, relu(a - gate(b, shut=p))))
    assert {name for name in (*NAMES, *BITS, ONE) if mentions(form, name)} == {"x", "a", "b", "p"}


def test_what_has_no_bounds_cannot_be_gated():
    words = ranges() | {"x": interval(-np.inf, np.inf)}
    with pytest.raises(PosattnError, match="x is not bounded, so no gate can shut it"):
        Translator(words).form(gate(x, shut=p))
    assert Translator(words).form(relu(x))


def test_functions_from_outside_need_a_fit():
    with pytest.raises(PosattnError, match=r"exp\(x\) is not piecewise linear: compile with fit=…, or write it in"):
        Translator(ranges()).form(call(np.exp, x))
    with pytest.raises(PosattnError, match="is not an expression"):
        Translator(ranges()).form(Expression())


def test_bounds_of_functions_from_outside_reach_their_corners():
    words = {"x": interval(-2, 3), "a": interval(-5, 1)}
    found = bounds(call(product, x, a), words)
    assert (found.low[0], found.high[0]) == pytest.approx((-15, 10))
    assert bounds(call(np.square, x), words).high == pytest.approx(9)


DIGESTS = """
import hashlib, json
import numpy as np
from posattn.compile import library
from posattn.compile.expressions import *
from posattn.compile.lowering.lower import lower
from posattn.compile.program import Program
from posattn.compile.rounds import Round

x, y, s = word("x"), word("y"), word("s")
deep = minimum(maximum(x, y - s), gate(relu(x + y), shut=positive(s)) + absolute(x - s)) + call(np.tanh, y)
mixed = Program(
    name="mixed", length=3, nodes=4, registers=("x", "y", "z"), inputs=("x", "y"), outputs=("y", "z"), grid=1.0,
    rounds=(
        Round(receive={"s": ((1, "x"), (0, "y"), None, (2, "x"))}, update={"z": deep, "y": select(positive(s), x, y)}),
        Round(receive={"s": ((3, "z"), (2, "y"), (1, "x"), None)}, update={"y": exchange(s, x, upper=positive(y))}),
    ),
)
programs = [library.get(name, n) for name, n in [("max-subarray", 8), ("argsort", 5), ("cummedian", 4), ("fetch", 3)]]
digests = {}
for program in [*programs, mixed]:
    low = lower(program, domain=8, fit=5)
    held = hashlib.sha256()
    for name, tensor in sorted(low.model.state_dict().items()):
        held.update(name.encode() + tensor.numpy().tobytes())
    digests[program.name] = [held.hexdigest(), str(program), low.registers, low.encoding, repr(low.fits)]
print(json.dumps(digests))
"""


def test_the_same_program_gives_the_same_weights_in_every_process():
    """Sets have another order in every process: the hash of a string depends on a seed."""
    found = []
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", DIGESTS],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(json.loads(done.stdout))
    assert found[0] == found[1]
    assert len({weights for weights, *_ in found[0].values()}) == 5
