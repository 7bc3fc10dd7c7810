"""What is known of values, against random expressions on random inputs: within the range and on the lattice."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from compile import trees
from posattn.compile.expressions import maximum, positive, word
from posattn.compile.lowering.lattice import WHOLE
from posattn.compile.proof.precision import PRECISIONS
from posattn.compile.proof.values import Evaluation, Undecided, Value, number

WORDS, BITS = ("x", "y"), ("bit",)
BOUND = Fraction(5)
SINGLE = PRECISIONS[torch.float32]


def known(*, whole: bool, error: Fraction = Fraction(0)) -> dict[str, Value]:
    free = Value(-BOUND, BOUND, WHOLE if whole else None, error)
    bit = Value(Fraction(0), Fraction(1), WHOLE)
    return {"x": free, "y": free, "bit": bit, "not bit": bit}


def drawn(rng: np.random.Generator, *, whole: bool) -> dict[str, float]:
    bit = float(rng.integers(0, 2))
    numbers = rng.integers(-5, 6, 2) if whole else rng.integers(-5 * 64, 5 * 64 + 1, 2) / 64
    return {"x": float(numbers[0]), "y": float(numbers[1]), "bit": bit, "not bit": 1 - bit}


@pytest.mark.parametrize("whole", [True, False])
@settings(max_examples=25, deadline=None)
@given(data=st.data(), seed=st.integers(0, 10**6))
def test_values_lie_within_the_range_and_on_the_lattice(whole, data, seed):
    tree = trees.grown(data.draw(trees.trees(WORDS, BITS, whole=whole)))
    found = Evaluation(known(whole=whole), SINGLE).of(tree.expression)
    rng = np.random.default_rng(seed)
    for _ in range(20):
        value = Fraction(tree.value(drawn(rng, whole=whole)))
        assert found.low <= value <= found.high
        if found.lattice is not None:
            offset, step = found.lattice
            assert value == offset if step == 0 else ((value - offset) / step).denominator == 1
        assert whole <= (found.lattice is not None)


@settings(max_examples=25, deadline=None)
@given(data=st.data(), seed=st.integers(0, 10**6))
def test_errors_of_words_move_a_value_by_no_more_than_its_error(data, seed):
    tree, off = trees.grown(data.draw(trees.trees(WORDS, BITS, whole=False))), Fraction(1, 256)
    found = Evaluation(known(whole=False, error=off), SINGLE).of(tree.expression)
    rng = np.random.default_rng(seed)
    for _ in range(20):
        words = drawn(rng, whole=False)
        moved = {n: v + float(off) * rng.choice([-1.0, 0.0, 1.0]) if n in WORDS else v for n, v in words.items()}
        assert abs(Fraction(tree.value(words)) - Fraction(tree.value(moved))) <= found.error


def test_a_decision_that_rounding_could_turn_around_is_refused():
    off = Value(-BOUND, BOUND, WHOLE, error=Fraction(1, 2))
    with pytest.raises(Undecided, match="compares values that rounding can move"):
        Evaluation({"x": off}, SINGLE).of(positive(word("x")))
    near = off._replace(error=Fraction(1, 1024))
    assert Evaluation({"x": near}, SINGLE).of(positive(word("x"))).error == 0


def test_a_value_and_its_opposite_are_not_below_0():
    value = Evaluation(known(whole=False), SINGLE).of(maximum(word("x"), -1.0 * word("x")))
    assert (value.low, value.high) == (0, BOUND)
    assert number(Fraction(3)).fixed
