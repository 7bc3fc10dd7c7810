"""What is known of every register at every node, before a layer: equal knowledge is kept once."""

from collections.abc import Iterable, Mapping
from fractions import Fraction

import numpy as np
from torch import Tensor

from posattn.compile.expressions import Array
from posattn.compile.input_ranges import Domain, bound_of, grid_of
from posattn.compile.lowering.floats import has_exact_multiples
from posattn.compile.lowering.lattice import WHOLE, Lattice, meant
from posattn.compile.lowering.register_errors import OFF_GRID
from posattn.compile.program import Program
from posattn.compile.proof.precision import Precision
from posattn.compile.proof.values import NONE, Undecided, Value, number


class Table:
    """Values by number, and how they look from afar: 0 any number, 1 on a lattice, more where it is like no other."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self.places: dict[Value, int] = {}
        self.looks: list[int] = []

    def place(self, value: Value) -> int:
        if value not in self.places:
            place = self.places[value] = len(self.values)
            self.values.append(value)
            zero = value == number(NONE)
            self.looks.append(place + 2 if zero else int(value.lattice is not None))
        return self.places[value]


#: Register → for every node, the place of its value in a table.
State = dict[str, Array]


def first_state(
    program: Program,
    registers: tuple[str, ...],
    weights: Mapping[str, Tensor],
    *,
    live: Iterable[str],
    domain: Domain,
    precision: Precision,
    table: Table,
) -> tuple[State, set[str]]:
    """What the encoder makes of inputs and constants, read from its weights, and the registers that hold constants.

    Refuses what is not the program's. Registers that nothing depends on (not in `live`) are left out. A sink, the node
    behind the program's, holds 0.
    """
    encoder = weights["encoder_weight"].detach().cpu().double().numpy()
    given = (
        weights["constants"].detach().cpu().double().numpy()
        if "constants" in weights
        else np.zeros((len(weights["encoding"]), 0))
    )
    nodes, inputs = len(weights["encoding"]), len(program.inputs)
    state: State = {}
    constants: set[str] = set()
    for dimension, name in enumerate(registers):
        if name not in live:
            continue
        column = encoder[:, dimension]
        from_inputs, from_constants = np.flatnonzero(column[:inputs]), np.flatnonzero(column[inputs:])
        if name in program.inputs:
            wanted = [program.inputs.index(name)]
            if list(from_inputs) != wanted or column[wanted[0]] != 1 or len(from_constants):
                raise Undecided(f"the encoder does not put input '{name}' into its register")
            held = _input(program, name, domain, precision)
            state[name] = np.array([table.place(held if i < program.length else number(NONE)) for i in range(nodes)])
            continue
        if len(from_inputs) or len(from_constants) > 1 or any(column[inputs + k] != 1 for k in from_constants):
            raise Undecided(f"the encoder does not leave register '{name}' alone")
        stored = given[:, from_constants[0]] if len(from_constants) else np.zeros(nodes)
        state[name] = np.array([table.place(held) for held in _constants(program, name, stored, precision)])
        if len(from_constants):
            constants.add(name)
    return state, constants


def _input(program: Program, name: str, domain: Domain, precision: Precision) -> Value:
    """An input's range and lattice. On a grid such as 0.1, inputs are off it by their own rounding."""
    if name in program.permutations:
        return Value(NONE, Fraction(program.length - 1), WHOLE)
    bound, grid = Fraction(bound_of(program, domain, name)), grid_of(program, name)
    if grid is None:
        return Value(-bound, bound)
    off = NONE if has_exact_multiples(grid) else Fraction(OFF_GRID) * 2 * precision.unit * bound
    return Value(-bound, bound, Lattice(NONE, meant(grid)), meant=off)


def _constants(program: Program, name: str, stored: Array, precision: Precision) -> Iterable[Value]:
    """What the file holds for a register that is not an input: the program's constants, as the dtype rounds them."""
    wanted = program.constants.get(name)
    for node, value in enumerate(stored):
        exactly = Fraction(float(value))
        if node >= program.nodes:
            if exactly:
                raise Undecided(f"register '{name}' is not 0 at the node that is read for nothing")
            yield number(NONE)
        elif name not in program.registers:  # the compiler's own: what it is for is seen in the layers that read it
            yield number(exactly)
        else:
            program_s = 0.0 if wanted is None else wanted[node]
            if exactly != precision.nearest(program_s):
                raise Undecided(
                    f"'{name}' of node {node} is {float(value):g} in the file and {program_s:g} in the program"
                )
            off, simple = abs(exactly - Fraction(program_s)), meant(program_s)
            yield number(exactly, simple, error=off, meant=abs(exactly - simple))
