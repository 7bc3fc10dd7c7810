"""Forms as the matrices of a bias-free ReLU MLP.

What a unit needs from further below is carried: x = relu(x) − relu(−x), or relu(x) alone where x is never negative.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from posattn.compile.expressions import Array
from posattn.compile.lowering.linear_forms import Atom, Form, Unit

#: The columns that add up to each atom, with their signs.
Held = dict[Atom, list[tuple[int, float]]]


@dataclass(frozen=True)
class Network:
    """Matrices of a bias-free ReLU MLP: y = relu(… relu(x·W₁)·W₂ …)·W_last."""

    matrices: tuple[Array, ...]

    def __call__(self, x: Array) -> Array:
        for matrix in self.matrices[:-1]:
            x = np.maximum(x @ matrix, 0)
        return x @ self.matrices[-1]

    @property
    def width(self) -> int:
        """Units in the widest hidden layer."""
        return max(matrix.shape[1] for matrix in self.matrices[:-1])


def network(inputs: Sequence[str], outputs: Sequence[Form], *, depth: int, unsigned: set[str]) -> Network:
    """The MLP with `depth` hidden layers that computes forms from input words; `unsigned` words are never negative."""
    held: Held = {name: [(column, 1.0)] for column, name in enumerate(inputs)}
    width, matrices = len(inputs), []
    for level, atoms in enumerate(_needed(outputs, depth), 1):
        columns: list[Form] = []
        above: Held = {}
        for atom in atoms:
            if isinstance(atom, Unit) and atom.depth == level:
                above[atom] = [(len(columns), 1.0)]
                columns.append(dict(atom.terms))
            elif isinstance(atom, Unit) or atom in unsigned:
                above[atom] = [(len(columns), 1.0)]
                columns.append({atom: 1.0})
            else:
                above[atom] = [(len(columns), 1.0), (len(columns) + 1, -1.0)]
                both: list[Form] = [{atom: 1.0}, {atom: -1.0}]
                columns += both
        columns = columns or [{}]  # a layer has at least one unit
        matrices.append(_matrix(held, width, columns))
        held, width = above, len(columns)
    matrices.append(_matrix(held, width, outputs))
    return Network(tuple(matrices))


def _needed(outputs: Sequence[Form], depth: int) -> list[list[Atom]]:
    """The atoms that each hidden layer must hold, from the first to the last: its own units, and what is carried."""
    layers = [_distinct(atom for form in outputs for atom in form)]
    for level in range(depth, 1, -1):
        below: list[Atom] = []
        for atom in layers[0]:
            if isinstance(atom, Unit) and atom.depth == level:
                below += [part for part, _ in atom.terms]
            else:
                below.append(atom)
        layers.insert(0, _distinct(below))
    return layers


def _matrix(held: Held, rows: int, columns: Sequence[Form]) -> Array:
    matrix = np.zeros((rows, len(columns)))
    for column, form in enumerate(columns):
        for atom, coefficient in form.items():
            for row, sign in held[atom]:
                matrix[row, column] += sign * coefficient
    return matrix


def _distinct(atoms: Iterable[Atom]) -> list[Atom]:
    return list(dict.fromkeys(atoms))
