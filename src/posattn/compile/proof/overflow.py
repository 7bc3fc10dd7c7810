"""No number of the model overflows: sums of sizes, for every unit of every layer, read or not (0·∞ is not a number)."""

from collections.abc import Mapping, Sequence

import numpy as np

from posattn.compile.expressions import Array
from posattn.compile.proof.layer_weights import LayerWeights
from posattn.compile.proof.precision import Precision
from posattn.compile.proof.values import Undecided

#: Sizes are added up in float64: off by far less than this factor, which also covers what the model's numbers are off.
SLACK = 1.01


def first_sizes(weights: Mapping[str, Array], inputs: Sequence[float]) -> Array:
    """The largest size of every dimension of the first state, from those of the inputs."""
    given = np.abs(weights["constants"]).max(0) if "constants" in weights else np.zeros(0)
    return np.concatenate([inputs, given]) @ np.abs(weights["encoder_weight"])


def next_sizes(layer: LayerWeights, sizes: Array, precision: Precision) -> Array:
    """The largest size of every dimension of the next state, from those of this one."""
    value, output, *mlp = (np.abs(matrix) for matrix in layer.matrices)
    values = sizes @ value
    state = np.concatenate([sizes, values @ output])
    reached = [values, state]
    for matrix in mlp:
        state = state @ matrix
        reached.append(state)
    most = SLACK * float(max(held.max(initial=0.0) for held in reached))
    if not most < float(precision.largest):
        raise Undecided(f"sums of up to {most:.3g} can overflow {precision.name}")
    return SLACK * state
