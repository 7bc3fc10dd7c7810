"""Expressions are worth what plain Python says, and lie within their bounds."""

import pickle
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posattn import PosattnError
from posattn.compile.expressions import (
    Call,
    Constant,
    Expression,
    Scaled,
    absolute,
    as_expression,
    call,
    children,
    clip,
    distance,
    equal,
    exchange,
    floor_divide,
    gate,
    maximum,
    minimum,
    modulo,
    positive,
    product,
    ramp,
    relu,
    renamed,
    select,
    walk,
    word,
    words_of,
)
from posattn.compile.interpreter import evaluate
from posattn.compile.lowering.expression_bounds import Interval, bounds

from . import trees

a, b, c = word("a"), word("b"), word("c")
NAMES, BITS = ("x", "a", "b"), ("p", "q")
ALL = (*NAMES, *BITS, *(f"not {bit}" for bit in BITS))
whole_trees = trees.trees(NAMES, BITS, whole=True)
real_trees = trees.trees(NAMES, BITS, whole=False)


def drawn(seed: int, *, whole: bool, shape: tuple[int, int] = (7, 3)) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    numbers = {name: generator.integers(-4, 5, shape) if whole else generator.normal(size=shape) * 4 for name in NAMES}
    bits = {bit: generator.integers(0, 2, shape) for bit in BITS}
    words = numbers | bits | {f"not {bit}": 1 - held for bit, held in bits.items()}
    return {name: np.asarray(held, np.float64) for name, held in words.items()}


def in_python(tree: trees.Tree, words: dict[str, np.ndarray]) -> np.ndarray:
    shape = next(iter(words.values())).shape
    one = {place: {name: float(held[place]) for name, held in words.items()} for place in np.ndindex(shape)}
    return np.array([tree.value(one[place]) for place in np.ndindex(shape)]).reshape(shape)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(whole_trees, st.integers(0, 2**32))
def test_whole_numbers_are_worth_what_python_says_exactly(spec, seed):
    tree = trees.grown(spec)
    words = drawn(seed, whole=True)
    np.testing.assert_array_equal(evaluate(tree.expression, words), in_python(tree, words))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(real_trees, st.integers(0, 2**32))
def test_numbers_are_worth_what_python_says(spec, seed):
    tree = trees.grown(spec)
    words = drawn(seed, whole=False)
    np.testing.assert_allclose(evaluate(tree.expression, words), in_python(tree, words), rtol=1e-13, atol=1e-11)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(whole_trees, st.integers(0, 2**32))
def test_values_lie_within_the_bounds_of_every_part(spec, seed):
    """Bounds differ from node to node; whole numbers, so that nothing is rounded."""
    tree = trees.grown(spec)
    generator = np.random.default_rng(seed)
    ends = {name: np.sort(generator.integers(-5, 6, (2, 3)), axis=0).astype(np.float64) for name in NAMES}
    words = drawn(seed, whole=True, shape=(40, 3))
    for name, (low, high) in ends.items():
        words[name] = generator.integers(low, high + 1, (40, 3)).astype(np.float64)
    unit = Interval(np.zeros(3), np.ones(3))
    intervals = dict.fromkeys(ALL, unit) | {name: Interval(*both) for name, both in ends.items()}
    for part in walk(tree.expression):
        found, value = bounds(part, intervals), evaluate(part, words)
        assert (found.low <= value).all(), str(part)
        assert (value <= found.high).all(), str(part)


def test_bounds_are_reached_where_words_occur_once():
    """By trying every corner."""
    intervals = {
        "a": Interval(np.array([-3.0]), np.array([2.0])),
        "b": Interval(np.array([1.0]), np.array([5.0])),
        "p": Interval(np.array([0.0]), np.array([1.0])),
    }
    p = word("p")
    cases = [
        a + b,
        2 - 3 * a,
        minimum(a, b),
        maximum(a, b),
        relu(a),
        gate(b, shut=p),
        select(p, a, b),
        exchange(a, b, upper=p),
    ]
    for expression in cases:
        corners = np.array([(x, y, z) for x in (-3.0, 2.0) for y in (1.0, 5.0) for z in (0.0, 1.0)])
        words = dict(zip("abp", corners.T[:, :, None], strict=True))
        values, found = evaluate(expression, words), bounds(expression, intervals)
        assert (found.low[0], found.high[0]) == (values.min(), values.max()), str(expression)


def test_bounds_do_not_grow_with_rounds_of_exchange_and_selection():
    words = {name: Interval(np.full(2, -1000.0), np.full(2, 1000.0)) for name in "ab"}
    words["p"] = Interval(np.zeros(2), np.ones(2))
    expression: Expression = a
    for _ in range(20):
        expression = select(word("p"), exchange(expression, b, upper=word("p")), b)
    assert bounds(expression, words).reach == 1000


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_have_the_dtype_of_the_words(dtype):
    words = {name: np.ones((2, 3), dtype) for name in "abc"}
    for expression in (a / 3 + 2, gate(a, shut=b), select(a, b, c), positive(a), equal(a, b), minimum(a, 0.1), a - 7):
        assert evaluate(expression, words).dtype == dtype
        assert evaluate(expression, words).shape == (2, 3)


