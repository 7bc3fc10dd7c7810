"""Actions: invariants and carriers are exact, and what has none is refused."""

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posattn import PosattnError
from posattn.nn import Action
from posattn.nn.symmetry import checked_symmetry, nothing, null_space, shift

numbers = st.integers(-3, 3).map(Fraction)


def times(row, rows):
    return tuple(
        sum((a * b for a, b in zip(row, column, strict=True)), Fraction(0)) for column in zip(*rows, strict=True)
    )


@settings(deadline=None)
@given(st.integers(1, 4).flatmap(lambda width: st.lists(st.lists(numbers, min_size=width, max_size=width), max_size=4)))
def test_a_null_space_is_left_alone_and_none_of_it_is_missing(rows):
    width = len(rows[0]) if rows else 3
    found = null_space(rows, width)
    for vector in found:
        assert all(sum((a * b for a, b in zip(row, vector, strict=True)), Fraction(0)) == 0 for row in rows)
    small = [
        v
        for v in product(range(-2, 3), repeat=width)
        if all(sum(a * b for a, b in zip(r, v, strict=True)) == 0 for r in rows)
    ]
    free = [column for column in range(width) if any(vector[column] for vector in found)]
    assert all(not any(v[c] for c in range(width) if c not in free) for v in small)
    for v in small:  # every solution is the combination of the basis that its free entries name
        places = [
            next(c for c in range(width) if b[c] == 1 and all(o[c] == 0 for o in found if o is not b)) for b in found
        ]
        made = tuple(sum((v[p] * b[c] for p, b in zip(places, found, strict=True)), Fraction(0)) for c in range(width))
        assert made == tuple(map(Fraction, v))


@settings(deadline=None)
@given(st.lists(st.lists(numbers, min_size=2, max_size=2), min_size=3, max_size=5), st.data())
def test_the_carrier_moves_as_the_answer_and_invariants_do_not_move(rows, data):
    weights = data.draw(st.lists(numbers, min_size=len(rows), max_size=len(rows)))
    action = Action((*map(tuple, rows), times(weights, rows)))
    assert times(action.carrier, rows) == action.rows[-1]
    assert all(not any(times(invariant, rows)) for invariant in action.invariants)
    assert Action.from_json(action.to_json()) == action


def test_the_usual_groups():
    assert shift(2).invariants == ((-1, 1),)
    assert shift(2).carrier == (1, 0)
    assert nothing(2).invariants == ((1, 0), (0, 1))
    assert nothing(2).carrier == (0, 0)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (((1, 0), (0, 1), (1, 1)), "leaves no invariant"),
        (((1,), (1,), (1, 0)), "equally long"),
        (((0, 0), (0, 0), (1, 0)), "no combination of the others"),
        ((("x",), (1,)), "rows of fractions"),
        (3, "rows of fractions"),
        (((float("nan"),), (1,)), "rows of fractions"),
        ((("1/0",), (1,), (1,)), "rows of fractions"),
        (((10**400,), (1,), (1,)), "too far apart"),
    ],
)
def test_what_is_no_action_is_refused(rows, said):
    with pytest.raises(PosattnError, match=said):
        Action(rows)


def test_names_and_actions_are_checked():
    assert checked_symmetry("scale") == ("scale",)
    assert checked_symmetry(["scale", shift(2)]) == ("scale", shift(2))
    assert checked_symmetry((shift(2).to_json(),)) == (shift(2),)
    for wrong, said in (
        ("scall", "did you mean 'scale'"),
        (("scale", "scale"), "named twice"),
        (("shift", "potential"), "two translations"),
        (3, "in a tuple"),
        ("[1", "not an action"),
    ):
        with pytest.raises(PosattnError, match=said):
            checked_symmetry(wrong)
