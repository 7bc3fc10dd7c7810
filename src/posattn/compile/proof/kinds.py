"""Nodes that look alike: the same MLP and the same local function of the same variables, so they are compared once.

What a register becomes at a node depends on what the layer reads (its inputs: the node's own state, and that of the
nodes that heads select) and on what the round reads (its words). Words read from the same place are one variable. Two
nodes are of one kind if these variables coincide in the same way, if the constants among them are equal, and if the
others are on a lattice, or not, alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from posattn.compile.expressions import Array, Constant, Expression, words_of
from posattn.compile.proof.layer_weights import Cone
from posattn.compile.proof.states import State, Table
from posattn.compile.proof.values import NONE, Undecided, Value, number
from posattn.compile.rounds import Round


class Sight(NamedTuple):
    """One thing that every node sees: the node it is read from (−1: none) and the place of what is known of it."""

    nodes: Array
    registers: Array  # by number
    values: Array


@dataclass(frozen=True)
class Kind:
    """Some nodes, what they see, and what the register becomes. Equal things are one of `values`."""

    nodes: Array
    values: tuple[Value, ...]  # the hull of what is known of each variable
    inputs: tuple[int, ...]  # the variable behind every input of the layer
    words: dict[str, int | None]  # the variable behind every word of the round; None: nothing arrived
    update: Expression
    exact: tuple[bool, ...]  # whether a variable is a constant that the model holds as it is
    names: tuple[str, ...]  # of the variables, for people
    seen: dict[str, Array]  # word → for every one of the nodes, the place of what is known of it


@dataclass(frozen=True)
class Communication:
    """How a layer and its round read: heads as they were proved to select, slots as the round says."""

    heads: Sequence[Array]
    round: Round
    nodes: int  # of the program; a node behind them is the sink, which holds 0 and stays so
    dimensions: Sequence[str]  # the register of each dimension
    state: State
    constants: set[str]  # registers that hold a constant at every node

    def kinds(self, cone: Cone, update: Expression, table: Table, *, apart: bool = False) -> list[Kind]:
        """Nodes by what they see for a register; `apart`: by everything that is known of it."""
        words = sorted(words_of(update))
        sights = [self._input(*entry) for entry in cone.inputs] + [self._word(name, table) for name in words]
        count = len(self.heads[0])
        sink = np.arange(count) >= self.nodes
        rows = [sink.astype(np.int64), *_pattern([sight.nodes for sight in sights])]
        rows += [sight.registers for sight in sights]
        looks = np.array(table.looks)
        rows += [self._looks(sight, looks, apart) for sight in sights]
        distinct, which = np.unique(np.stack(rows), axis=1, return_inverse=True)
        which = which.reshape(-1)
        found = []
        for group in range(distinct.shape[1]):
            nodes = np.flatnonzero(which == group)
            here = sights if not sink[nodes[0]] else sights[: len(cone.inputs)]
            after = update if not sink[nodes[0]] else Constant(0.0)
            found.append(self._kind(nodes, here, len(cone.inputs), words, after, table))
        return found

    def _input(self, head: int | None, dimension: int) -> Sight:
        name = self.dimensions[dimension] if dimension < len(self.dimensions) else f"dimension {dimension}"
        if name not in self.state:
            raise Undecided(f"it reads '{name}', which the round has no use for")
        nodes = np.arange(len(self.heads[0])) if head is None else self.heads[head]
        return self._sight(nodes, np.full(len(nodes), self._register(name)))

    def _word(self, name: str, table: Table) -> Sight:
        count = len(self.heads[0])
        if name not in self.round.receive:
            return self._sight(np.arange(count), np.full(count, self._register(name)))
        sources = [*self.round.receive[name], *[None] * (count - self.nodes)]
        nodes = np.array([-1 if source is None else source[0] for source in sources])
        registers = np.array([-1 if source is None else self._register(source[1]) for source in sources])
        return self._sight(nodes, registers, table.place(number(NONE)))

    def _register(self, name: str) -> int:
        return list(self.state).index(name)

    def _sight(self, nodes: Array, registers: Array, nothing: int = 0) -> Sight:
        held = list(self.state.values())
        values = np.full(len(nodes), nothing)
        for register in np.unique(registers[registers >= 0]):
            some = registers == register
            values[some] = held[register][nodes[some]]
        return Sight(nodes, registers, values)

    def _looks(self, sight: Sight, looks: Array, apart: bool) -> Array:
        """What tells nodes apart: constants by their value, other things by whether they are on a lattice."""
        if apart:
            return sight.values + 2
        constant = np.array([False, *(name in self.constants for name in self.state)])[sight.registers + 1]
        return np.where(constant, sight.values + 2, looks[sight.values])

    def _kind(
        self, nodes: Array, sights: Sequence[Sight], inputs: int, words: list[str], update: Expression, table: Table
    ) -> Kind:
        """The variables of some nodes that look alike, from the first of them."""
        places: dict[tuple[int, int], int] = {}
        held: list[Value] = []
        exact: list[bool] = []
        names: list[str] = []
        which: list[int | None] = []
        registers = list(self.state)
        for sight in sights:
            node, register = int(sight.nodes[nodes[0]]), int(sight.registers[nodes[0]])
            if register < 0:
                which.append(None)
                continue
            if (node, register) not in places:
                places[node, register] = len(held)
                first, *rest = (table.values[place] for place in np.unique(sight.values[nodes]))
                for value in rest:
                    first = first.hull(value)
                held.append(first)
                exact.append(registers[register] in self.constants)
                names.append(registers[register] + ("" if node == nodes[0] else f" of node {node}"))
            which.append(places[node, register])
        read = tuple(place for place in which[:inputs] if place is not None)
        found = dict(zip(words, which[inputs:], strict=False))
        seen = {name: sight.values[nodes] for name, sight in zip(words, sights[inputs:], strict=False)}
        return Kind(nodes, tuple(held), read, found, update, tuple(exact), tuple(names), seen)


def _pattern(nodes: Sequence[Array]) -> list[Array]:
    """For each of some arrays the first one that holds the same node, and whether that is the node itself."""
    every = [np.arange(len(nodes[0])), *nodes] if nodes else []
    found = []
    for place, held in enumerate(every[1:], 1):
        first = np.full(len(held), place)
        for earlier in range(place - 1, -1, -1):
            first = np.where(every[earlier] == held, earlier, first)
        found.append(np.where(held < 0, -1, first))
    return found