def test_functions_of_two_words_by_hand():
    words = {"a": np.array([3.0, -3.0, 0.5]), "b": np.array([1.0, -3.0, 2.0])}
    for expression, expected in [
        (distance(a, b), [2, 0, 1.5]),
        (equal(a, b), [0, 1, 0]),
        (positive(a - b), [1, 0, 0]),
        (positive(a - b, grid=0.5), [1, 0, 0]),
        (positive(b - a, grid=0.5), [0, 0, 1]),
        (absolute(a), [3, 3, 0.5]),
        (call(product, a, b), [3, 9, 1]),
        (a / 4, [0.75, -0.75, 0.125]),
        (1 - a, [-2, 4, 0.5]),
        (2 + a, [5, -1, 2.5]),
    ]:
        np.testing.assert_array_equal(evaluate(expression, words), expected, str(expression))


def test_a_bit_forgives_rounding_of_a_grid_that_is_no_binary_fraction():
    three, rest = np.float64(0.1) * 3, np.float64(0.3)
    words = {"a": np.array([three]), "b": np.array([rest])}
    assert three != rest
    assert evaluate(positive(a - b, grid=0.1), words) == evaluate(positive(b - a, grid=0.1), words) == 0


def test_a_gate_is_shut_by_one_or_more():
    words = {"a": np.full(3, 7.0), "b": np.array([0.0, 1.0, 5.0])}
    assert evaluate(gate(a, shut=b), words).tolist() == [7, 0, 0]


def test_words_and_parts():
    expression = exchange(a, relu(b - c), upper=word("p"))
    assert words_of(expression) == {"a", "b", "c", "p"}
    assert [str(part) for part in children(a + b)] == ["a", "b"]
    assert sum(1 for _ in walk(a + b - c)) == 6


@settings(max_examples=60, deadline=None, derandomize=True)
@given(whole_trees, st.integers(0, 2**32))
def test_renamed_words_are_read_in_the_others_place(spec, seed):
    """Names may change places: all of them at once, not one after the other."""
    tree = trees.grown(spec)
    words = drawn(seed, whole=True)
    turned = {"a": "b", "b": "x", "x": "a"}
    other = renamed(tree.expression, turned)
    assert words_of(other) == {turned.get(name, name) for name in words_of(tree.expression)}
    moved = words | {new: words[old] for old, new in turned.items()}
    np.testing.assert_array_equal(evaluate(other, moved), evaluate(tree.expression, words))


def test_renaming_keeps_what_is_no_word():
    held = renamed(call(product, a, b) + 2.5 * positive(c, grid=0.25), {"a": "z"})
    assert str(held) == "(product(z, b) + 2.5·[c > 0])"
    (called,) = [part for part in walk(held) if isinstance(part, Call)]
    assert called.function is product


def test_expressions_read_like_formulas():
    assert str(a - 2 * b + 1) == "((a − 2·b) + 1)"
    assert str(gate(minimum(a, b), shut=c)) == "gate(min(a, b), shut=c)"
    assert str(select(c, a, b)) == "(a if c else b)"
    assert str(exchange(a, b, upper=c)) == "(max if c else min)(a, b)"


def test_numbers_become_constants():
    assert as_expression(3) == Constant(3.0)
    assert as_expression(a) is a
    assert a * 2 == 2 * a == Scaled(2.0, a)
    assert list(children(call(np.hypot, 3, a))) == [Constant(3.0), a]


