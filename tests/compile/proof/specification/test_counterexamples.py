"""Counterexamples are inputs that the program takes, and both sides are run on them."""

from dataclasses import replace

import numpy as np

from posattn.compile import Round, library, word
from posattn.compile.proof.findings import TimeLimit
from posattn.compile.proof.specification.counterexamples import checked, search
from posattn.compile.specification import Merged, Permuted


def test_a_right_program_has_no_counterexample():
    for name in library.PROGRAMS:
        assert search(library.get(name, 5), TimeLimit()) is None


def test_a_counterexample_says_what_is_found_and_what_is_asked_for():
    program = replace(library.get("cumsum", 3), rounds=())
    found = checked(program, np.array([[[0.0]] * 3, [[1.0], [2.0], [0.0]]]))
    assert found is not None
    assert str(found) == "for the input 1, 2, 0 node 1 gives 'x' = 2, and the specification asks for 3"


def test_inputs_lie_on_the_grid_and_addresses_are_permutations():
    still = replace(library.get("argsort", 4, grid=0.25), rounds=(Round(update={"index": word("place")}),))
    found = search(still, TimeLimit())
    assert found is not None
    assert np.array_equal(found.x % 0.25, np.zeros((4, 1)))
    fetching = library.get("fetch", 4)
    found = search(replace(fetching, rounds=fetching.rounds[:-1]), TimeLimit())
    assert found is not None
    assert sorted(found.x[:, 1]) == [0, 1, 2, 3]


def test_runs_are_ascending_where_a_merge_may_assume_it():
    program = replace(library.get("sort", 6), rounds=(), specification=Merged((3, 3)))
    found = search(program, TimeLimit())
    assert found is not None
    assert all(np.all(np.diff(run[:, 0]) >= 0) for run in (found.x[:3], found.x[3:]))
    assert search(replace(program, specification=Permuted(tuple(range(6)))), TimeLimit()) is None
