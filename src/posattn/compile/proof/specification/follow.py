"""A program followed from its inputs to its outputs: what every word holds, as a function of the inputs.

A word holds a form (`terms`), or one of several numbers that are being compared (`zero_one`), or what travels with one
of them. Nothing is guessed: a word that is none of these is unknown, with the first reason why.
"""

from typing import NamedTuple

import numpy as np

from posattn.compile.expressions import Array
from posattn.compile.input_ranges import grid_of
from posattn.compile.program import Program
from posattn.compile.proof.findings import TimeLimit
from posattn.compile.proof.specification.choices import Choice, Choices
from posattn.compile.proof.specification.copies import Copies
from posattn.compile.proof.specification.evaluation import Evaluation
from posattn.compile.proof.specification.ranks import Ranking
from posattn.compile.proof.specification.reading import Place, Reading, Step, first_number, fixed_registers, readings
from posattn.compile.proof.specification.solver import Solver
from posattn.compile.proof.specification.terms import ZERO, AnyFlag, Entry, Form, Input, Permutation, number, whole
from posattn.compile.proof.specification.zero_one import MOST_SHOWN, Group, Key, State, most_bits


class Member(NamedTuple):
    """A number that is compared with others, or what travels with it under a name. Its row in the group says which."""

    group: Group
    name: str | None = None


class Side(NamedTuple):
    """A choice that goes with the smaller or the larger of two keys: the key itself, or what travels under a name."""

    smaller: bool
    name: str | None


class Unknown(NamedTuple):
    """A word that is not followed, and why."""

    why: str


Value = Form | Member | Unknown


class Followed(NamedTuple):
    """What the outputs are, and states in which numbers that should have a rank have none."""

    outputs: dict[Place, Form | Unknown]
    unsorted: list[State]


def follow(program: Program, limit: TimeLimit, *, runs: tuple[int, ...] = ()) -> Followed:
    """Every output as a function of the inputs. `runs`: lengths of ascending runs that the input consists of."""
    follower = _Follower(program, limit)
    follower.ascend(runs)
    for count, reading in enumerate(readings(program), 1):
        limit.check()
        follower.take(reading, f"round {count}")
    places = [(node, name) for name in program.outputs for node in range(program.output_nodes)]
    return Followed({place: follower.resolved(place) for place in places}, follower.unsorted)


