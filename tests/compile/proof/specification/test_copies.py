"""Copies along an order, against the words of records written out one by one."""

import itertools

import pytest

from posattn.compile import maximum, select, word
from posattn.compile.expressions import Expression
from posattn.compile.proof.findings import TimeLimit
from posattn.compile.proof.specification.copies import Copies
from posattn.compile.proof.specification.solver import Solver
from posattn.compile.proof.specification.terms import (
    UNIT,
    ZERO,
    AnyFlag,
    Form,
    Input,
    LastFlagged,
    Payload,
    number,
    whole,
)

KEYS = [number(float(place)) for place in range(4)]
FLAGS = frozenset(zip(KEYS, (UNIT, ZERO, UNIT, ZERO), strict=True))
WORDS = frozenset(zip(KEYS, (whole(Input("x", 0)), ZERO, whole(Input("x", 1)), ZERO), strict=True))
BOTH = frozenset((key, dict(FLAGS)[key], dict(WORDS)[key]) for key in KEYS)
TAKE = select(word("full"), word("x"), word("number"))
EITHER = maximum(word("full"), word("known"))


def made(expression: Expression, **words: Form) -> Form | None:
    return Copies(Solver(TimeLimit())).value(expression, words)


def flag(first: int, last: int) -> Form:
    return whole(AnyFlag(FLAGS, first, last))


def last(first: int, last: int) -> Form:
    return whole(LastFlagged(BOTH, first, last))


def of(records: frozenset, rank: int) -> Form:
    return whole(Payload(records, rank))


def test_the_word_of_a_record_and_that_before_it_is_that_of_both():
    assert made(TAKE, full=of(FLAGS, 1), x=of(WORDS, 1), number=of(WORDS, 0)) == last(0, 1)
    assert made(EITHER, full=of(FLAGS, 1), known=of(FLAGS, 0)) == flag(0, 1)


def test_a_node_with_nothing_before_it_keeps_its_word():
    assert made(TAKE, full=of(FLAGS, 0), x=of(WORDS, 0), number=ZERO) == last(0, 0)
    assert made(EITHER, full=of(FLAGS, 0), known=ZERO) == flag(0, 0)


STRETCHES = [(first, end) for first in range(4) for end in range(first, 4)]


@pytest.mark.parametrize("mine", STRETCHES, ids=str)
@pytest.mark.parametrize("left", STRETCHES, ids=str)
def test_two_stretches_are_one_exactly_if_the_copy_gives_its_word_for_all_flags(left, mine):
    found = made(TAKE, full=flag(*mine), x=last(*mine), number=last(*left))
    if found is None:
        return
    atom = found.atom()
    assert isinstance(atom, LastFlagged)

    def held(flags: tuple[int, ...], first: int, end: int) -> int:
        return next((rank + 1 for rank in range(end, first - 1, -1) if flags[rank]), 0)

    for flags in itertools.product((0, 1), repeat=4):
        copied = held(flags, *mine) or held(flags, *left)
        assert copied == held(flags, atom.first, atom.last)


def test_stretches_that_adjoin_are_joined():
    assert made(TAKE, full=flag(2, 3), x=last(2, 3), number=last(0, 1)) == last(0, 3)
    assert made(TAKE, full=flag(1, 3), x=last(1, 3), number=last(0, 2)) == last(0, 3)
    assert made(EITHER, full=flag(2, 3), known=flag(0, 1)) == flag(0, 3)


OTHER = frozenset((key, UNIT) for key in KEYS)
STRAY = frozenset((key, whole(Input("x", place))) for place, key in enumerate(KEYS))
REFUSED: dict[str, tuple[Expression, dict[str, Form]]] = {
    "a gap between stretches": (TAKE, {"full": flag(2, 3), "x": last(2, 3), "number": last(0, 0)}),
    "the later one asked last": (TAKE, {"full": flag(0, 1), "x": last(0, 1), "number": last(2, 3)}),
    "the flag of another stretch": (TAKE, {"full": flag(0, 1), "x": last(2, 3), "number": last(0, 1)}),
    "the other way round": (
        select(word("full"), word("number"), word("x")),
        {"full": flag(2, 3), "x": last(2, 3), "number": last(0, 1)},
    ),
    "the flags of other records": (
        TAKE,
        {"full": whole(AnyFlag(OTHER, 2, 3)), "x": last(2, 3), "number": last(0, 1)},
    ),
    "words without a flag": (TAKE, {"full": of(FLAGS, 1), "x": of(STRAY, 1), "number": of(STRAY, 0)}),
    "no flag": (TAKE, {"full": number(1.0), "x": last(2, 3), "number": last(0, 1)}),
    "something else": (word("x") + word("number"), {"full": flag(2, 3), "x": last(2, 3), "number": last(0, 1)}),
    "a sum of flags": (word("full") + word("known"), {"full": flag(2, 3), "known": flag(0, 1)}),
}


@pytest.mark.parametrize(("expression", "words"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_copy_along_the_order_is_refused(expression, words):
    assert made(expression, **words) is None
