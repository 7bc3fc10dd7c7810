"""The weights of a compiled model as exact fractions, and all that one register's next value is computed from.

v = state·W_V, read by head h at the node that it selects;  attended = v·W_O
MLP: relu([state ‖ attended]·W₁), relu(·W₂), …, ·W_last
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from torch import Tensor

from posattn.compile.expressions import Array

#: A column of a matrix, sparse: row → weight.
Column = dict[int, Fraction]
#: A dimension of a state that is read: through a head, or (None) of the node's own.
Input = tuple[int | None, int]


@dataclass(frozen=True)
class Cone:
    """The part of a layer that one dimension of the next state depends on; rows are counted among what is kept."""

    inputs: tuple[Input, ...]  # the node's own first
    value: list[Column]  # of inputs
    output: list[Column]  # of values
    mlp: list[list[Column]]  # of the node's own inputs and the outputs, then of the level below

    @property
    def own(self) -> int:
        """How many inputs are the node's own."""
        return sum(head is None for head, _ in self.inputs)

    @cached_property
    def key(self) -> str:
        """The weights, whatever they are read from."""
        return repr((self.own, len(self.inputs), self.value, self.output, self.mlp))


@dataclass(frozen=True)
class LayerWeights:
    """One layer without its attention: its matrices, and the same as lists of columns."""

    heads: int
    matrices: tuple[Array, ...]  # W_V, W_O, then the MLP's

    @cached_property
    def columns(self) -> list[list[Column]]:
        return list(map(columns, self.matrices))

    @property
    def width(self) -> int:
        return len(self.matrices[0])

    def head_of(self, column: int) -> int:
        return column // (self.width // self.heads)

    @cached_property
    def used(self) -> set[int]:
        """The heads that anything is read through."""
        return {head for dimension in range(self.width) for head, _ in self.cone(dimension).inputs if head is not None}

    def cone(self, dimension: int) -> Cone:
        """What a dimension of the next state is computed from."""
        value, output, *mlp = self.columns
        levels: list[list[Column]] = [[mlp[-1][dimension]]]
        for matrix in reversed(mlp[:-1]):
            needed = sorted({row for column in levels[0] for row in column})
            levels[0] = _counted(levels[0], needed)
            levels.insert(0, [matrix[row] for row in needed])
        rows = sorted({row for column in levels[0] for row in column})
        own, attended = [row for row in rows if row < self.width], [row for row in rows if row >= self.width]
        levels[0] = _counted(levels[0], rows)
        outputs = [output[row - self.width] for row in attended]
        carried = sorted({row for column in outputs for row in column})
        read = sorted({(self.head_of(number), row) for number in carried for row in value[number]})
        inputs: tuple[Input, ...] = (*((None, row) for row in own), *read)
        places = {entry: number for number, entry in enumerate(inputs)}
        values = [{places[self.head_of(n), row]: w for row, w in value[n].items()} for n in carried]
        return Cone(inputs, values, _counted(outputs, carried), levels)


def _counted(found: list[Column], kept: list[int]) -> list[Column]:
    """The same columns, with their rows counted among those that are kept."""
    places = {row: number for number, row in enumerate(kept)}
    return [{places[row]: w for row, w in column.items()} for column in found]


def layer_weights(weights: Mapping[str, Tensor], heads: int) -> list[LayerWeights]:
    """Every layer's weights, from the stacked tensors of a model's file."""
    held = {name: tensor.detach().cpu().double().numpy() for name, tensor in weights.items()}
    found = []
    for layer in range(len(held["value_weight"])):
        middle = held["mlp_middle_weight"][layer] if "mlp_middle_weight" in held else []
        names = ("value_weight", "output_weight", "mlp_in_weight")
        found.append(LayerWeights(heads, (*(held[n][layer] for n in names), *middle, held["mlp_out_weight"][layer])))
    return found


def columns(matrix: Array) -> list[Column]:
    found: list[Column] = [{} for _ in range(matrix.shape[1])]
    for row, column in zip(*np.nonzero(matrix), strict=True):
        found[column][int(row)] = Fraction(float(matrix[row, column]))
    return found
