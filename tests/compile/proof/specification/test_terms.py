"""Forms against numbers: whatever an expression of forms is, it is for every value of the atoms."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from posattn.compile import clip, distance, gate, maximum, minimum, positive, relu, select, word
from posattn.compile.expressions import Expression
from posattn.compile.interpreter import evaluate
from posattn.compile.proof.specification.evaluation import Evaluation, evaluated
from posattn.compile.proof.specification.terms import (
    ZERO,
    At,
    Clipped,
    Entry,
    Form,
    Hit,
    Input,
    Permutation,
    added,
    number,
    picked,
    scaled,
    whole,
)

PERMUTATION = Permutation("p", 3)
ENTRY, X = whole(Entry(PERMUTATION, 1)), whole(Input("x", 0))
WORDS = {"p": ENTRY, "x": X, "three": number(3.0)}
p, x, three = word("p"), word("x"), word("three")
TWICE = scaled(X, Fraction(2))

DECIDED: dict[str, tuple[Expression, Form]] = {
    "a sum": (x + x + 1 - x, added(X, number(1.0))),
    "what cancels": (x - x, ZERO),
    "a product with a number": (x * three, scaled(X, Fraction(3))),
    "relu of an entry": (relu(p), ENTRY),
    "relu of an entry below 0": (relu(-p), ZERO),
    "the larger of an entry and what it never exceeds": (maximum(p, 2), number(2.0)),
    "the smaller of them": (minimum(p, 2), ENTRY),
    "an open gate": (gate(x, shut=three - 3), X),
    "a shut gate": (gate(x, shut=p + 1), ZERO),
    "a choice": (select(three - 2, x, p), X),
    "a comparison": (positive(p - 3, grid=1.0), ZERO),
    "the larger of two equals": (maximum(x + x, 2 * x), TWICE),
}


@pytest.mark.parametrize(("expression", "wanted"), DECIDED.values(), ids=DECIDED)
def test_expressions_that_bounds_decide_are_forms(expression, wanted):
    assert evaluated(expression, WORDS) == wanted


@pytest.mark.parametrize("expression", [relu(2 * x), maximum(p, 1), gate(x, shut=p), positive(p - 1, grid=1.0), x * x])
def test_expressions_that_depend_on_the_input_are_not(expression):
    assert evaluated(expression, WORDS) is None


CUTS = {
    "below": (relu(x), 0, None),
    "below, with a number": (relu(x + 1) - 1, -1, None),
    "above": (minimum(x, 2), None, 2),
    "on both sides": (clip(x, low=-1, high=2), -1, 2),
    "by min and max": (maximum(minimum(x, 2), -1), -1, 2),
    "twice, the narrower one counts": (clip(clip(x, low=-2, high=3), low=-1, high=2), -1, 2),
    "where it was already": (clip(clip(x, low=-1, high=2), low=-2, high=3), -1, 2),
    "from the other side": (-maximum(-x, -2), None, 2),
}


@pytest.mark.parametrize(("expression", "low", "high"), CUTS.values(), ids=CUTS)
def test_an_input_that_is_cut_off_is_known_by_its_bounds(expression, low, high):
    ends = [None if end is None else Fraction(end) for end in (low, high)]
    assert evaluated(expression, WORDS) == whole(Clipped("x", 0, *ends))
    for value in (-5.0, -1.5, -0.5, 0.0, 1.5, 2.5, 5.0):  # what the interpreter gives
        wanted = min(max(value, -9 if low is None else low), 9 if high is None else high)
        assert evaluate(expression, {"x": np.array([value])}) == wanted


def test_a_cut_off_input_at_one_number_is_that_number():
    assert evaluated(clip(x, low=3, high=3), WORDS) == number(3.0)
    assert evaluated(positive(clip(x, low=1, high=3), grid=1.0), WORDS) == number(1.0)


def test_a_gate_that_opens_for_one_entry_is_a_hit():
    evaluation = Evaluation()
    shut = distance(p, word("to"))
    for to in range(3):
        found = evaluation.hit(gate(x, shut=shut), WORDS | {"to": number(float(to))})
        assert found == whole(Hit(PERMUTATION, 1, to, X))
    assert evaluation.hit(gate(x, shut=shut), WORDS | {"to": number(7.0)}) is None
    assert evaluation.hit(gate(x, shut=relu(p - 1)), WORDS) is None  # open for two values


def test_hits_by_all_entries_add_up_to_what_the_one_that_hits_carries():
    hits = [whole(Hit(PERMUTATION, node, 2, whole(Input("x", node)))) for node in range(3)]
    for one, two, three in itertools.permutations(hits):
        assert added(added(one, two), three) == whole(At("x", PERMUTATION.inverted(), 2))
        assert len(added(one, two).terms) == 2
    elsewhere = whole(Hit(PERMUTATION, 2, 1, whole(Input("x", 2))))
    assert len(added(added(hits[0], hits[1]), elsewhere).terms) == 3


def test_what_a_permutation_picks_is_named_only_where_it_is_known():
    inputs = [whole(Input("x", node)) for node in range(3)]
    assert picked(inputs, PERMUTATION, 1) == whole(At("x", PERMUTATION, 1))
    assert picked([number(float(node)) for node in range(3)], PERMUTATION, 1) == ENTRY
    assert picked([number(5.0)] * 3, PERMUTATION, 1) == number(5.0)
    assert picked(inputs[::-1], PERMUTATION, 1) is None
