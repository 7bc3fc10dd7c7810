"""Steps 2 and 4 for one layer: its MLP is the round's local function, and how far its own sums are off.

Both are settled kind by kind of node (`kinds`), for one register after the other; equal problems are solved once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import z3

from posattn.compile.expressions import Array, Constant, Expression, Line, Product, Scaled, renamed, walk
from posattn.compile.proof.findings import OutOfTime, TimeLimit
from posattn.compile.proof.kinds import Kind
from posattn.compile.proof.layer_weights import Cone
from posattn.compile.proof.precision import Precision, power_above, power_below
from posattn.compile.proof.rounding import own_rounding, term
from posattn.compile.proof.states import Table
from posattn.compile.proof.symbolic import Formulas, Network, Variables, network, real, variables
from posattn.compile.proof.values import NONE, Evaluation, Undecided, Value, number

#: Errors within this share of a register's size do not make a layer another one: equal layers are proved once.
MARGIN = Fraction(1, 1024)
#: Branches of a round's decisions that are looked at one by one; with more, no decision is.
BRANCHES = 64


@dataclass
class Prover:
    """Looks at kinds of nodes, and remembers what it has seen."""

    precision: Precision
    equal: set[Any] = field(default_factory=set)  # problems whose two sides are equal, whatever the errors so far
    shown: dict[Any, "Comparison"] = field(default_factory=dict)  # what became of the others
    rounded: dict[Any, Fraction] = field(default_factory=dict)

    def difference(self, cone: Cone, kind: Kind, limit: TimeLimit) -> str:
        """Where the MLP is not the local function at these nodes, for all values; "" where it is."""
        problem = self._problem(cone, kind)
        if problem.key in self.equal:
            return ""
        key = (problem.key, *problem.errors)
        if key not in self.shown:
            found = self.shown[key] = problem.compared(self.precision, limit)
            if found.everywhere:
                self.equal.add(problem.key)
        return self.shown[key].difference

    def after(self, cone: Cone, kind: Kind, table: Table, limit: TimeLimit) -> Array:
        """What is known of the register after the layer, at every node of the kind."""
        problem = self._problem(cone, kind)
        exactly = tuple((value.error, value.meant) for value in kind.values)
        apart = NONE if problem.key in self.equal else self.shown[problem.key, *problem.errors].tolerance
        key = (problem.key, problem.value.reach, apart, exactly)
        if key not in self.rounded:
            self.rounded[key] = problem.rounding(self.precision, apart, limit)
        own = self.rounded[key] + apart
        names = list(kind.seen)
        rows = np.stack([kind.seen[name] for name in names]) if names else np.zeros((1, len(kind.nodes)), dtype=int)
        distinct, which = np.unique(rows, axis=1, return_inverse=True)
        places = []
        for column in distinct.T:
            words = {name: table.values[place] for name, place in zip(names, column, strict=False)}
            places.append(table.place(_after(Evaluation(words, self.precision).of(kind.update), own)))
        return np.array(places)[which.reshape(-1)]

    def _problem(self, cone: Cone, kind: Kind) -> "Problem":
        words = {n: number(NONE) if place is None else kind.values[place] for n, place in kind.words.items()}
        return Problem(cone, kind, Evaluation(words, self.precision).of(kind.update))


def _after(value: Value, own: Fraction) -> Value:
    """A register after the round: what was carried on, what the layer's sums add, what its numbers are off."""
    off = own + value.held
    return value._replace(
        error=value.error + off, meant=NONE if value.lattice is None else value.meant + off, held=NONE
    )


