"""The fast form of the standard layer against the formula in plain torch: values and every gradient."""

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from posattn.errors import PosattnError
from posattn.nn.fast.standard_layer import FEW_NODES, _turned, attending_layer, attending_node

from . import layers
from .layers import numbers

EXACT = 1e-12


class Sizes(NamedTuple):
    replicas: int
    batch: int
    nodes: int
    into: int
    heads: int
    out: int


#: Distinct primes, so that a swapped axis cannot go unnoticed; then what is smallest.
SIZES = [
    Sizes(replicas=2, batch=3, nodes=5, into=7, heads=11, out=13),
    Sizes(replicas=3, batch=11, nodes=7, into=5, heads=2, out=13),
    Sizes(replicas=7, batch=2, nodes=3, into=13, heads=5, out=11),
    Sizes(replicas=2, batch=7, nodes=1, into=5, heads=3, out=11),
    Sizes(replicas=3, batch=2, nodes=5, into=7, heads=1, out=11),
    Sizes(replicas=2, batch=1, nodes=7, into=5, heads=3, out=11),
    Sizes(replicas=1, batch=2, nodes=7, into=5, heads=3, out=11),
    Sizes(replicas=2, batch=5, nodes=7, into=1, heads=3, out=11),
    Sizes(replicas=2, batch=5, nodes=7, into=11, heads=3, out=1),
    Sizes(replicas=1, batch=1, nodes=1, into=1, heads=1, out=2),
    Sizes(replicas=2, batch=3, nodes=FEW_NODES, into=5, heads=2, out=7),
    Sizes(replicas=2, batch=3, nodes=FEW_NODES + 1, into=5, heads=2, out=7),  # from here on nodes are many
    Sizes(replicas=3, batch=5, nodes=37, into=7, heads=1, out=2),
    Sizes(replicas=1, batch=1, nodes=19, into=1, heads=3, out=5),
]
PRIMES = SIZES[0]
EVERY_SIZE = pytest.mark.parametrize("sizes", SIZES, ids=str)
WITH_AND_WITHOUT_BIAS = pytest.mark.parametrize("bias", [True, False])


def inputs_of(sizes: Sizes, *, bias: bool = True, sharpness: float = 1.0) -> list[Any]:
    """u, N, c, M and b, such that logits are about as large as `sharpness`."""
    r, s, n, k, h, f = sizes
    return [
        numbers(r, s, n, k, seed=1),
        numbers(r, h, k, k, seed=2, scale=sharpness / k),
        numbers(r, h, k, seed=3, scale=sharpness * k**-0.5),
        numbers(r, 1 + h, k, f, seed=4, scale=k**-0.5),
        numbers(r, f, seed=5) if bias else None,
    ]


def weighing_of(sizes: Sizes) -> Tensor:
    return numbers(sizes.replicas, sizes.batch, sizes.nodes, sizes.out, seed=6)


@EVERY_SIZE
@WITH_AND_WITHOUT_BIAS
def test_value_and_every_gradient_are_those_of_the_formula(sizes: Sizes, bias: bool) -> None:
    inputs, weighing = inputs_of(sizes, bias=bias), weighing_of(sizes)
    expected = layers.traced(layers.attending, inputs, weighing)
    if expected.value.numel() > 20:
        assert 0.1 < (expected.value == 0).double().mean() < 0.9  # the ReLU cuts some and passes some
    assert max(layers.errors(layers.traced(attending_layer, inputs, weighing), expected)) < EXACT


@pytest.mark.parametrize("heads", range(1, 10))
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_nodes_change_places_and_heads_stay_in_order(heads: int, dtype: torch.dtype) -> None:
    weights = numbers(3, 5, 7 * heads, seed=1).to(dtype)
    found = _turned(weights, 7, heads)
    assert found.shape == (3, 7, 5 * heads)
    assert found.is_contiguous()
    for head in range(heads):
        assert torch.equal(found[:, :, head::heads], weights[:, :, head::heads].mT)


