"""Steps 2 and 4: every layer is its round, and how far rounding takes the model from the program, layer after layer.

A node's view is all that its layer and its round can see: the node itself (number 0), the nodes that its heads select,
the nodes that its slots name. Words read from the same place are one variable. Nodes whose views look alike are one kind:
their MLPs and local functions are the same functions of the same variables, with the same constants, and are compared
once, on the hull of what is known of them. Where that fails, every distinct view is looked at by itself.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from posattn.compile.expressions import Array, Constant, Expression, words_of
from posattn.compile.proof.findings import OutOfTime, TimeLimit
from posattn.compile.proof.layer_weights import LayerWeights
from posattn.compile.proof.precision import Precision, power_above
from posattn.compile.proof.rounding import ZERO as NO_TERM
from posattn.compile.proof.rounding import layer_rounding, term
from posattn.compile.proof.states import State, Table
from posattn.compile.proof.symbolic import Atom, Formulas, Network, network, real, solver, variables
from posattn.compile.proof.values import NONE, Evaluation, Undecided, Value, number
from posattn.compile.rounds import Round

#: Errors within this share of a register's size do not make a layer another one: equal layers are proved once.
MARGIN = Fraction(1, 1024)
#: Branches of a round's decisions that are looked at one by one; with more, no decision is.
BRANCHES = 64


@dataclass(frozen=True)
class Kind:
    """Nodes that look alike."""

    nodes: tuple[int, ...]
    heads: dict[int, int]  # used head → the number of the node it selects
    slots: dict[str, Atom | None]
    atoms: dict[Atom, Value]  # the hull of what is known
    constants: frozenset[Atom]
    updates: dict[str, Expression]  # what each register that is needed later becomes


@dataclass
class Layer:
    """A layer, its round, and whom its nodes read."""

    number: int
    weights: LayerWeights
    reads: Sequence[Array]
    round: Round
    updates: dict[str, Expression]
    nodes: int  # of the program; a node behind them is the sink, which stays 0
    places: Mapping[str, int]  # register → dimension
    state: State
    constants: set[str]  # registers that hold a constant at every node

    def kinds(self, table: Table, *, apart: bool = False) -> list[Kind]:
        """Nodes by what they see; `apart`: by everything that is known of it."""
        used = {name for e in self.updates.values() for name in words_of(e)}
        slots = [slot for slot in self.round.receive if slot in used]
        read = self._names(self.weights.own)
        through = {head: sorted(self._names(rows)) for head, rows in sorted(self.weights.read.items())}
        groups: dict[Any, list[tuple[int, dict[Atom, int]]]] = {}
        shapes: dict[Any, tuple[dict[int, int], dict[str, Atom | None]]] = {}
        for node in range(len(self.reads[0])):
            numbers = {node: 0}
            heads = {head: numbers.setdefault(int(self.reads[head][node]), len(numbers)) for head in through}
            named: dict[str, Atom | None] = {}
            for slot in slots if node < self.nodes else ():
                source = self.round.receive[slot][node]
                named[slot] = source and (numbers.setdefault(source[0], len(numbers)), source[1])
            own = read | (used - set(self.round.receive)) if node < self.nodes else read
            wanted = {(0, name) for name in own} | {atom for atom in named.values() if atom is not None}
            wanted |= {(place, name) for head, place in heads.items() for name in through[head]}
            where = {place: at for at, place in numbers.items()}
            cells = {atom: int(self.state[atom[1]][where[atom[0]]]) for atom in sorted(wanted)}
            seen = tuple(
                (atom, cell if apart else self._looks(atom, table.values[cell])) for atom, cell in cells.items()
            )
            key = (node < self.nodes, tuple(heads.items()), tuple(named.items()), seen)
            groups.setdefault(key, []).append((node, cells))
            shapes[key] = heads, named
        return [self._kind(*shapes[key], members, table, apart) for key, members in groups.items()]

    def _names(self, rows: Iterable[int]) -> set[str]:
        """The registers of dimensions that are read; refused where nothing is known of one."""
        named = {place: name for name, place in self.places.items()}
        unknown = [row for row in rows if named.get(row) not in self.state]
        if unknown:
            dead = named.get(unknown[0], f"dimension {unknown[0]}")
            raise Undecided(f"layer {self.number} reads '{dead}', which its round has no use for")
        return {named[row] for row in rows}

    def _looks(self, atom: Atom, value: Value) -> object:
        if atom[1] in self.constants or (value.fixed and value.low == 0):
            return value.low
        return "any number" if value.lattice is None else "on a lattice"

    def _kind(
        self,
        heads: dict[int, int],
        slots: dict[str, Atom | None],
        members: list[tuple[int, dict[Atom, int]]],
        table: Table,
        apart: bool,
    ) -> Kind:
        atoms: dict[Atom, Value] = {}
        for atom in members[0][1]:
            cells = {cells[atom] for _, cells in members}
            first, *rest = (table.values[cell] for cell in sorted(cells))
            for value in rest:
                first = first.hull(value)
            atoms[atom] = first
        constants = frozenset(
            atom
            for atom, value in atoms.items()
            if value.fixed
            and not (value.error and atom[1] not in self.constants)
            and (apart or self._constant(atom, value))
        )
        sink = members[0][0] >= self.nodes
        updates: dict[str, Expression] = dict.fromkeys(self.updates, Constant(0.0)) if sink else self.updates
        return Kind(tuple(node for node, _ in members), heads, slots, atoms, constants, updates)

    def _constant(self, atom: Atom, value: Value) -> bool:
        return atom[1] in self.constants or value.low == 0


@dataclass
class Prover:
    """Looks at kinds of nodes, and remembers what it has seen."""

    precision: Precision
    fits: Mapping[Expression, Fraction] = field(default_factory=dict)
    shown: dict[Any, str] = field(default_factory=dict)  # what was compared, and the first difference, "" for none
    rounded: dict[Any, dict[str, Fraction]] = field(default_factory=dict)

    def equal(self, layer: Layer, kind: Kind, limit: TimeLimit) -> str:
        """Whether the MLP is the local function at these nodes, for all values: "", or where they differ."""
        problem = self._problem(layer, kind)
        if problem.key not in self.shown:
            self.shown[problem.key] = problem.difference(limit)
        return self.shown[problem.key]

    def errors(self, layer: Layer, kind: Kind, limit: TimeLimit) -> dict[str, Fraction]:
        """How far the layer's own sums are off at these nodes, for every register that is needed later."""
        problem = self._problem(layer, kind)
        exact = tuple((value.error, value.lattice) for value in kind.atoms.values())
        key = (*problem.key, exact)
        if key not in self.rounded:
            self.rounded[key] = problem.rounding(self.precision, limit)
        return self.rounded[key]

    def _problem(self, layer: Layer, kind: Kind) -> "Problem":
        words = {name: kind.atoms[0, name] for place, name in kind.atoms if place == 0}
        words |= {slot: number(NONE) if atom is None else kind.atoms[atom] for slot, atom in kind.slots.items()}
        evaluation = Evaluation(words, self.precision, self.fits)
        return Problem(layer, kind, {name: evaluation.of(e) for name, e in kind.updates.items()})