another: Any = b  # what a type checker would not let pass
text: Any = "b"
nothing: Any = None
true: Any = np.bool_(True)
UNUSABLE: list[tuple[Any, str]] = [
    (lambda: a / 0, "a / 0: divide by a number other than 0"),
    (lambda: a * text, "'b' in an expression: an expression is multiplied by a number or by another expression"),
    (lambda: a + text, "'b' in an expression: use words, finite numbers"),
    (lambda: minimum(a, nothing), "None in an expression: use words"),
    (lambda: a + float("nan"), "nan in an expression: use finite numbers"),
    (lambda: float("inf") - a, "inf in an expression: use finite numbers"),
    (lambda: text - a, "'b' in an expression: use words"),
    (lambda: a * float("inf"), "inf in an expression: use finite numbers"),
    (lambda: float("nan") * a, "nan in an expression: use finite numbers"),
    (lambda: a / float("inf"), "inf in an expression: use finite numbers"),
    (lambda: a / 1e-320, "inf in an expression: use finite numbers"),
    (lambda: call(np.exp, text), "'b' in an expression: use words"),
    (lambda: call(nothing, a), "call(None, …): pass a function of NumPy arrays"),
    (lambda: word(nothing), "word(None): name a word by a text"),
    (lambda: positive(a, grid=0), "grid=0: the distance between neighbouring values must be above 0"),
    (lambda: equal(a, another, grid=-1), "grid=-1: the distance between neighbouring values must be above 0"),
    (lambda: positive(a, grid=float("inf")), "inf in an expression: use finite numbers"),
    (lambda: evaluate(Expression(), {"a": np.ones(1)}), "is not an expression of posattn.compile"),
    (lambda: bounds(Expression(), {}), "is not an expression of posattn.compile"),
    # what Python would decide by itself, once, when the program is written
    (lambda: a if a else another, "'if a', 'and', 'or' and 'not' decide once"),
    (lambda: not a, "write select(bit, one, zero)"),
    (lambda: a and another, "write select(bit, one, zero)"),
    (lambda: a if a == 0 else another, "a == 0: `==` compares two expressions as they are written"),
    (lambda: a * (a != 0), "equal(a, b) for the bit a = b"),
    (lambda: a in (0, 1), "a == 0"),
    (lambda: a**2, "a ** 2: powers are not piecewise linear"),
    (lambda: a % 2, "a % 2: remainders need bounds. Write modulo(a, 3, low=…, high=…)"),
    (lambda: a // 2, "a // 2: rounding needs bounds. Write floor_divide(a, 3, low=…, high=…)"),
    (lambda: text / a, "'b' in an expression"),
    (lambda: clip(a, low=1, high=0), "low=1, high=0: clip between two numbers, the smaller one first"),
    (lambda: clip(a, low=another, high=1), "in an expression: clip(value, low=…, high=…) takes numbers"),
    (lambda: ramp(a, width=0), "width=0: a ramp rises from 0 to a number above 0"),
    (lambda: modulo(a, 0, low=0, high=1), "divisor=0: numbers on a grid of 1 are divided by a multiple of it above 0"),
    (lambda: modulo(a, 0.5, low=0, high=1), "divisor=0.5: numbers on a grid of 1"),
    (lambda: modulo(a, 2, low=1, high=0), "low=1, high=0: the least value is no more than the largest"),
    (lambda: floor_divide(a, 1, low=0, high=1e6), "1,000,000 multiples of 1 from 0 to 1000000.0"),
    (lambda: a * 10**400, "inf in an expression: use finite numbers"),
    (lambda: a + (a == another), "False in an expression: `==` compares two expressions as they are written"),
    (lambda: gate(a, shut=a == a), "True in an expression"),
    (lambda: select(true, a, another), "equal(a, b) for the bit a = b"),
    (lambda: a * True, "True in an expression"),
    (
        lambda: min(a, another),
        "b < a: the values are not known",
    ),
    (
        lambda: max(a, 3),
        "Write minimum(a, b) and maximum(a, b)",
    ),
    (lambda: a > 0, "a > 0: the values are not known"),
    (lambda: a >= 0, "for the bit a > b positive(a - b) on a grid, or ramp(a - b, width=…) without one"),
    (lambda: a <= another, "a <= b: the values are not known"),
    (lambda: sorted([a, another]), "the values are not known"),
]


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(("build", "message"), UNUSABLE)
def test_what_is_no_expression_is_refused(build, message):
    with pytest.raises(PosattnError, match=re.escape(message)):
        build()


def test_the_magnitude_of_a_word_is_written_as_in_python():
    assert abs(a) == absolute(a)


def test_two_expressions_are_equal_where_they_are_written_alike():
    assert word("a") + 1 == word("a") + 1
    assert word("a") + 1 != word("a") + 2
    assert len({word("a") * 2, word("a") * 2}) == 1


@pytest.mark.parametrize("number", [np.int64(3), np.float32(0.5), np.float64(-2), 3, 0.5])
def test_numbers_of_numpy_are_numbers(number):
    words = {"a": np.array([4.0, -1.0])}
    np.testing.assert_array_equal(evaluate(a + number, words), words["a"] + float(number))
    np.testing.assert_array_equal(evaluate(number * a, words), words["a"] * float(number))
    assert positive(a, grid=np.float64(0.5)) == positive(a, grid=0.5)


def test_a_copy_from_another_process_equals_what_is_written_here():
    """Hashes of strings differ from process to process, so a kept one must not travel."""
    held = word("a") + 1
    assert hash(held) == hash(word("a") + 1)
    assert set(held.__getstate__()) == {"terms"}
    back = pickle.loads(pickle.dumps(held))
    assert (back, hash(back)) == (held, hash(held))


def test_a_part_that_is_used_twice_is_walked_once():
    shared = relu(a - b)
    assert [str(part) for part in walk(minimum(shared, 2 * shared))] == [
        "min(relu((a − b)), 2·relu((a − b)))", "relu((a − b))", "(a − b)", "a", "-b", "b", "2·relu((a − b))",
    ]  # fmt: skip
