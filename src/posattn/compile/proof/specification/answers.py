"""What a specification asks of every output, in the terms in which a program is followed."""

import itertools
from collections.abc import Mapping
from fractions import Fraction

from posattn.compile import specification as specified
from posattn.compile.input_ranges import grid_of
from posattn.compile.program import Program
from posattn.compile.proof.specification.follow import Unknown
from posattn.compile.proof.specification.reading import Place
from posattn.compile.proof.specification.terms import (
    At,
    AtAddress,
    Clipped,
    Form,
    Input,
    Payload,
    Permutation,
    Rank,
    added,
    number,
    scaled,
    whole,
)

HALF = Fraction(1, 2)


def wrong_answer(program: Program, outputs: Mapping[Place, Form | Unknown]) -> str | None:
    """Why some output is not shown to be what the specification asks for; None where all are."""
    argsort = isinstance(program.specification, specified.ArgSorted)
    wanted = {} if argsort else _asked(program)
    for place, found in outputs.items():
        node, register = place
        if isinstance(found, Unknown):
            return found.why
        if not (_is_argsort(found, node, program) if argsort else found == wanted[place]):
            return f"node {node}: '{register}' is not what the specification asks for"
    return None


def _asked(program: Program) -> Mapping[Place, Form]:
    """The form that the specification asks of every output."""
    name, (output,), n = program.inputs[0], program.outputs, program.length
    inputs = [whole(Input(name, node)) for node in range(n)]

    def rank(count: int, place: int) -> Form:
        """Of the first `count` inputs."""
        return inputs[0] if count == 1 else whole(Rank(frozenset(inputs[:count]), place))

    match program.specification:
        case specified.Sorted() | specified.Merged():
            found = [rank(n, node) for node in range(n)]
        case specified.Ranked(ranks):
            found = [rank(n, place) for place in ranks]
        case specified.PrefixMedians():
            middles = [(rank(i + 1, i // 2), rank(i + 1, (i + 1) // 2)) for i in range(n)]
            found = [added(scaled(below, HALF), scaled(above, HALF)) for below, above in middles]
        case specified.Permuted(table):
            found = [inputs[place] for place in table]
        case specified.Broadcast(source):
            found = [inputs[source]] * program.output_nodes
        case specified.Fetched():
            permutation = Permutation(program.inputs[1], n)
            found = [whole(At(name, permutation, node)) for node in range(n)] if n > 1 else inputs
        case specified.Gathered():
            addresses = [Clipped(program.inputs[1], node, Fraction(0), Fraction(n - 1)) for node in range(n)]
            found = [whole(AtAddress(name, address)) for address in addresses] if n > 1 else inputs
        case _:
            raise TypeError(f"{program.specification!r} is not followed as forms.")
    return {(node, output): form for node, form in enumerate(found)}


def _is_argsort(form: Form, rank: int, program: Program) -> bool:
    """Whether a form is the place of the number of this rank, equal numbers in the order of their places.

    Its keys are x_j + c_j with c_0 < c_1 < …, all closer together than the grid: so they are in the order of (x_j, j).
    """
    if program.length == 1:
        return form == number(0.0)
    atom, grid = form.atom(), grid_of(program, program.inputs[0])
    if not isinstance(atom, Payload) or atom.rank != rank or grid is None:
        return False
    ties: dict[int, Fraction] = {}
    for key, place in atom.records:
        held = key.shifted()
        if isinstance(held, Input) and held.name == program.inputs[0] and place == number(float(held.node)):
            ties[held.node] = key.constant
    if sorted(ties) != list(range(program.length)) or len(atom.records) != program.length:
        return False
    ordered = [ties[node] for node in range(program.length)]
    rising = all(below < above for below, above in itertools.pairwise(ordered))
    return rising and ordered[-1] - ordered[0] < Fraction(grid)