class _Follower:
    """What every place holds, before any round and after each."""

    def __init__(self, program: Program, limit: TimeLimit) -> None:
        self.program, self.limit = program, limit
        solver = Solver(limit)
        self.choices, self.evaluation, self.copies = Choices(solver), Evaluation(), Copies(solver)
        self.grids = {name: grid_of(program, name) for name in program.inputs}
        self.fixed = fixed_registers(program)
        self.most = most_bits(program.nodes)
        self.unsorted: list[State] = []
        self.rankings: dict[Group, Ranking] = {}
        self.state: dict[Place, Value] = {}
        for register in program.registers:
            for node in range(program.nodes):
                self.state[node, register] = self._first((node, register))

    def _first(self, place: Place) -> Form:
        node, register = place
        if register not in self.program.inputs:
            return number(first_number(self.program, place))
        if node >= self.program.length:
            return ZERO
        if register not in self.program.permutations:
            return whole(Input(register, node))
        length = self.program.length
        return whole(Entry(Permutation(register, length), node)) if length > 1 else ZERO

    def ascend(self, runs: tuple[int, ...]) -> None:
        """Take the input's numbers as ascending runs."""
        start, name = 0, self.program.inputs[0]
        for size in runs:
            places = [(node, name) for node in range(start, start + size)]
            group = Group.sorted_run([Key(whole(Input(name, node))) for node, _ in places], places)
            self.state.update(dict.fromkeys(places, Member(group)))
            start += size

    def take(self, reading: Reading, where: str) -> None:
        """One round: what every update is, from the words as they were; then all of them at once."""
        new: dict[Place, Value] = {}
        chosen: dict[Place, Choice] = {}
        varying = {place[1] for place, value in self.state.items() if not isinstance(value, Form) or value.terms}
        for step in reading.steps:
            found = self._value(step, varying, where)
            if not isinstance(found, Choice):
                new[step.place] = found
            elif found.one != step.place or not found.is_copy:
                chosen[step.place] = found
        rows = self._choose(chosen, new, where)
        for place in new:
            self._drop(place)
        for place, row in rows.items():
            value = new[place]
            assert isinstance(value, Member)
            value.group.rows[place] = row
        self.state.update(new)
        for place in [place for place in self.state if place not in reading.live]:
            self._drop(place)
            del self.state[place]
        self._settle(new)

    def _value(self, step: Step, varying: set[str], where: str) -> Form | Choice | Unknown:
        """What an update gives: a choice between words, or a form.

        Numbers that are compared are followed as such even where their order is known, and are sorted by induction,
        unless all words of their register are numbers.
        """
        choice = self.choices.of(step, self._numbers(step))
        compares = choice is not None and (choice.is_copy or bool({choice.one[1], choice.other[1]} & varying))
        if choice is not None and compares and not self._travels(choice):
            return choice
        forms = self._forms(step)
        if isinstance(forms, Unknown):
            return forms
        found = self.copies.value(step.expression, forms)
        if choice is not None and compares:
            return found or choice
        found = found or self.evaluation.value(step.expression, forms) or self.evaluation.hit(step.expression, forms)
        node, register = step.place
        return found or Unknown(f"{where}, node {node}: '{register}' becomes {str(step.expression)[:80]}")

    def _travels(self, choice: Choice) -> bool:
        """Whether what is compared came with keys of an earlier sort: flags, or keys of a new one."""
        one, other = self.state[choice.one], self.state[choice.other]
        return not choice.is_copy and any(
            value.name is not None if isinstance(value, Member) else _is_flag(value) for value in (one, other)
        )

    def _forms(self, step: Step) -> dict[str, Form] | Unknown:
        """Every word that an update reads, as a form."""
        forms: dict[str, Form] = {}
        for name, at in step.sources.items():
            held = ZERO if at is None else self.resolved(at)
            if isinstance(held, Unknown):
                return held
            forms[name] = held
        return forms

    def _numbers(self, step: Step) -> dict[str, float]:
        """Words that are numbers at this node: of registers that never change, or read from nowhere."""
        return {
            name: 0.0 if at is None else first_number(self.program, at)
            for name, at in step.sources.items()
            if at is None or at[1] in self.fixed
        }

    def _choose(self, chosen: dict[Place, Choice], new: dict[Place, Value], where: str) -> dict[Place, Array]:
        """Put the words that are chosen into `new`. Returns their rows, of those that are compared."""
        sides: dict[Place, Side] = {}
        for place, choice in chosen.items():
            if choice.is_copy:
                continue
            found = self._side(choice)
            if isinstance(found, Side):
                sides[place] = found
            else:
                new[place] = found or Unknown(
                    f"{where}, node {place[0]}: '{place[1]}' does not follow what it compares"
                )
        for place in sides:
            self._join(chosen[place])
        rows: dict[Place, Array] = {}
        made: dict[tuple[frozenset[Place], bool], Array] = {}  # what travels with a key has the same row
        for place, choice in chosen.items():
            if choice.is_copy:
                new[place] = self._copied(place, choice.one, rows)
            elif place in sides:
                smaller, name = sides[place]
                group = self._group(choice.one)
                assert group is not None
                one, other, pair = group.rows[choice.one], group.rows[choice.other], frozenset(choice[:2])
                if (pair, smaller) not in made:
                    made[pair, smaller] = one & other if smaller else one | other
                rows[place] = made[pair, smaller]
                new[place] = Member(group, name)
        return rows

    def _side(self, choice: Choice) -> Side | Unknown | None:
        """Whether a choice goes with the smaller key, and what it takes of it."""
        for place in choice[:4]:
            value = self.state[place]
            if isinstance(value, Unknown):
                return value
        if self._group(choice.one) is None or self._group(choice.other) is None:
            return None
        for smaller, of_less, of_more in ((True, choice.one, choice.other), (False, choice.other, choice.one)):
            less, more = self._name(choice.if_less, of_less), self._name(choice.if_more, of_more)
            if less is not None and less == more:
                return Side(smaller, less or None)
        return None

    def _group(self, place: Place) -> Group | None:
        """The group of a number that is compared; a form, or what came with another key, is a group of its own."""
        value = self.state[place]
        if isinstance(value, Member) and value.name is not None:
            value = self.resolved(place)
            if isinstance(value, Form):
                self._drop(place)
        if isinstance(value, Form):
            value = self.state[place] = Member(Group.sorted_run([Key(value)], [place]))
        return value.group if isinstance(value, Member) and value.name is None else None

    def _name(self, word: Place, key: Place) -> str | None:
        """The name under which a word travels with a key, "" for the key itself; None where it does not.

        It sets out with a key that was never compared, from the same node.
        """
        if word == key:
            return ""
        value, group = self.state[word], self._group(key)
        assert group is not None
        if isinstance(value, Member) and value.group is group:
            return (value.name or "") if np.array_equal(group.rows[word], group.rows[key]) else None
        form = self.resolved(word)
        if isinstance(form, Unknown) or len(group.keys) > 1 or word[0] != key[0]:
            return None
        return word[1] if group.keys[0].payload.setdefault(word[1], form) == form else None

    def _join(self, choice: Choice) -> None:
        """Make one group of two numbers that are compared."""
        one, other = self._group(choice.one), self._group(choice.other)
        assert one is not None
        assert other is not None
        if one is not other:
            self.limit.check()
            one = one.joined(other, self.most)
            for place in one.rows:
                value = self.state[place]
                assert isinstance(value, Member)
                self.state[place] = Member(one, value.name)
        if choice.gap is not None:
            one.gap = choice.gap if one.gap is None else max(one.gap, choice.gap)

    def _copied(self, place: Place, source: Place, rows: dict[Place, Array]) -> Value:
        """A word from elsewhere. A number that was never compared starts again on its own."""
        value = self.state[source]
        if not isinstance(value, Member):
            return value
        if len(value.group.keys) == 1:
            return value.group.keys[0].form
        rows[place] = value.group.rows[source]
        return value

    def _drop(self, place: Place) -> None:
        value = self.state.get(place)
        if isinstance(value, Member):
            value.group.rows.pop(place, None)

    def _settle(self, changed: dict[Place, Value]) -> None:
        """Make runs of groups that are sorted now."""
        groups = {id(value.group): value.group for value in changed.values() if isinstance(value, Member)}
        for group in groups.values():
            group.settle()

    def resolved(self, place: Place) -> Form | Unknown:
        """What a place holds as a form."""
        value = self.state[place]
        if not isinstance(value, Member):
            return value
        node, register = place
        rank = value.group.rank(place)
        if rank is None:
            if len(self.unsorted) < MOST_SHOWN:
                self.unsorted += value.group.unsorted_states()
            return Unknown(f"node {node}: '{register}' is not of the same rank for every input")
        ranking = self.rankings.get(value.group)
        if ranking is None or ranking.gap != value.group.gap:
            ranking = self.rankings[value.group] = Ranking(value.group, self.grids)
        form = ranking.key(rank) if value.name is None else ranking.payload(rank, value.name)
        return form or Unknown(f"node {node}: numbers that decide what '{register}' is may be equal, or too close")


def _is_flag(value: Value) -> bool:
    return isinstance(value, Form) and isinstance(value.atom(), AnyFlag)
