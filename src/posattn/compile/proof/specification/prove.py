"""Step 3 of a proof: the program, as its rounds are stored, computes what its specification says."""

from collections.abc import Sequence
from typing import NamedTuple

from posattn.compile import specification as specified
from posattn.compile.expressions import Array
from posattn.compile.input_ranges import grid_of
from posattn.compile.program import Program
from posattn.compile.proof.findings import Finding, Outcome, TimeLimit
from posattn.compile.proof.specification.answers import wrong_answer
from posattn.compile.proof.specification.computes import differing_input, linear
from posattn.compile.proof.specification.counterexamples import search
from posattn.compile.proof.specification.folds import wrong_output
from posattn.compile.proof.specification.follow import follow
from posattn.compile.proof.specification.solver import NotFollowed
from posattn.compile.proof.specification.zero_one import State, TooManyStates

ZERO_ONE = "the 0–1 principle, run by run, local functions by z3"
#: By what a specification is shown.
METHODS: dict[type[specified.Specification], str] = {
    specified.Sorted: ZERO_ONE,
    specified.Merged: ZERO_ONE,
    specified.Ranked: ZERO_ONE,
    specified.ArgSorted: f"distinct keys (x, place), then {ZERO_ONE}",
    specified.PrefixMedians: f"{ZERO_ONE}, then what is read",
    specified.Permuted: "every index followed",
    specified.Broadcast: "every index followed",
    specified.Fetched: f"addresses as any permutation, followed; sorts by {ZERO_ONE}",
    specified.Gathered: f"distinct keys, then {ZERO_ONE}; copies along the order by z3, then every index followed",
    specified.Scan: "the operator's laws by z3, then induction over rounds",
    specified.Reduced: "the operator's laws by z3, then induction over rounds",
    specified.Computes: "exact linear forms, z3 for the rest",
}


def prove_specification(program: Program, limit: TimeLimit) -> Finding:
    """Whether the program computes what its specification says, for every input.

    >>> from posattn.compile.programs import library
    >>> prove_specification(library.get("sort", 16), TimeLimit()).outcome
    <Outcome.STANDS: 'stands'>
    """
    given = program.specification
    if given is None:
        claim = f"'{program.name}' has no specification: the proof is about the program"
        return Finding(Outcome.ABSENT, claim, _inputs(program), "")
    claim, inputs, method = f"'{program.name}' is {_named(given)}", _inputs(program), METHODS[type(given)]
    left = _left_open(program, limit)
    if left is None:
        return Finding(Outcome.STANDS, claim, inputs, method)
    found = search(program, limit, states=left.states, x=left.x)
    if found is not None:
        return Finding(Outcome.REFUTED, claim, inputs, "the interpreter", str(found))
    return Finding(Outcome.OPEN, claim, inputs, method, left.why)


class _Open(NamedTuple):
    """What is not shown, and what may lead to a counterexample: states out of order, or an input."""

    why: str
    states: Sequence[State] = ()
    x: Array | None = None


def _left_open(program: Program, limit: TimeLimit) -> _Open | None:
    """What is not shown; None where everything is."""
    try:
        match program.specification:
            case specified.Folded():
                why = wrong_output(program, limit)
                return None if why is None else _Open(why)
            case specified.Computes():
                x = None if linear(program, limit) else differing_input(program, limit)
                return None if x is None else _Open("z3 finds an input, but in floats the outputs agree", x=x)
            case given:
                runs = given.runs if isinstance(given, specified.Merged) else ()
                followed = follow(program, limit, runs=runs)
                why = wrong_answer(program, followed.outputs)
                return None if why is None else _Open(why, followed.unsorted)
    except NotFollowed as reason:
        return _Open(str(reason))
    except TooManyStates as reached:
        return _Open(str(reached), reached.unsorted)


def _named(given: specified.Specification) -> str:
    shown = str(given)
    return shown if len(shown) <= 60 else f"{shown[:60]} …"


def _inputs(program: Program) -> str:
    """Which inputs a claim is about."""
    said = [f"'{name}': {_numbers(program, name)}" for name in program.inputs]
    if isinstance(program.specification, specified.Merged):
        said.append(f"in ascending runs of {', '.join(map(str, program.specification.runs))}")
    return "; ".join(said)


def _numbers(program: Program, name: str) -> str:
    """What an input may hold."""
    if name in program.permutations:
        return f"every permutation of 0 … {program.length - 1}"
    grid = grid_of(program, name)
    return "all real numbers" if grid is None else f"all multiples of {grid:g}"
