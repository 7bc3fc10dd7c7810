"""Scans and reductions by the laws of their operator, users' semigroups among them."""

from dataclasses import replace

import pytest

from posattn.compile import Program, Round, library, maximum, reads, word
from posattn.compile.proof.findings import Outcome, TimeLimit
from posattn.compile.proof.specification import prove_specification
from posattn.compile.proof.specification.folds import wrong_output
from posattn.compile.specification import Reduced, Scan, Semigroup

#: x ↦ max(b, x + a) after one another: associative, and not commutative.
ADDED = Semigroup(
    parts=("scale", "shift"),
    enter={"scale": word("a"), "shift": word("b")},
    join={
        "scale": word("left scale") + word("right scale"),
        "shift": maximum(word("right shift"), word("left shift") + word("right scale")),
    },
    leave=(word("shift"),),
)


def two_inputs(length: int, shifts: list[int]) -> Program:
    """(a, b)₁ ∘ (a, b)₂ = (a₁ + a₂, max(b₂, b₁ + a₂)) over all prefixes, by doubling."""
    rounds = []
    for shift in shifts:
        sources = [i - shift if i >= shift else i for i in range(length)]
        alone = [float(i < shift) for i in range(length)]
        rounds.append((sources, alone))
    constants = {f"there{k}": tuple(1 - bit for bit in alone) for k, (_, alone) in enumerate(rounds)}
    return Program(
        name="two inputs",
        length=length,
        nodes=length,
        registers=("a", "b", *constants),
        rounds=tuple(
            Round(
                receive={"left a": reads("a", sources), "left b": reads("b", sources)},
                update={
                    "a": word("a") + word("left a") * word(f"there{k}"),
                    "b": maximum(word("b"), word("left b") + word("a") * word(f"there{k}")),
                },
            )
            for k, (sources, _) in enumerate(rounds)
        ),
        inputs=("a", "b"),
        outputs=("b",),
        constants=constants,
        specification=Scan(ADDED),
    )


def test_a_users_semigroup_of_two_inputs_is_proved():
    assert prove_specification(two_inputs(9, [1, 2, 4, 8]), TimeLimit()).outcome == Outcome.STANDS


@pytest.mark.parametrize("shifts", [[1, 2, 4], [1, 2, 2, 8], [2, 1, 4, 8], [1, 2, 4, 8, 1]])
def test_joins_that_leave_out_or_repeat_a_stretch_are_refuted(shifts):
    assert prove_specification(two_inputs(9, shifts), TimeLimit()).outcome == Outcome.REFUTED


def test_stretches_of_an_operator_that_is_not_commutative_join_from_left_to_right():
    program = two_inputs(2, [1])
    (round_,) = program.rounds
    swapped = replace(
        round_,
        receive={"left a": reads("a", [1, 0]), "left b": reads("b", [1, 0])},
    )
    changed = replace(program, rounds=(swapped,), constants={"there0": (1.0, 1.0)}, specification=Reduced(ADDED))
    assert prove_specification(changed, TimeLimit()).outcome == Outcome.REFUTED
    assert "no part of the operator" in str(wrong_output(changed, TimeLimit()))


def test_an_operator_that_is_not_associative_proves_nothing():
    mean = Semigroup(
        parts=("m",),
        enter={"m": word("x")},
        join={"m": (word("left m") + word("right m")) / 2},
        leave=(word("m"),),
    )
    halved = Round(receive={"left": reads("x", [0, 0])}, update={"x": word("x") / 2 + word("left") / 2})
    program = replace(library.get("cumsum", 2), rounds=(halved,), specification=Scan(mean))
    finding = prove_specification(program, TimeLimit())
    assert (finding.outcome, finding.detail) == (Outcome.OPEN, "its operator is not associative")


def test_facts_that_the_operator_does_not_keep_are_not_used():
    wrong = replace(
        Semigroup(
            parts=("s",), enter={"s": word("x")}, join={"s": word("left s") + word("right s")}, leave=(word("s"),)
        ),
        never_negative=(word("s"),),
    )
    finding = prove_specification(replace(library.get("cumsum", 4), specification=Scan(wrong)), TimeLimit())
    assert finding.outcome == Outcome.OPEN
    assert "can be negative" in finding.detail


def test_best_subarrays_need_the_facts_about_their_parts():
    program = library.get("max-subarray", 4)
    assert isinstance(program.specification, Scan)
    assert isinstance(program.specification.op, Semigroup)
    bare = Scan(replace(program.specification.op, never_negative=()))
    assert prove_specification(replace(program, specification=bare), TimeLimit()).outcome == Outcome.OPEN


def test_overlapping_minima_join_and_overlapping_sums_do_not():
    for name, first, why in (("cummin", 0, None), ("cumsum", None, "which the operator does not allow")):
        twice = [first, 0, 1, 2]
        program = library.get(name, 4)
        rounds = tuple(replace(round_, receive={"left": reads("x", twice)}) for round_ in program.rounds * 2)
        found = wrong_output(replace(program, rounds=rounds), TimeLimit())
        assert found is None if why is None else why in str(found)