def test_attention_that_is_almost_a_choice_neither_overflows_nor_drifts() -> None:
    inputs, weighing = inputs_of(PRIMES, sharpness=1000.0), weighing_of(PRIMES)
    expected = layers.traced(layers.attending, inputs, weighing)
    found = layers.traced(attending_layer, inputs, weighing)
    # Rounding of logits of a few thousand is a few 1e-13, and is the weights' relative error.
    assert max(layers.errors(found, expected)) < 1e-9


@WITH_AND_WITHOUT_BIAS
@pytest.mark.parametrize("constant", [(0,), (0, 1, 2), (1,), (2,), (3,), (0, 3), (4,), (0, 1, 2, 4)])
def test_what_needs_no_gradient_gets_none_and_changes_no_other(bias: bool, constant: tuple[int, ...]) -> None:
    inputs, weighing = inputs_of(PRIMES, bias=bias), weighing_of(PRIMES)
    expected = layers.traced(layers.attending, inputs, weighing, constant=constant)
    found = layers.traced(attending_layer, inputs, weighing, constant=constant)
    assert max(layers.errors(found, expected)) < EXACT


@EVERY_SIZE
@WITH_AND_WITHOUT_BIAS
def test_what_node_0_reads_is_its_part_of_the_layer(sizes: Sizes, bias: bool) -> None:
    inputs, weighing = inputs_of(sizes, bias=bias), weighing_of(sizes)[:, :, 0]
    expected = layers.traced(lambda *given: layers.attending(*given)[:, :, 0], inputs, weighing)
    if expected.value.any():
        assert max(layers.errors(layers.traced(attending_node, inputs, weighing), expected)) < EXACT


@EVERY_SIZE
def test_how_inputs_and_gradients_lie_in_memory_does_not_matter(sizes: Sizes) -> None:
    inputs, weighing = inputs_of(sizes), weighing_of(sizes)
    expected = layers.traced(layers.attending, inputs, weighing)
    backwards = layers.scattered(weighing)
    found = layers.traced(attending_layer, [layers.scattered(x) for x in inputs], backwards)
    assert max(layers.errors(found, expected)) < EXACT


def test_one_state_seen_by_every_replica_needs_no_copy() -> None:
    state, *rest = inputs_of(PRIMES)
    shared, weighing = state[:1].expand(PRIMES.replicas, -1, -1, -1), weighing_of(PRIMES)
    expected = layers.traced(layers.attending, [shared.clone(), *rest], weighing)
    assert max(layers.errors(layers.traced(attending_layer, [shared, *rest], weighing), expected)) < EXACT


def test_inputs_are_left_as_they_were() -> None:
    inputs, weighing = inputs_of(PRIMES), weighing_of(PRIMES)
    before = [x.clone() for x in (*inputs, weighing) if x is not None]
    layers.traced(attending_layer, inputs, weighing)
    assert all(torch.equal(x, y) for x, y in zip((*inputs, weighing), before, strict=True) if x is not None)


@WITH_AND_WITHOUT_BIAS
@pytest.mark.parametrize(
    "sizes",
    [
        Sizes(replicas=2, batch=1, nodes=3, into=2, heads=2, out=3),
        Sizes(replicas=1, batch=2, nodes=2, into=3, heads=1, out=2),
        Sizes(replicas=1, batch=2, nodes=1, into=3, heads=2, out=2),
    ],
    ids=str,
)
def test_gradients_are_the_slopes_of_the_value(sizes: Sizes, bias: bool) -> None:
    inputs = layers.differentiable(inputs_of(sizes, bias=bias))
    assert torch.autograd.gradcheck(attending_layer, inputs)


@WITH_AND_WITHOUT_BIAS
def test_second_derivative_is_refused_with_the_way_out(bias: bool) -> None:
    leaves = layers.differentiable(inputs_of(PRIMES, bias=bias))
    asked = [x for x in leaves if x is not None]
    value = attending_layer(*leaves)
    with pytest.raises(PosattnError, match=r"second derivative .*create_graph=True.*differentiate the model itself"):
        torch.autograd.grad(value.sum(), asked, create_graph=True, retain_graph=True)
    assert all(x.isfinite().all() for x in torch.autograd.grad(value.sum(), asked))  # the first is still to be had
