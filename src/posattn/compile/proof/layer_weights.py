"""The weights of a compiled model as exact fractions, sparse: only what is not 0 is kept.

v = state·W_V, read by head h at the node that it selects;  attended = v·W_O
MLP: relu([state ‖ attended]·W₁), relu(·W₂), …, ·W_last
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from torch import Tensor

from posattn.compile.expressions import Array

#: A column of a matrix: row → weight.
Column = dict[int, Fraction]


@dataclass(frozen=True)
class LayerWeights:
    """One layer without its attention. Matrices are lists of columns."""

    heads: int
    value: list[Column]
    output: list[Column]
    mlp: list[list[Column]]
    digest: str

    @property
    def width(self) -> int:
        return len(self.value)

    @cached_property
    def own(self) -> set[int]:
        """The dimensions of its own state that a node's MLP reads."""
        return {row for column in self.mlp[0] for row in column if row < self.width}

    @cached_property
    def read(self) -> dict[int, set[int]]:
        """Head → the dimensions that are read through it; heads that nothing comes from are left out."""
        attended = {row - self.width for column in self.mlp[0] for row in column if row >= self.width}
        arriving = {row for a in attended for row in self.output[a]}
        found: dict[int, set[int]] = {}
        for column in arriving:
            if self.value[column]:
                found.setdefault(self.head_of(column), set()).update(self.value[column])
        return found

    def head_of(self, column: int) -> int:
        return column // (self.width // self.heads)


def layer_weights(weights: Mapping[str, Tensor], heads: int) -> list[LayerWeights]:
    """Every layer's weights, from the stacked tensors of a model's file."""
    held = {name: tensor.detach().cpu().numpy() for name, tensor in weights.items()}
    found = []
    for layer in range(len(held["value_weight"])):
        middle = held["mlp_middle_weight"][layer] if "mlp_middle_weight" in held else []
        matrices = [held["mlp_in_weight"][layer], *middle, held["mlp_out_weight"][layer]]
        ends = [held["value_weight"][layer], held["output_weight"][layer]]
        digest = hashlib.sha256(b"".join(np.ascontiguousarray(m).tobytes() for m in (*ends, *matrices))).hexdigest()
        value, output = map(columns, ends)
        found.append(LayerWeights(heads, value, output, list(map(columns, matrices)), digest))
    return found


def columns(matrix: Array) -> list[Column]:
    found: list[Column] = [{} for _ in range(matrix.shape[1])]
    for row, column in zip(*np.nonzero(matrix), strict=True):
        found[column][int(row)] = Fraction(float(matrix[row, column]))
    return found