@dataclass
class Problem:
    """The MLP of a layer and its round's local function, as seen by one kind of node."""

    layer: Layer
    kind: Kind
    values: dict[str, Value]  # what is known of every register after the round

    @property
    def margins(self) -> dict[Atom, Fraction]:
        """How far beyond its range, or its lattice, a number of the model may lie."""
        return {
            atom: _margin(value) if value.lattice is None else value.meant and power_above(value.meant)
            for atom, value in self.kind.atoms.items()
        }

    @property
    def key(self) -> tuple[Any, ...]:
        kind = self.kind
        atoms = tuple(
            (a, v.low, v.high, v.lattice, self.margins[a], a in kind.constants) for a, v in kind.atoms.items()
        )
        shape = (tuple(kind.heads.items()), tuple(kind.slots.items()), tuple(kind.updates.items()))
        return (self.layer.weights.digest, tuple(self.layer.places.items()), shape, atoms)

    def formulas(self) -> tuple[Any, Network, Formulas]:
        """A z3 solver that knows the variables, the MLP, and the local function."""
        z3, layer = solver(), self.layer
        terms, given = variables(self.kind.atoms, set(self.kind.constants), self.margins)
        width = layer.weights.width
        own = [None] * width
        read = {head: [None] * width for head in self.kind.heads}
        for name, place in layer.places.items():
            own[place] = terms.get((0, name))
            for head, at in self.kind.heads.items():
                read[head][place] = terms.get((at, name))
        words = {name: terms[0, name] for place, name in terms if place == 0}
        words |= {slot: real(NONE) if atom is None else terms[atom] for slot, atom in self.kind.slots.items()}
        search = z3.Solver()
        search.add(*given)
        return search, network(layer.weights, own, read), Formulas(words)

    def difference(self, limit: TimeLimit) -> str:
        z3 = solver()
        search, made, wanted = self.formulas()
        claims = {}
        for name, expression in self.kind.updates.items():
            found = made.outputs[self.layer.places[name]]
            apart = (real(NONE) if found is None else found) - wanted.of(expression)
            off = real(self.values[name].held)
            claims[name] = apart == 0 if not self.values[name].held else z3.And(apart <= off, -apart <= off)
        search.set("timeout", limit.milliseconds())
        answer = search.check(z3.Not(z3.And(*claims.values())))
        if answer == z3.unsat:
            return ""
        if answer != z3.sat:
            raise OutOfTime
        model = search.model()
        wrong = [name for name, claim in claims.items() if not z3.is_true(model.eval(claim, model_completion=True))]
        return f"register '{wrong[0]}' of node {self.kind.nodes[0]}, where {self._shown(model)}"

    def _shown(self, model: Any) -> str:
        terms = variables(self.kind.atoms, set(self.kind.constants), self.margins).terms
        seen = [
            f"{name}{'' if place == 0 else f' of its neighbour {place}'} = {model.eval(term, model_completion=True)}"
            for (place, name), term in terms.items()
        ]
        return ", ".join(seen)

    def rounding(self, precision: Precision, limit: TimeLimit) -> dict[str, Fraction]:
        """The largest error of each register, over all ways in which the round's decisions can fall."""
        layer, width = self.layer, self.layer.weights.width
        search, made, wanted = self.formulas()
        for expression in self.kind.updates.values():
            wanted.of(expression)
        own = [NO_TERM] * width
        read = {head: [NO_TERM] * width for head in self.kind.heads}
        for name, place in layer.places.items():
            if (0, name) in self.kind.atoms:
                own[place] = term(self.kind.atoms[0, name])
            for head, at in self.kind.heads.items():
                if (at, name) in self.kind.atoms:
                    read[head][place] = term(self.kind.atoms[at, name])
        reaches = {layer.places[name]: v.reach + v.error + v.held for name, v in self.values.items()}
        decisions = list(wanted.decisions.values())
        found = dict.fromkeys(self.kind.updates, NONE)

        def look() -> None:
            errors = layer_rounding(layer.weights, own, read, reaches=reaches, precision=precision, stays=stays)
            for name in found:
                found[name] = max(found[name], errors[layer.places[name]])

        def stays(level: int, unit: int, error: Fraction) -> bool:
            if not decisions:
                return False
            search.set("timeout", limit.milliseconds())
            return search.check(made.hidden[level][unit] > real(-error)) == solver().unsat

        _every_branch(search, decisions, look, limit)
        return found


