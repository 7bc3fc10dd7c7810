"""Scans and reductions: which inputs every word joins, followed round by round, by the laws of the operator.

A word is a part of the operator over a set of inputs. Because the operator is associative, the order in which
neighbouring stretches are joined does not matter; where it is commutative, disjoint sets may be joined, and where it is
idempotent as well, sets that overlap. z3 shows these laws, and that every update is a join.
"""

import itertools
from fractions import Fraction
from typing import Any, NamedTuple

from posattn.compile.program import Program
from posattn.compile.proof.findings import TimeLimit
from posattn.compile.proof.specification.evaluation import evaluated
from posattn.compile.proof.specification.reading import Place, Step, first_number, readings
from posattn.compile.proof.specification.solver import NotFollowed, Solver
from posattn.compile.proof.specification.terms import Form
from posattn.compile.specification import Folded, Scan, Semigroup

#: The z3 terms of a tuple, by the names of its parts.
Parts = dict[str, Any]


class Held(NamedTuple):
    """What a word is, under every name that fits it: a part, an input or an output, over the inputs in a bit mask."""

    mask: int
    names: frozenset[str]


class Unfit(NamedTuple):
    """A word that is no part of the operator over any inputs, and why."""

    why: str


Value = Fraction | Held | Unfit


def wrong_output(program: Program, limit: TimeLimit) -> str | None:
    """Why some output is not shown to be what a scan or a reduction asks for; None where all are."""
    given = program.specification
    assert isinstance(given, Folded)
    operator = Operator(given.semigroup(program.inputs), program.inputs, Solver(limit))
    state = _first(program, operator)
    for count, reading in enumerate(readings(program), 1):
        limit.check()
        state.update({step.place: _updated(step, state, operator, f"round {count}") for step in reading.steps})
    for place, name in enumerate(program.outputs):
        for node in range(program.output_nodes):
            wanted = (2 << (node if isinstance(given, Scan) else program.length - 1)) - 1
            found = state[node, name]
            if isinstance(found, Unfit):
                return found.why
            if not isinstance(found, Held) or found.mask != wanted or f"output {place}" not in found.names:
                return f"node {node}: '{name}' is {_shown(found)}, not the operator over {_span(wanted)}"
    return None


def _first(program: Program, operator: "Operator") -> dict[Place, Value]:
    state: dict[Place, Value] = {}
    for register in program.registers:
        for node in range(program.nodes):
            if register in program.inputs and node < program.length:
                state[node, register] = Held(1 << node, operator.names_of_input(register))
            else:
                start = 0.0 if register in program.inputs else first_number(program, (node, register))
                state[node, register] = Fraction(start)
    return state


def _updated(step: Step, state: dict[Place, Value], operator: "Operator", where: str) -> Value:
    words: dict[str, Value] = {name: Fraction(0) if at is None else state[at] for name, at in step.sources.items()}
    for value in words.values():
        if isinstance(value, Unfit):
            return value
    numbers = {name: value for name, value in words.items() if isinstance(value, Fraction)}
    held = {name: value for name, value in words.items() if isinstance(value, Held)}
    node, register = step.place
    if not held:
        form = evaluated(step.expression, {name: Form(value) for name, value in numbers.items()})
        return Unfit(f"{where}, node {node}: '{register}' is not a number") if form is None else form.constant
    masks = sorted({value.mask for value in held.values()}, key=lambda mask: (mask & -mask, mask))
    if not operator.may_join(masks):
        spans = ", ".join(map(_span, masks))
        return Unfit(f"{where}, node {node}: '{register}' joins {spans}, which the operator does not allow")
    places = {name: (masks.index(value.mask), min(value.names)) for name, value in held.items()}
    names = operator.names(step, numbers, places, [mask.bit_count() == 1 for mask in masks])
    if not names:
        return Unfit(f"{where}, node {node}: '{register}' is no part of the operator over {_span(_union(masks))}")
    return Held(_union(masks), names)


def _union(masks: list[int]) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found


def _shown(value: Value) -> str:
    return f"{' or '.join(sorted(value.names))} over {_span(value.mask)}" if isinstance(value, Held) else f"{value}"


def _span(mask: int) -> str:
    low, high = (mask & -mask).bit_length() - 1, mask.bit_length() - 1
    between = "" if mask.bit_count() == high - low + 1 else ", not all of them"
    return f"inputs {low} … {high}{between}" if high > low else f"input {low}"


