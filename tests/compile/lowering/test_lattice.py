"""Which numbers an expression can be: never fewer than it is, and a decision between them is refused."""

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compile import trees
from posattn.compile.interpreter import evaluate
from posattn.compile.lowering.expression_bounds import Interval
from posattn.compile.lowering.lattice import (
    WHOLE,
    ZERO,
    Kinds,
    Lattice,
    Values,
    added,
    between,
    joined,
    lattice,
    meant,
    multiplied,
    scaled,
)

fractions = st.fractions(min_value=-3, max_value=3, max_denominator=12)
lattices = st.builds(lambda offset, step: lattice(offset, abs(step)), fractions, fractions)


def members(kind: Any, count: int = 3) -> list[Fraction]:
    return [kind.offset + k * kind.step for k in range(-count, count + 1)]


def within(value: Fraction, kind: Any) -> bool:
    if kind.step == 0:
        return value == kind.offset
    return (value - kind.offset) % kind.step == 0


@settings(max_examples=40, deadline=None)
@given(lattices, lattices)
def test_sums_products_and_unions_of_members_are_members(one, other):
    for a, b in itertools.product(members(one), members(other)):
        assert within(a + b, added(one, other))
        assert within(a * b, multiplied(one, other))
        assert within(a, joined(one, other))
        assert within(b, joined(one, other))


@given(lattices, fractions)
def test_scaling_scales_the_members(one, factor):
    for a in members(one):
        assert within(factor * a, scaled(factor, one))


@settings(max_examples=50, deadline=None)
@given(lattices, fractions, fractions)
def test_what_lies_between_is_found_where_there_is_something(one, low, high):
    found = between(one, low, high)
    there = [a for a in members(one, 400 if one.step else 1) if low < a < high]
    if one.step == 0 or one.step >= Fraction(1, 50):  # 400 of them then cover −3 … 3
        assert (found is not None) == bool(there)
    if found is not None:
        assert low < found < high
        assert within(found, one)


def test_any_number_lies_between_and_stays_any_number():
    assert between(None, Fraction(0), Fraction(1)) is not None
    assert added(None, WHOLE) is joined(ZERO, None) is multiplied(None, WHOLE) is None
    assert scaled(Fraction(0), None) == multiplied(ZERO, None) == ZERO


@pytest.mark.parametrize(
    ("number", "fraction"),
    [(0.1, Fraction(1, 10)), (1 / 3, Fraction(1, 3)), (3 * 0.025, Fraction(3, 40)), (2.0**-40, Fraction(1, 2**40))],
)
def test_numbers_are_meant_as_they_are_written(number, fraction):
    assert meant(number) == fraction


@settings(max_examples=60, deadline=None)
@given(trees.trees(("x", "a"), ("p", "q"), whole=True), st.integers(0, 2**32 - 1), st.sampled_from([1.0, 0.5, 3.0]))
def test_values_lie_in_the_lattice_of_every_expression(spec, seed, grid):
    rng = np.random.default_rng(seed)
    words = {name: grid * rng.integers(-4, 5, (9, 3)).astype(float) for name in ("x", "a")}
    for bit in ("p", "q"):
        words[bit] = rng.integers(0, 2, (9, 3)).astype(float)
        words[f"not {bit}"] = 1 - words[bit]
    kinds = Kinds()
    held = {
        name: kinds.everywhere(Lattice(Fraction(0), Fraction(grid)) if name in ("x", "a") else WHOLE, 3)
        for name in words
    }
    ranges = {name: Interval(values.min(axis=0), values.max(axis=0)) for name, values in words.items()}
    expression = trees.grown(spec).expression
    places = Values(kinds, held, ranges).of(expression)
    values = np.broadcast_to(evaluate(expression, words), (9, 3))
    for node in range(3):
        kind = kinds.table[int(places[node])]
        assert kind is not None
        assert all(within(Fraction(float(value)), kind) for value in values[:, node])