def _margin(value: Value) -> Fraction:
    """A share of the value's size, or more where it is off by more."""
    if value.fixed and not value.error:
        return NONE
    share = MARGIN * power_above(value.reach) if value.reach else NONE
    return share if value.error <= share else power_above(value.error)


def _every_branch(search: Any, decisions: list[Any], look: Any, limit: TimeLimit) -> None:
    """Call `look` for every way in which the decisions can fall, with the solver knowing it; once if there are many."""
    z3 = solver()
    if 2 ** len(decisions) > BRANCHES:
        decisions.clear()
    if not decisions:
        look()
        return

    def descend(left: list[Any]) -> None:
        if not left:
            look()
            return
        for side in (left[0], z3.Not(left[0])):
            search.push()
            search.add(side)
            search.set("timeout", limit.milliseconds())
            if search.check() != z3.unsat:
                descend(left[1:])
            search.pop()

    descend(decisions)


def next_state(layer: Layer, kinds: list[tuple[Kind, dict[str, Fraction]]], table: Table, prover: Prover) -> State:
    """What is known of every needed register after the layer, node by node."""
    nodes = len(layer.reads[0])
    state: State = {name: np.zeros(nodes, dtype=np.int64) for name in layer.updates}
    known: dict[Any, dict[str, int]] = {}
    for kind, errors in kinds:
        for node in kind.nodes:
            words = layer_words(layer, kind, node, table)
            key = (id(kind), tuple(words.items()))
            if key not in known:
                evaluation = Evaluation({n: table.values[c] for n, c in words.items()}, prover.precision, prover.fits)
                known[key] = {
                    name: table.place(_after(evaluation.of(e), errors[name])) for name, e in kind.updates.items()
                }
            for name, place in known[key].items():
                state[name][node] = place
    return state


def _after(value: Value, own: Fraction) -> Value:
    """A register after the round: what was carried on, what the layer's sums add, what its numbers are off."""
    off = own + value.held
    return value._replace(error=value.error + off, meant=value.meant + off if value.lattice else NONE, held=NONE)


def layer_words(layer: Layer, kind: Kind, node: int, table: Table) -> dict[str, int]:
    """The words of a node, by the place of what is known of them."""
    own = {name: int(layer.state[name][node]) for place, name in kind.atoms if place == 0}
    for slot in kind.slots:
        source = layer.round.receive[slot][node]
        own[slot] = table.place(number(NONE)) if source is None else int(layer.state[source[1]][source[0]])
    return own