class Operator:
    """A semigroup in z3, its laws, and what an update is in its terms."""

    def __init__(self, semigroup: Semigroup, inputs: tuple[str, ...], solver: Solver) -> None:
        self.semigroup, self.inputs, self.solver = semigroup, inputs, solver
        self.known: dict[Any, frozenset[str]] = {}
        a, b, c = (self._free(name) for name in "abc")
        facts = [fact for parts in (a, b, c) for fact in self._facts(parts)]
        self._keeps_facts(a, b, facts)
        if not self._equal(self._joined(self._joined(a, b), c), self._joined(a, self._joined(b, c)), facts):
            raise NotFollowed("its operator is not associative")
        self.commutative = self._equal(self._joined(a, b), self._joined(b, a), facts)
        self.idempotent = self.commutative and self._equal(self._joined(a, a), a, facts)

    def _free(self, name: str) -> Parts:
        """A tuple of which nothing is known but the facts."""
        return {part: self.solver.real(f"{name} {part}") for part in self.semigroup.parts}

    def _given(self, name: str) -> Parts:
        return {entry: self.solver.real(f"{name} {entry}") for entry in self.inputs}

    def _entered(self, given: Parts) -> Parts:
        return {part: self.solver.formula(self.semigroup.enter[part], given) for part in self.semigroup.parts}

    def _joined(self, left: Parts, right: Parts) -> Parts:
        words = {f"left {part}": held for part, held in left.items()}
        words |= {f"right {part}": held for part, held in right.items()}
        return {part: self.solver.formula(self.semigroup.join[part], words) for part in self.semigroup.parts}

    def _facts(self, parts: Parts) -> list[Any]:
        return [self.solver.formula(fact, parts) >= 0 for fact in self.semigroup.never_negative]

    def _equal(self, one: Parts, other: Parts, facts: list[Any]) -> bool:
        return all(self.solver.always(one[part] == other[part], facts) for part in self.semigroup.parts)

    def _keeps_facts(self, a: Parts, b: Parts, facts: list[Any]) -> None:
        single, joined = self._facts(self._entered(self._given("a"))), self._facts(self._joined(a, b))
        for fact, one, both in zip(self.semigroup.never_negative, single, joined, strict=True):
            if not (self.solver.always(one) and self.solver.always(both, facts)):
                raise NotFollowed(f"{fact} of its operator can be negative")

    def may_join(self, masks: list[int]) -> bool:
        """Whether the operator over these sets, in this order, is that over their union."""
        if self.idempotent:
            return True
        if self.commutative:
            return _union(masks).bit_count() == sum(mask.bit_count() for mask in masks)
        whole = all(mask.bit_count() == mask.bit_length() - (mask & -mask).bit_length() + 1 for mask in masks)
        pairs = itertools.pairwise(masks)
        return whole and all(left.bit_length() == (right & -right).bit_length() - 1 for left, right in pairs)

    def names_of_input(self, name: str) -> frozenset[str]:
        """What an input is by itself: an input, and those parts and outputs that it is for a single node."""
        given = self._given("0")
        return self._matching(given[name], self._named([(self._entered(given), given)]), [])

    def names(
        self, step: Step, numbers: dict[str, Fraction], places: dict[str, tuple[int, str]], single: list[bool]
    ) -> frozenset[str]:
        """What an update is, of the union of the sets whose words it reads. `places`: each word's set and its name."""
        shape = (step.expression, tuple(numbers.items()), tuple(places.items()), tuple(single))
        if shape not in self.known:
            self.known[shape] = self._decided(step, numbers, places, single)
        return self.known[shape]

    def _decided(
        self, step: Step, numbers: dict[str, Fraction], places: dict[str, tuple[int, str]], single: list[bool]
    ) -> frozenset[str]:
        tuples: list[tuple[Parts, Parts | None]] = []
        facts: list[Any] = []
        for place, alone in enumerate(single):
            given = self._given(str(place)) if alone else None
            parts = self._free(str(place)) if given is None else self._entered(given)
            facts += [] if alone else self._facts(parts)
            tuples.append((parts, given))
        words = {name: self.solver.number(value) for name, value in numbers.items()}
        words |= {name: self._named(tuples[place : place + 1])[held] for name, (place, held) in places.items()}
        value = self.solver.z3.simplify(self.solver.formula(step.expression, words))
        kind = (value.sexpr(), tuple(single))
        if kind not in self.known:
            self.known[kind] = self._matching(value, self._named(tuples), facts)
        return self.known[kind]

    def _named(self, tuples: list[tuple[Parts, Parts | None]]) -> Parts:
        """Everything that a word over the union can be: parts, outputs, and the inputs of a single node."""
        (joined, given), *others = tuples
        for parts, _ in others:
            joined = self._joined(joined, parts)
        outputs = [self.solver.formula(leaving, joined) for leaving in self.semigroup.leave]
        found = {f"part {part}": held for part, held in joined.items()}
        found |= {f"output {place}": held for place, held in enumerate(outputs)}
        return found if given is None or others else found | {f"input {name}": held for name, held in given.items()}

    def _matching(self, value: Any, candidates: Parts, facts: list[Any]) -> frozenset[str]:
        return frozenset(name for name, held in candidates.items() if self.solver.always(value == held, facts))
