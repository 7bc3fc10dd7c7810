"""Groups of compared numbers: rows of bits against all choices of bits, one at a time."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from posattn.compile.proof.specification.ranks import known_numbers, separation
from posattn.compile.proof.specification.terms import (
    Clipped,
    Entry,
    Form,
    Input,
    Payload,
    Permutation,
    added,
    number,
    whole,
)
from posattn.compile.proof.specification.zero_one import Group, Key, TooManyStates

PERMUTATION = Permutation("p", 3)


def run_of(size: int, start: int) -> Group:
    places = [(node, "x") for node in range(start, start + size)]
    return Group.sorted_run([Key(whole(Input("x", node))) for node, _ in places], places)


def test_a_run_has_one_column_for_every_number_of_ones():
    group = run_of(3, 0)
    bits = [np.unpackbits(group.rows[node, "x"], count=4).tolist() for node in range(3)]
    assert bits == [[0, 0, 0, 1], [0, 0, 1, 1], [0, 1, 1, 1]]
    assert [group.rank((node, "x")) for node in range(3)] == [0, 1, 2]


def test_two_runs_together_have_a_column_for_every_pair():
    group = run_of(2, 0).joined(run_of(1, 2), 1000)
    columns = np.array([np.unpackbits(group.rows[node, "x"], count=6) for node in range(3)]).T
    wanted = [[int(a > 1), int(a > 0), b] for a, b in itertools.product(range(3), range(2))]
    assert columns.tolist() == wanted
    assert group.ones.tolist() == [sum(column) for column in wanted]
    assert group.rank((2, "x")) is None


def test_a_group_becomes_a_run_once_every_word_has_a_rank():
    group = run_of(1, 0).joined(run_of(1, 1), 1000)
    group.settle()
    assert len(group.runs) == 2
    low, high = group.rows[0, "x"], group.rows[1, "x"]
    group.rows = {(0, "x"): low & high, (1, "x"): low | high}
    group.settle()
    assert (len(group.runs), group.ones.tolist()) == (1, [0, 1, 2])
    assert [group.rank((node, "x")) for node in range(2)] == [0, 1]


def test_states_that_are_out_of_order_are_named_by_the_bits_of_their_keys():
    group = run_of(1, 0).joined(run_of(1, 1), 1000)
    states = [dict(state) for state in group.unsorted_states()]
    assert {whole(Input("x", 0)): 1, whole(Input("x", 1)): 0} in states


def test_too_many_states_are_refused():
    with pytest.raises(TooManyStates):
        run_of(3, 0).joined(run_of(3, 3), 95)
    assert run_of(3, 0).joined(run_of(3, 3), 96).ones.size == 16


def test_words_that_travel_with_a_key_share_its_row():
    one, other = run_of(3, 0), run_of(3, 3)
    one.rows |= {(node, "y"): one.rows[node, "x"] for node in range(3)}
    group = one.joined(other, 96)
    assert all(group.rows[node, "y"] is group.rows[node, "x"] for node in range(3))


def shifted(atom: Input | Clipped | Entry, by: str) -> Form:
    return added(whole(atom), Form(Fraction(by)))


def cut(node: int, high: int) -> Clipped:
    return Clipped("x", node, Fraction(0), Fraction(high))


RECORDS = frozenset({(whole(Input("x", 0)), number(2.0)), (whole(Input("x", 1)), number(5.0))})
SEPARATIONS = {
    "ties below the grid": ([shifted(Input("x", i), f"{i}/4") for i in range(4)], 1.0, Fraction(1, 4)),
    "ties that wrap around": ([shifted(Input("x", i), f"{2 * i}/5") for i in range(3)], 1.0, Fraction(1, 5)),
    "equal ties": ([shifted(Input("x", i), "0") for i in range(2)], 1.0, Fraction(0)),
    "no grid": ([shifted(Input("x", i), f"{i}/4") for i in range(2)], None, None),
    "an input twice": ([shifted(Input("x", 0), f"{i}/4") for i in range(2)], 1.0, Fraction(1, 4)),
    "an input and numbers": ([shifted(Input("x", 0), "1/4"), number(1.0), number(3.0)], 1.0, Fraction(1, 4)),
    "an input and near numbers": ([shifted(Input("x", 0), "1/2"), number(1.0), number(1.125)], 1.0, Fraction(1, 8)),
    "an input and a number on its grid": ([whole(Input("x", 0)), number(7.0)], 1.0, Fraction(0)),
    "inputs of two grids": ([whole(Input("x", 0)), shifted(Input("y", 0), "1/4")], 1.0, None),
    "cut off on the grid": ([shifted(cut(i, 2), f"{i}/3") for i in range(2)], 1.0, Fraction(1, 3)),
    "cut off beside the grid": ([shifted(cut(i, 2), f"{i}/3") for i in range(2)], 4.0, None),
    "what records carry": ([whole(Payload(RECORDS, rank)) for rank in (1, 0)], None, Fraction(3)),
    "what some of the records carry": ([whole(Payload(RECORDS, 0)), number(9.0)], None, None),
    "entries": ([whole(Entry(PERMUTATION, i)) for i in range(3)], None, Fraction(1)),
    "entries and halves": ([whole(Entry(PERMUTATION, 0)), number(0.5)], None, Fraction(1, 2)),
    "entries and whole numbers": ([whole(Entry(PERMUTATION, 0)), number(1.0)], None, Fraction(0)),
    "an entry and its inverse's": (
        [whole(Entry(PERMUTATION, 0)), whole(Entry(PERMUTATION.inverted(), 0))],
        None,
        None,
    ),
}


@pytest.mark.parametrize(("forms", "grid", "wanted"), SEPARATIONS.values(), ids=SEPARATIONS)
def test_how_far_keys_are_apart(forms, grid, wanted):
    assert separation(forms, {"x": grid, "y": 0.5, "p": 1.0}) == wanted


def test_all_entries_of_a_permutation_are_known_but_for_their_order():
    entries = [Key(whole(Entry(PERMUTATION, node))) for node in range(3)]
    half = Key(number(0.5))
    assert known_numbers([*entries, half]) == [0, Fraction(1, 2), 1, 2]
    assert known_numbers(entries[:2]) is None
    assert known_numbers([*entries[:2], entries[0]]) is None
    assert known_numbers([Key(whole(Input("x", 0)))]) is None
