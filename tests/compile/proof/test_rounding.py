"""Sums in float32, in any order, against the bound on their rounding."""

import random
from fractions import Fraction

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posattn.compile.proof.layer_weights import Cone
from posattn.compile.proof.precision import PRECISIONS
from posattn.compile.proof.rounding import Term, add, own_rounding

SINGLE = PRECISIONS[torch.float32]
NONE = Fraction(0)


def in_any_order(products: list[np.float32], pick: random.Random) -> np.float32:
    """Two of the numbers are added up, again and again, any two."""
    left = list(products)
    while len(left) > 1:
        one, other = (left.pop(pick.randrange(len(left))) for _ in range(2))
        left.append(np.float32(one + other))
    return left[0]


WEIGHTS = st.sampled_from([1.0, -1.0, 2.0, 0.5, -3.0, 1.1, 1e-3])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(WEIGHTS, st.floats(2.0**-7, 1000, width=32)), min_size=1, max_size=7), st.integers(0, 10**6))
def test_no_order_of_summation_exceeds_the_bound(entries, seed):
    pick = random.Random(seed)
    weights = [np.float32(weight) for weight, _ in entries]
    column = {row: Fraction(float(weight)) for row, weight in enumerate(weights)}
    terms = [Term(Fraction(-reach), Fraction(reach), NONE, NONE) for _, reach in entries]
    found = add(column, terms, SINGLE)
    for _ in range(10):
        numbers = [np.float32(pick.choice([pick.uniform(-1, 1), 1.0, -1.0]) * reach) for _, reach in entries]
        exactly = sum(w * Fraction(float(v)) for w, v in zip(column.values(), numbers, strict=True))
        total = in_any_order([np.float32(w * v) for w, v in zip(weights, numbers, strict=True)], pick)
        assert found.low <= exactly <= found.high
        assert abs(Fraction(float(total)) - exactly) <= found.error


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([1, -2, 3, 5]), st.integers(1, 2**12)), min_size=1, max_size=6), st.data())
def test_whole_numbers_of_few_bits_are_added_up_exactly(entries, data):
    pick = random.Random(data.draw(st.integers(0, 10**6)))
    column = {row: Fraction(weight) for row, (weight, _) in enumerate(entries)}
    terms = [Term(Fraction(-reach), Fraction(reach), NONE, Fraction(1)) for _, reach in entries]
    assert add(column, terms, SINGLE).error == 0
    numbers = [pick.randint(-reach, reach) for _, reach in entries]
    exactly = sum(weight * v for (weight, _), v in zip(entries, numbers, strict=True))
    assert int(in_any_order([np.float32(w * v) for (w, _), v in zip(entries, numbers, strict=True)], pick)) == exactly


def test_the_bound_is_reached_up_to_a_factor_of_two():
    column, reach = {0: Fraction(1), 1: Fraction(1)}, Fraction(1000)
    bound = add(column, [Term(-reach, reach, NONE, NONE)] * 2, SINGLE).error
    rng = np.random.default_rng(0)
    a, b = rng.uniform(500, 1000, (2, 10_000)).astype(np.float32)
    worst = np.abs((a + b).astype(np.float64) - (a.astype(np.float64) + b.astype(np.float64))).max()
    assert worst <= bound <= 2 * Fraction(float(worst))


@settings(max_examples=200, deadline=None)
@given(st.floats(-1, 1, width=32), st.floats(-1, 1, width=32), st.floats(-1, 1, width=32), WEIGHTS)
def test_a_number_carried_by_two_relu_units_is_one_term(x, one, other, weight):
    w, error = np.float32(weight), Fraction(1, 1024)
    up = Term(NONE, Fraction(1), error, NONE, frozenset({(0, Fraction(1))}))
    down = up._replace(of=frozenset({(0, Fraction(-1))}))
    column = {0: Fraction(float(w)), 1: -Fraction(float(w))}
    found = add(column, [up, down], SINGLE)
    plus = np.float32(max(x + float(error) * one, 0.0))
    minus = np.float32(max(-x + float(error) * other, 0.0))
    total = np.float32(np.float32(w * plus) - np.float32(w * minus))
    assert abs(Fraction(float(total)) - column[0] * Fraction(x)) <= found.error
    apart = add(column, [up._replace(of=frozenset()), down], SINGLE)
    assert found.high - found.low <= apart.high - apart.low


def test_opposite_sums_that_are_not_units_are_two_terms():
    """W_O gives x and −x, and a unit is 3·x − 3·(−x): two products that round alike, twice as far off as one."""
    one, three = Fraction(1), Fraction(3)
    cone = Cone(((0, 0),), [{0: one}], [{0: one}, {0: -one}], [[{0: three, 1: -three}], [{0: one}]])
    bound = own_rounding(
        cone, [Term(NONE, Fraction(1000), NONE, NONE)], reach=Fraction(6000), precision=SINGLE, stays=lambda *_: False
    )
    x = np.random.default_rng(0).uniform(900, 1000, 1000).astype(np.float32)
    found = np.float32(3) * x + np.float32(3) * x
    assert np.abs(found.astype(np.float64) - 6 * x.astype(np.float64)).max() <= float(bound)
