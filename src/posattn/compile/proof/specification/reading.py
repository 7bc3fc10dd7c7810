"""The rounds as they are stored, one update at a time: what a node reads, and from where. Dead words are left out."""

from collections.abc import Mapping
from typing import NamedTuple

from posattn.compile.expressions import Expression, words_of
from posattn.compile.program import Program

#: A word: a register of a node.
Place = tuple[int, str]


class Step(NamedTuple):
    """One update of a register at a node whose new value is used later."""

    place: Place
    expression: Expression
    sources: Mapping[str, Place | None]  # where each word of the expression is read from; None: nothing, which is 0


class Reading(NamedTuple):
    """The live updates of one round, and every place that is read after it."""

    steps: list[Step]
    live: set[Place]


def readings(program: Program) -> list[Reading]:
    """Every round's live updates, found from the outputs backwards."""
    live: set[Place] = {(node, name) for name in program.outputs for node in range(program.output_nodes)}
    found: list[Reading] = []
    same: dict[Expression, Expression] = {}  # equal expressions are one object, found again without a comparison
    for round_ in reversed(program.rounds):
        update = {register: same.setdefault(expression, expression) for register, expression in round_.update.items()}
        names = {register: sorted(words_of(expression)) for register, expression in update.items()}
        before: set[Place] = set()
        steps = []
        for place in sorted(live):
            node, register = place
            if register not in names:
                before.add(place)
                continue
            sources = {
                name: round_.receive[name][node] if name in round_.receive else (node, name) for name in names[register]
            }
            steps.append(Step(place, update[register], sources))
            before.update(source for source in sources.values() if source is not None)
        found.append(Reading(steps, live))
        live = before
    return found[::-1]


def fixed_registers(program: Program) -> set[str]:
    """Registers that hold the same number from the first round to the last."""
    changed = {register for round_ in program.rounds for register in round_.update}
    return set(program.registers) - changed - set(program.inputs)


def first_number(program: Program, place: Place) -> float:
    """What a place holds at the start, where it is not an input."""
    node, register = place
    return program.constants[register][node] if register in program.constants else 0.0
