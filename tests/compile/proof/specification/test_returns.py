"""Gather, sorted there and back: changed programs stand exactly where they answer every request of every node."""

import importlib
import itertools
import random
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from posattn.compile import Program, library, run
from posattn.compile.expected import expected
from posattn.compile.proof.findings import Outcome, TimeLimit
from posattn.compile.proof.specification import prove_specification
from posattn.compile.proof.specification.returns import origins
from posattn.compile.proof.specification.terms import Input, Payload, number, whole

sys.path.append(str(Path(__file__).parents[4] / "benchmarks"))
specifications: Any = importlib.import_module("specifications")
pytestmark = pytest.mark.usefixtures("as_users_run_it")


def outcome(program: Program) -> Outcome:
    return prove_specification(program, TimeLimit()).outcome


def answers_all(program: Program) -> bool:
    """For every address of every node, and some beyond the ends."""
    length = program.length
    asked = np.array(list(itertools.product(range(-1, length + 1), repeat=length)), float)
    x = np.stack([np.tile(2.5 ** np.arange(length), (len(asked), 1)), asked], axis=2)
    return np.array_equal(run(program, x), expected(program, x))


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_gather_stands_and_answers_all(length):
    program = library.get("gather", length)
    assert answers_all(program)
    assert outcome(program) == Outcome.STANDS


def with_constant(program: Program, name: str, node: int, value: float) -> Program:
    values = list(program.constants[name])
    values[node] = value
    return replace(program, constants={**program.constants, name: tuple(values)}, recipe=None)


def judged(program: Program, seen: Counter[Outcome]) -> None:
    """Refuted exactly if some node gets a wrong answer; what is right stands or is left open."""
    found = outcome(program)
    seen[found] += 1
    assert (found == Outcome.REFUTED) == (not answers_all(program))


def test_gather_with_one_other_constant_is_refuted_exactly_if_an_answer_is_wrong():
    program = library.get("gather", 2)
    seen: Counter[Outcome] = Counter()
    for name, values in program.constants.items():
        for node, held in enumerate(values):
            for change in (-0.25, 0.125, 1.0):
                judged(with_constant(program, name, node, held + change), seen)
    assert seen[Outcome.REFUTED] > 8
    assert seen[Outcome.STANDS] > 8


def test_gather_with_one_read_or_comparator_changed_is_refuted_exactly_if_an_answer_is_wrong():
    draw = random.Random(3)
    seen: Counter[Outcome] = Counter()
    for change in specifications.CHANGES * 5:
        judged(specifications.changed(library.get("gather", 3), change, draw), seen)
    assert seen[Outcome.REFUTED] > 5


def test_gather_without_a_round_is_refuted_exactly_if_an_answer_is_wrong():
    program = library.get("gather", 3)
    seen: Counter[Outcome] = Counter()
    for count in range(1, len(program.rounds), 2):
        judged(replace(program, rounds=(*program.rounds[:count], *program.rounds[count + 1 :]), recipe=None), seen)
    assert seen[Outcome.REFUTED] > 3


def test_addresses_between_whole_numbers_are_not_proved():
    program = library.get("gather", 3)
    for grid in (None, {"x": 1.0}, {"from": 0.5}, {"from": 0.125}):
        assert outcome(replace(program, grid=grid, recipe=None)) != Outcome.STANDS
    assert outcome(replace(program, grid=1.0, recipe=None)) == Outcome.STANDS
    assert outcome(replace(program, grid={"from": 3.0}, recipe=None)) != Outcome.REFUTED


def test_halves_that_are_told_apart_are_no_addresses():
    program = library.get("gather", 2)
    apart = with_constant(with_constant(program, "offset", 0, 1 / 6), "offset", 1, 1 / 3)
    assert outcome(apart) == Outcome.STANDS
    assert outcome(replace(apart, grid={"from": 0.5})) == Outcome.OPEN


def test_records_are_known_by_numbers_that_differ_and_at_every_rank():
    one, other = whole(Input("x", 0)), whole(Input("x", 1))
    records = frozenset({(one, number(4.0)), (other, number(2.0))})
    both = [whole(Payload(records, 1)), whole(Payload(records, 0))]
    assert origins(both) == {4: one, 2: other}
    assert origins(both[:1]) is None
    assert origins([both[0], both[0]]) is None
    assert origins([both[0], number(2.0)]) is None
    equal = frozenset({(one, number(4.0)), (other, number(4.0))})
    assert origins([whole(Payload(equal, 1)), whole(Payload(equal, 0))]) is None
