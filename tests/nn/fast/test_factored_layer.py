"""The positional layer with narrow values against its formula in plain torch: values and every gradient."""

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from posattn.errors import PosattnError
from posattn.nn.fast.factored_layer import factored_layer

from . import layers
from .layers import numbers

EXACT = 1e-12  # float64, and no sum here has more than a few hundred terms


class Sizes(NamedTuple):
    replicas: int
    into: int
    nodes: int
    batch: int
    heads: int
    readers: int
    width: int  # of one head's values
    hidden: int


#: Distinct primes where that is possible, so that a swapped axis cannot go unnoticed; then what is smallest.
SIZES = {
    "primes": Sizes(replicas=2, into=7, nodes=5, batch=3, heads=2, readers=5, width=11, hidden=13),
    "few readers": Sizes(replicas=3, into=5, nodes=7, batch=2, heads=3, readers=2, width=1, hidden=11),
    "one head": Sizes(replicas=2, into=3, nodes=5, batch=7, heads=1, readers=3, width=13, hidden=2),
    "one node": Sizes(replicas=2, into=5, nodes=1, batch=7, heads=2, readers=1, width=3, hidden=11),
    "one of each": Sizes(replicas=1, into=2, nodes=3, batch=1, heads=1, readers=1, width=1, hidden=5),
}
EVERY = pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
WITH_AND_WITHOUT_BIAS = pytest.mark.parametrize("bias", [True, False])


def inputs_of(sizes: Sizes, *, bias: bool = True) -> list[Any]:
    """State, A (rows of no particular sum), [M₀ | V_1 | …], W and b."""
    r, k, n, s, h, i, w, f = sizes
    return [
        numbers(r, k, n, s, seed=1),
        numbers(r, h, i, n, seed=2, scale=n**-0.5),
        numbers(r, k, f + h * w, seed=3, scale=k**-0.5),
        numbers(r, h * w, f, seed=4, scale=(h * w) ** -0.5),
        numbers(r, f, seed=5) if bias else None,
    ]


def weighing_of(sizes: Sizes) -> Tensor:
    return numbers(sizes.replicas, sizes.hidden, sizes.readers, sizes.batch, seed=6)


@EVERY
@WITH_AND_WITHOUT_BIAS
def test_value_and_every_gradient_are_those_of_the_formula(sizes: Sizes, bias: bool) -> None:
    inputs, weighing = inputs_of(sizes, bias=bias), weighing_of(sizes)
    expected = layers.traced(layers.narrow, inputs, weighing)
    assert max(layers.errors(layers.traced(factored_layer, inputs, weighing), expected)) < EXACT


@pytest.mark.parametrize("constant", [(0,), (1,), (2,), (3,), (4,), (0, 1), (1, 2, 3, 4)])
def test_what_needs_no_gradient_gets_none_and_changes_no_other(constant: tuple[int, ...]) -> None:
    inputs, weighing = inputs_of(SIZES["primes"]), weighing_of(SIZES["primes"])
    expected = layers.traced(layers.narrow, inputs, weighing, constant=constant)
    assert max(layers.errors(layers.traced(factored_layer, inputs, weighing, constant=constant), expected)) < EXACT


def test_how_inputs_and_gradients_lie_in_memory_does_not_matter_and_they_are_left_as_they_were() -> None:
    inputs, weighing = inputs_of(SIZES["few readers"]), weighing_of(SIZES["few readers"])
    strewn = [layers.scattered(x) for x in (*inputs, weighing)]
    assert not any(x.is_contiguous() for x in strewn)
    expected = layers.traced(layers.narrow, inputs, weighing)
    assert max(layers.errors(layers.traced(factored_layer, strewn[:-1], strewn[-1]), expected)) < EXACT
    assert all(torch.equal(x, y) for x, y in zip(strewn, (*inputs, weighing), strict=True))


def test_second_derivative_is_refused_with_the_way_out() -> None:
    leaves = layers.differentiable(inputs_of(SIZES["primes"]))
    value = factored_layer(*leaves)
    with pytest.raises(PosattnError, match=r"second derivative .*create_graph=True.*differentiate the model itself"):
        torch.autograd.grad(value.sum(), leaves, create_graph=True, retain_graph=True)
    assert all(x.isfinite().all() for x in torch.autograd.grad(value.sum(), leaves))  # the first is still to be had


def test_autocast_rounds_all_of_it_and_gradients_keep_their_dtypes() -> None:
    """Unit roundoff 2⁻⁹: between an input and the value lie three products and a sum, and as many on the way back."""
    inputs, weighing = [x.float() for x in inputs_of(SIZES["primes"])], weighing_of(SIZES["primes"]).float()

    def rounded(*given: Any) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            value = factored_layer(*given)
        assert value.dtype == torch.bfloat16
        return value.float()

    found = layers.traced(rounded, inputs, weighing)
    expected = layers.traced(layers.narrow, [x.double() for x in inputs], weighing.double())
    # ReLUs near 0 may switch: the bound holds for the norm, not for every entry.
    for x, y in zip((found.value, *found.gradients), (expected.value, *expected.gradients), strict=True):
        assert x is not None
        assert y is not None
        assert x.dtype == torch.float32
        assert 0 < float((x.double() - y).norm() / y.norm()) < 12 * 2**-9
