"""Sizes of a model's numbers: never below what the model reaches, and refused where they reach too far."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posattn.compile.proof.layer_weights import LayerWeights
from posattn.compile.proof.overflow import first_sizes, next_sizes
from posattn.compile.proof.precision import PRECISIONS
from posattn.compile.proof.values import Undecided

SINGLE = PRECISIONS[torch.float32]


def layer(seed: int, scale: float = 1.0) -> LayerWeights:
    rng = np.random.default_rng(seed)
    shapes = [(2, 2), (2, 2), (4, 5), (5, 3), (3, 2)]
    return LayerWeights(1, tuple(scale * rng.normal(size=shape) for shape in shapes))


@settings(max_examples=40)
@given(st.integers(0, 10**6))
def test_no_state_exceeds_its_size(seed):
    held, rng = layer(seed), np.random.default_rng(seed)
    sizes = rng.uniform(0, 10, 2)
    states = sizes * rng.choice([-1.0, 1.0, 0.3], (50, 2))
    value, output, *mlp = held.matrices
    after = np.hstack([states, (states @ value)[::-1] @ output])  # every node reads another one
    for number, matrix in enumerate(mlp):
        after = after @ matrix if number == 0 else np.maximum(after, 0) @ matrix
    assert (np.abs(after) <= next_sizes(held, sizes, SINGLE)).all()


def test_a_number_beyond_the_dtype_is_refused_and_one_below_it_is_not():
    assert (next_sizes(layer(0, 1e6), np.ones(2), SINGLE) > 1e30).any()
    with pytest.raises(Undecided, match="can overflow float32"):
        next_sizes(layer(0, 1e9), np.ones(2), SINGLE)
    next_sizes(layer(0, 1e9), np.ones(2), PRECISIONS[torch.float64])


def test_first_sizes_are_those_of_inputs_and_constants():
    weights = {"constants": np.array([[3.0], [-7.0]]), "encoder_weight": np.array([[1.0, 0.0], [-2.0, 1.0]])}
    assert first_sizes(weights, [10.0]).tolist() == [24.0, 7.0]
    assert first_sizes({"encoder_weight": np.eye(1)}, [5.0]).tolist() == [5.0]
