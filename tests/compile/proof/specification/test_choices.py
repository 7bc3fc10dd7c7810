"""What an update chooses, told by z3 from its expression and its tables."""

from fractions import Fraction

import pytest

from posattn.compile import exchange, maximum, minimum, positive, relu, select, word
from posattn.compile.expressions import Expression, words_of
from posattn.compile.proof.findings import TimeLimit
from posattn.compile.proof.specification.choices import Choice, Choices
from posattn.compile.proof.specification.reading import Step
from posattn.compile.proof.specification.solver import Solver

HERE, THERE = (0, "x"), (1, "x")
SOURCES = {"x": HERE, "other": THERE, "index": (0, "index"), "index there": (1, "index")}
x, other, upper = word("x"), word("other"), word("upper")
swap = positive(x - other, grid=0.5)


def chosen(expression: Expression, bit: float = 0.0) -> Choice | None:
    sources = {name: SOURCES[name] for name in ("x", "other", "index", "index there") if name in words_of(expression)}
    numbers = {"upper": bit} if "upper" in words_of(expression) else {}
    return Choices(Solver(TimeLimit())).of(Step((0, "x"), expression, sources | dict.fromkeys(numbers)), numbers)


@pytest.mark.parametrize(
    ("expression", "bit", "less"),
    [
        (exchange(x, other, upper=upper), 0.0, HERE),
        (exchange(x, other, upper=upper), 1.0, THERE),
        (minimum(x, other), 0.0, HERE),
        (maximum(x, other), 0.0, THERE),
        (select(upper, maximum(x, other), minimum(x, other)), 1.0, THERE),
        (minimum(x + other, 2 * x) - relu(x - x) - minimum(x, x), 0.0, HERE),
    ],
)
def test_the_smaller_and_the_larger_of_two_words_are_told_apart(expression, bit, less):
    found = chosen(expression, bit)
    assert found is not None
    assert (found.one, found.other, found.if_less, found.gap) == (HERE, THERE, less, None)
    assert found.is_minimum == (less == HERE)
    assert found.is_maximum == (less == THERE)


def test_a_word_that_travels_is_chosen_by_others_that_lie_further_apart_than_half_the_grid():
    found = chosen(select(swap, word("index there"), word("index")))
    assert found == Choice(HERE, THERE, (0, "index"), (1, "index"), Fraction(1, 4))


def test_a_copy_compares_nothing():
    found = chosen(select(upper, other, x), 1.0)
    assert found is not None
    assert found.is_copy
    assert found.one == THERE


@pytest.mark.parametrize("expression", [x + other, minimum(x, other) + 1, minimum(x, 0), maximum(x, other) / 2])
def test_anything_else_is_no_choice(expression):
    assert chosen(expression) is None