@dataclass
class Problem:
    """The MLP of a layer and its round's local function, for one register, as seen by one kind of node."""

    cone: Cone
    kind: Kind
    value: Value  # what is known of the register after the round

    @cached_property
    def margins(self) -> list[Fraction]:
        """How far beyond its range, or its lattice, a number of the model may lie."""
        return [
            NONE if exact else _margin(value) if value.lattice is None else value.meant and power_above(value.meant)
            for value, exact in zip(self.kind.values, self.kind.exact, strict=True)
        ]

    @property
    def errors(self) -> list[Fraction]:
        """The same, no further than errors reach."""
        return [
            NONE if exact else value.error if value.lattice is None else value.meant
            for value, exact in zip(self.kind.values, self.kind.exact, strict=True)
        ]

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """Everything but names and places: equal problems have the same answer."""
        kind = self.kind
        words = {name: "nothing" if place is None else f"v{place}" for name, place in kind.words.items()}
        known = tuple(
            (v.low, v.high, v.lattice, margin, exact)
            for v, margin, exact in zip(kind.values, self.margins, kind.exact, strict=True)
        )
        return (self.cone.key, kind.inputs, renamed(kind.update, words), known)

    def formulas(self, margins: Sequence[Fraction]) -> tuple[Variables, Network, Formulas]:
        """The variables, the MLP, and the local function."""
        known = variables(self.kind.values, margins)
        words = {n: real(NONE) if place is None else known.terms[place] for n, place in self.kind.words.items()}
        return known, network(self.cone, [known.terms[place] for place in self.kind.inputs]), Formulas(words)

    def compared(self, precision: Precision, limit: TimeLimit) -> "Comparison":
        """Whether MLP and local function are equal; if not, whether they differ by no more than is accounted for.

        They may differ where the compiler stores numbers together that the dtype does not hold (0.1 + 0.2), and where a
        number that is never below 0 has become so by rounding.
        """
        if not self.difference(self.margins, NONE, limit):
            return Comparison("", NONE, everywhere=True)
        tolerance = self.tolerance(precision)
        return Comparison(self.difference(self.errors, tolerance, limit), tolerance, everywhere=False)

    def tolerance(self, precision: Precision) -> Fraction:
        """What numbers that are stored together, and errors so far, change in the local function at most."""
        wide = [
            value._replace(low=value.low - off, high=value.high + off, error=off)
            for value, off in zip(self.kind.values, self.errors, strict=True)
        ]
        words = {n: number(NONE) if place is None else wide[place] for n, place in self.kind.words.items()}
        loose = any(map(_is_long, walk(self.kind.update)))
        try:
            value = Evaluation(words, precision, loose).of(self.kind.update)
        except Undecided:
            return NONE
        crosses = any(off and (k.low >= 0 or k.high <= 0) for k, off in zip(self.kind.values, self.errors, strict=True))
        return value.held + (value.error if crosses else NONE)

    def difference(self, margins: Sequence[Fraction], tolerance: Fraction, limit: TimeLimit) -> str:
        """z3's first values for which they differ by more than a tolerance; "" where there are none."""
        known, made, wanted = self.formulas(margins)
        apart = (real(NONE) if made.output is None else made.output) - wanted.of(self.kind.update)
        search = z3.Solver()
        search.add(*known.given)
        search.set("timeout", limit.milliseconds())
        if search.check() == z3.unsat:  # whatever is claimed of no values at all says nothing
            raise Undecided("what is known of its registers fits no values")
        off = real(tolerance)
        answer = search.check(z3.Or(apart > off, -apart > off) if tolerance else apart != 0)
        if answer == z3.unsat:
            return ""
        if answer != z3.sat:
            raise OutOfTime
        model = search.model()
        pairs = zip(self.kind.names, known.terms, strict=True)
        seen = ", ".join(f"{name} = {model.eval(term_, model_completion=True)}" for name, term_ in pairs)
        return f"node {self.kind.nodes[0]}" + (f", where {seen}" if seen else "")

    def rounding(self, precision: Precision, apart: Fraction, limit: TimeLimit) -> Fraction:
        """The largest error of the layer's own sums, over all ways in which the round's decisions can fall.

        `apart`: how far exact sums may be from the local function.
        """
        known, made, wanted = self.formulas(self.margins)
        wanted.of(self.kind.update)
        decisions = list(wanted.decisions.values()) if 2 ** len(wanted.decisions) <= BRANCHES else []
        search = z3.Solver()
        search.add(*known.given)

        def stays(level: int, unit: int, error: Fraction) -> bool:
            if not wanted.decides:
                return False
            search.set("timeout", limit.milliseconds())
            return search.check(made.hidden[level][unit] > real(-error)) == z3.unsat

        held = [term(value, exact=exact) for value, exact in zip(self.kind.values, self.kind.exact, strict=True)]
        inputs = [held[place] for place in self.kind.inputs]
        reach = self.value.reach + self.value.error + apart

        def look() -> Fraction:
            return own_rounding(self.cone, inputs, reach=reach, precision=precision, stays=stays)

        return _over_branches(search, decisions, look, limit)


class Comparison(NamedTuple):
    """Where an MLP and a local function differ, "" if nowhere by more than a tolerance."""

    difference: str
    tolerance: Fraction
    everywhere: bool  # whether they are equal, and would be with larger errors so far


def _is_long(part: Expression) -> bool:
    """Whether an expression is a number, or multiplies by one, of more than eight bits."""
    match part:
        case Constant(written) | Scaled(written, _):
            exactly = Fraction(written)
            return abs(exactly) >= 256 * power_below(exactly) and exactly != 0
    return isinstance(part, Product | Line)


def _margin(value: Value) -> Fraction:
    """A share of the value's size, or more where it is off by more."""
    if not value.error:
        return NONE
    share = MARGIN * power_above(value.reach) if value.reach else NONE
    return share if value.error <= share else power_above(value.error)


def _over_branches(search: Any, decisions: list[Any], look: Callable[[], Fraction], limit: TimeLimit) -> Fraction:
    """The largest of what `look` finds, over every way in which decisions can fall, with the solver knowing it."""
    if not decisions:
        return look()
    found = NONE
    for side in (decisions[0], z3.Not(decisions[0])):
        search.push()
        search.add(side)
        search.set("timeout", limit.milliseconds())
        if search.check() != z3.unsat:
            found = max(found, _over_branches(search, decisions[1:], look, limit))
        search.pop()
    return found
