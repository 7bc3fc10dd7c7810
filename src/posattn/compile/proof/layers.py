"""Steps 2 and 4 for one layer: its MLP is the round's local function, and how far its own sums are off.

Both are settled kind by kind of node (`kinds`), for one register after the other; equal problems are solved once.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import z3

from posattn.compile.expressions import Array, renamed
from posattn.compile.proof.findings import OutOfTime, TimeLimit
from posattn.compile.proof.kinds import Kind
from posattn.compile.proof.layer_weights import Cone
from posattn.compile.proof.precision import Precision, power_above
from posattn.compile.proof.rounding import own_rounding, term
from posattn.compile.proof.states import Table
from posattn.compile.proof.symbolic import Formulas, Network, Variables, network, real, variables
from posattn.compile.proof.values import NONE, Evaluation, Value, number

#: Errors within this share of a register's size do not make a layer another one: equal layers are proved once.
MARGIN = Fraction(1, 1024)
#: Branches of a round's decisions that are looked at one by one; with more, no decision is.
BRANCHES = 64


@dataclass
class Prover:
    """Looks at kinds of nodes, and remembers what it has seen."""

    precision: Precision
    shown: dict[Any, str] = field(default_factory=dict)  # what was compared, and the first difference, "" for none
    rounded: dict[Any, Fraction] = field(default_factory=dict)

    def difference(self, cone: Cone, kind: Kind, limit: TimeLimit) -> str:
        """Where the MLP is not the local function at these nodes, for all values; "" where it is."""
        problem = self._problem(cone, kind)
        if problem.key not in self.shown:
            self.shown[problem.key] = problem.difference(limit)
        return self.shown[problem.key]

    def after(self, cone: Cone, kind: Kind, table: Table, limit: TimeLimit) -> Array:
        """What is known of the register after the layer, at every node of the kind."""
        problem = self._problem(cone, kind)
        exactly = tuple((value.error, value.meant) for value in kind.values)
        key = (problem.key, problem.value.reach, exactly)
        if key not in self.rounded:
            self.rounded[key] = problem.rounding(self.precision, limit)
        own = self.rounded[key]
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

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """Everything but names and places: equal problems have the same answer."""
        kind = self.kind
        words = {name: "nothing" if place is None else f"v{place}" for name, place in kind.words.items()}
        known = tuple(
            (v.low, v.high, v.lattice, margin, exact)
            for v, margin, exact in zip(kind.values, self.margins, kind.exact, strict=True)
        )
        return (self.cone.key, kind.inputs, renamed(kind.update, words), known, self.value.held)

    def formulas(self) -> tuple[Variables, Network, Formulas]:
        """The variables, the MLP, and the local function."""
        known = variables(self.kind.values, self.margins)
        words = {n: real(NONE) if place is None else known.terms[place] for n, place in self.kind.words.items()}
        return known, network(self.cone, [known.terms[place] for place in self.kind.inputs]), Formulas(words)

    def difference(self, limit: TimeLimit) -> str:
        """z3's first values for which they differ, by more than numbers that the dtype does not hold explain."""
        known, made, wanted = self.formulas()
        apart = (real(NONE) if made.output is None else made.output) - wanted.of(self.kind.update)
        off = real(self.value.held)
        search = z3.Solver()
        search.add(*known.given)
        search.set("timeout", limit.milliseconds())
        answer = search.check(apart != 0)
        if answer != z3.unsat and self.value.held:
            search.set("timeout", limit.milliseconds())
            answer = search.check(z3.Or(apart > off, -apart > off))
        if answer == z3.unsat:
            return ""
        if answer != z3.sat:
            raise OutOfTime
        model = search.model()
        pairs = zip(self.kind.names, known.terms, strict=True)
        seen = ", ".join(f"{name} = {model.eval(term_, model_completion=True)}" for name, term_ in pairs)
        return f"node {self.kind.nodes[0]}" + (f", where {seen}" if seen else "")

    def rounding(self, precision: Precision, limit: TimeLimit) -> Fraction:
        """The largest error of the layer's own sums, over all ways in which the round's decisions can fall."""
        known, made, wanted = self.formulas()
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
        reach = self.value.reach + self.value.error + self.value.held

        def look() -> Fraction:
            return own_rounding(self.cone, inputs, reach=reach, precision=precision, stays=stays)

        return _over_branches(search, decisions, look, limit)


def _margin(value: Value) -> Fraction:
    """A share of the value's size, or more where it is off by more."""
    if value.fixed and not value.error:
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
