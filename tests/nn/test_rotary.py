"""Rotary position embedding against explicit rotation matrices."""

import math

import numpy as np
import pytest
import torch

from posattn.nn.rotary import rotate

from . import oracle


@pytest.mark.parametrize("width", [2, 6, 14])
def test_rotate_equals_the_block_diagonal_rotation_of_every_node(width):
    x = oracle.numbers(3, 5, 7, width)
    expected = np.zeros(x.shape)
    for index in np.ndindex(3, 5, 7):
        expected[index] = oracle.rotation(index[-1], width) @ x[index].numpy()
    # Angles of at most 6, off by two roundings of 2⁻⁵², and three roundings of the turn.
    assert oracle.relative_error(rotate(x), expected) < 1e-14


def test_node_1_of_width_2_turns_by_one_radian():
    x = torch.tensor([[0.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
    expected = [[0.0, 0.0], [math.cos(1), math.sin(1)]]
    assert oracle.relative_error(rotate(x), expected) < 1e-15


def test_the_second_plane_turns_slower_by_the_base():
    """Width 4: planes turn by i and by i/100."""
    x = torch.zeros(4, 4, dtype=torch.float64)
    x[:, [0, 2]] = 1.0
    i = np.arange(4)
    expected = np.stack([np.cos(i), np.sin(i), np.cos(i / 100), np.sin(i / 100)], axis=1)
    assert oracle.relative_error(rotate(x), expected) < 1e-14


def test_inner_products_depend_on_the_distance_of_nodes_alone():
    nodes, width = 11, 6
    query, key = oracle.numbers(width, seed=1), oracle.numbers(width, seed=2)
    scores = rotate(query.expand(nodes, width)) @ rotate(key.expand(nodes, width)).mT
    for i in range(nodes - 1):
        for j in range(nodes - 1):
            assert torch.isclose(scores[i, j], scores[i + 1, j + 1], rtol=1e-12, atol=1e-12)
    assert (scores[0] - scores[0, 0]).abs()[1:].min() > 1e-3  # and they do depend on it


def test_lengths_are_kept():
    x = oracle.numbers(2, 13, 10)
    assert torch.allclose(rotate(x).norm(dim=-1), x.norm(dim=-1), rtol=1e-14, atol=0)  # 10 squares


def test_the_first_node_is_not_turned():
    x = oracle.numbers(3, 5, 4)
    assert torch.equal(rotate(x)[:, 0], x[:, 0])


def test_the_node_axis_turns_and_the_axes_of_heads_and_batch_do_not():
    same = oracle.numbers(7, 6).expand(3, 5, 7, 6)  # (batch, heads, nodes, width)
    turned = rotate(same)
    assert torch.equal(turned, turned[0, 0].expand(3, 5, 7, 6))
    assert (turned[0, 0, 1:] - same[0, 0, 1:]).abs().amax(-1).min() > 1e-2


def test_float32_angles_of_far_nodes_are_computed_in_float64():
    x = torch.zeros(100_003, 2)
    x[:, 0] = 1.0
    expected = [math.cos(100_002), math.sin(100_002)]
    assert oracle.relative_error(rotate(x)[-1], expected) < 1e-6
