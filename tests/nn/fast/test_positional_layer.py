"""The two fast forms of the positional layer against the formula in plain torch: values and every gradient."""

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from posattn.errors import PosattnError
from posattn.nn.fast import positional_layer
from posattn.nn.fast.positional_layer import expanded_layer, mixed_layer, moved

from . import layers
from .layers import numbers

EXACT = 1e-12  # float64, and no sum here has more than a few hundred terms


class Sizes(NamedTuple):
    replicas: int
    nodes: int
    into: int
    batch: int
    mixed: int
    out: int


#: Distinct primes, so that a swapped axis cannot go unnoticed; then what is smallest.
MULTIPLY_FIRST = {
    "primes": Sizes(replicas=2, nodes=5, into=7, batch=3, mixed=11, out=13),
    "other primes": Sizes(replicas=3, nodes=2, into=13, batch=11, mixed=5, out=7),
    "one node": Sizes(replicas=2, nodes=1, into=5, batch=7, mixed=3, out=11),
    "one head": Sizes(replicas=3, nodes=5, into=7, batch=11, mixed=2, out=13),
    "no head": Sizes(replicas=3, nodes=5, into=13, batch=2, mixed=1, out=7),
    "batch of one": Sizes(replicas=2, nodes=7, into=5, batch=1, mixed=3, out=11),
    "one replica": Sizes(replicas=1, nodes=7, into=5, batch=2, mixed=3, out=11),
    "one feature out": Sizes(replicas=2, nodes=7, into=5, batch=11, mixed=3, out=1),
}
MIX_FIRST = {
    "primes": Sizes(replicas=2, nodes=5, into=11, batch=7, mixed=3, out=37),
    "as wide as the result": Sizes(replicas=3, nodes=2, into=5, batch=11, mixed=7, out=35),
    "one feature": Sizes(replicas=2, nodes=7, into=1, batch=5, mixed=3, out=11),
    "one node": Sizes(replicas=2, nodes=1, into=3, batch=7, mixed=5, out=17),
    "batch of one": Sizes(replicas=2, nodes=7, into=3, batch=1, mixed=5, out=17),
}
EVERY = [*MULTIPLY_FIRST.values(), *MIX_FIRST.values()]
WITH_AND_WITHOUT_BIAS = pytest.mark.parametrize("bias", [True, False])


def inputs_of(sizes: Sizes, *, bias: bool = True) -> list[Any]:
    """State, A (rows of no particular sum), M and b."""
    r, n, k, s, g, f = sizes
    return [
        numbers(r, n, k, s, seed=1),
        numbers(r, g, n, n, seed=2, scale=n**-0.5),
        numbers(r, g, k, f, seed=3, scale=(g * k) ** -0.5),
        numbers(r, f, seed=4) if bias else None,
    ]


def weighing_of(sizes: Sizes) -> Tensor:
    return numbers(sizes.replicas, sizes.nodes, sizes.out, sizes.batch, seed=5)


def expanded(state: Tensor, *rest: Any) -> Tensor:
    """`expanded_layer`, taking and giving a state that lies as that of `mixed_layer`."""
    flat = expanded_layer(state.permute(0, 3, 1, 2).flatten(2), *rest)
    return flat.unflatten(2, (state.shape[1], -1)).permute(0, 2, 3, 1)


LAYERS = pytest.mark.parametrize("layer", [mixed_layer, expanded])


@LAYERS
@WITH_AND_WITHOUT_BIAS
@pytest.mark.parametrize("sizes", EVERY, ids=str)
def test_value_and_every_gradient_are_those_of_the_formula(layer: Any, sizes: Sizes, bias: bool) -> None:
    inputs, weighing = inputs_of(sizes, bias=bias), weighing_of(sizes)
    expected = layers.traced(layers.mixed, inputs, weighing)
    assert 0.1 < (expected.value == 0).double().mean() < 0.9  # the ReLU cuts some and passes some
    assert max(layers.errors(layers.traced(layer, inputs, weighing), expected)) < EXACT


@pytest.mark.parametrize("sizes", MULTIPLY_FIRST.values(), ids=str)
def test_a_wide_state_is_multiplied_first(sizes: Sizes) -> None:
    z = mixed_layer(*layers.differentiable(inputs_of(sizes)))
    assert type(z.grad_fn).__name__ == "_MixedBackward"


@pytest.mark.parametrize("sizes", MIX_FIRST.values(), ids=str)
def test_a_narrow_state_is_mixed_first(sizes: Sizes) -> None:
    z = mixed_layer(*layers.differentiable(inputs_of(sizes)))
    assert type(z.grad_fn).__name__ == "ReluBackward0"


@LAYERS
@WITH_AND_WITHOUT_BIAS
@pytest.mark.parametrize("sizes", [MULTIPLY_FIRST["primes"], MIX_FIRST["primes"]], ids=str)
@pytest.mark.parametrize("constant", [(0,), (0, 1), (0, 2), (1,), (2,), (3,), (0, 1, 2)])
def test_what_needs_no_gradient_gets_none_and_changes_no_other(
    layer: Any, sizes: Sizes, bias: bool, constant: tuple[int, ...]
) -> None:
    inputs, weighing = inputs_of(sizes, bias=bias), weighing_of(sizes)
    if all(x is None or at in constant for at, x in enumerate(inputs)):
        constant = ()  # nothing would be left to differentiate
    expected = layers.traced(layers.mixed, inputs, weighing, constant=constant)
    assert max(layers.errors(layers.traced(layer, inputs, weighing, constant=constant), expected)) < EXACT


@LAYERS
@pytest.mark.parametrize("sizes", [MULTIPLY_FIRST["primes"], MIX_FIRST["primes"], MIX_FIRST["one feature"]], ids=str)
def test_how_inputs_and_gradients_lie_in_memory_does_not_matter(layer: Any, sizes: Sizes) -> None:
    inputs, weighing = inputs_of(sizes), weighing_of(sizes)
    expected = layers.traced(layers.mixed, inputs, weighing)
    strewn, backwards = [layers.scattered(x) for x in inputs], layers.scattered(weighing)
    assert not any(x.is_contiguous() for x in (*strewn, backwards))
    assert max(layers.errors(layers.traced(layer, strewn, backwards), expected)) < EXACT


@LAYERS
@pytest.mark.parametrize("sizes", [MULTIPLY_FIRST["primes"], MIX_FIRST["primes"]], ids=str)
def test_one_state_seen_by_every_replica_needs_no_copy(layer: Any, sizes: Sizes) -> None:
    state, *rest = inputs_of(sizes)
    shared, weighing = state[:1].expand(sizes.replicas, -1, -1, -1), weighing_of(sizes)
    expected = layers.traced(layers.mixed, [shared.clone(), *rest], weighing)
    assert max(layers.errors(layers.traced(layer, [shared, *rest], weighing), expected)) < EXACT


@LAYERS
def test_inputs_are_left_as_they_were(layer: Any) -> None:
    sizes = MULTIPLY_FIRST["primes"]
    inputs, weighing = inputs_of(sizes), weighing_of(sizes)
    before = [x.clone() for x in (*inputs, weighing) if x is not None]
    layers.traced(layer, inputs, weighing)
    assert all(torch.equal(x, y) for x, y in zip((*inputs, weighing), before, strict=True) if x is not None)


@LAYERS
@WITH_AND_WITHOUT_BIAS
@pytest.mark.parametrize(
    "sizes",
    [
        Sizes(replicas=2, nodes=3, into=5, batch=2, mixed=2, out=7),
        Sizes(replicas=2, nodes=3, into=1, batch=2, mixed=2, out=5),
        Sizes(replicas=1, nodes=1, into=2, batch=1, mixed=2, out=3),
    ],
    ids=str,
)
def test_gradients_are_the_slopes_of_the_value(layer: Any, sizes: Sizes, bias: bool) -> None:
    inputs = layers.differentiable(inputs_of(sizes, bias=bias))
    assert torch.autograd.gradcheck(layer, inputs)


@LAYERS
@WITH_AND_WITHOUT_BIAS
def test_second_derivative_is_refused_with_the_way_out(layer: Any, bias: bool) -> None:
    leaves = layers.differentiable(inputs_of(MULTIPLY_FIRST["primes"], bias=bias))
    asked = [x for x in leaves if x is not None]
    value = layer(*leaves)
    with pytest.raises(PosattnError, match=r"second derivative .*create_graph=True.*differentiate the model itself"):
        torch.autograd.grad(value.sum(), asked, create_graph=True, retain_graph=True)
    assert all(x.isfinite().all() for x in torch.autograd.grad(value.sum(), asked))  # the first is still to be had


def test_a_state_in_bfloat16_is_rounded_once_a_product() -> None:
    """Unit roundoff 2⁻⁹: W is rounded, then the product, then its ReLU is exact; a gradient is one product more."""
    sizes = MULTIPLY_FIRST["primes"]
    state, *rest = (x.float() for x in inputs_of(sizes))
    halved = state.bfloat16()
    weighing = weighing_of(sizes).bfloat16()
    expected = layers.traced(layers.mixed, [halved.double(), *(x.double() for x in rest)], weighing)
    found = layers.traced(expanded, [halved, *rest], weighing)
    assert found.value.dtype == torch.bfloat16
    assert [x.dtype for x in found.gradients if x is not None] == [torch.bfloat16, *[torch.float32] * 3]
    added = torch.where(found.value > 0, weighing, 0).double().sum((1, 3))
    assert found.gradients[3] is not None
    assert (found.gradients[3] - added).norm() / added.norm() < 1e-5  # up to 77 roundings of 2⁻²⁴, none of 2⁻⁹
    # ReLUs near 0 may switch: the bound holds for the norm, not for every entry.
    for x, y in zip((found.value, *found.gradients), (expected.value, *expected.gradients), strict=True):
        assert x is not None
        assert y is not None
        assert float((x.double() - y.double()).norm() / y.double().norm()) < 4 * 2**-9


@WITH_AND_WITHOUT_BIAS
def test_moved_is_a_linear_map_of_every_node_and_sample(bias: bool) -> None:
    r, n, k, s, f = 2, 3, 5, 7, 11
    inputs = [numbers(r, n, k, s, seed=1), numbers(r, k, f, seed=2), numbers(r, f, seed=3) if bias else None]

    def formula(state: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        z = torch.einsum("rnks,rkf->rnfs", state, weight)
        return z if bias is None else z + bias[:, None, :, None]

    weighing = numbers(r, n, f, s, seed=4)
    expected = layers.traced(formula, inputs, weighing)
    assert max(layers.errors(layers.traced(moved, inputs, weighing), expected)) < EXACT
    strewn = [layers.scattered(x) for x in inputs]
    assert max(layers.errors(layers.traced(moved, strewn, weighing), expected)) < EXACT


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_sum_over_columns_in_pieces_is_the_sum(replicas: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, where these kernels do not apply."""
    monkeypatch.setattr(positional_layer, "PIECE", 7)
    x, y = numbers(replicas, 5, 42, seed=1), numbers(replicas, 11, 42, seed=2)
    expected = torch.einsum("ric,rjc->rij", x, y)
    assert (positional_layer._gram(x, y) - expected).abs().max() < EXACT * expected.abs().max()
    shorter = positional_layer._gram(x[:, :, :41], y[:, :, :41])  # not so many pieces of one length
    assert torch.allclose(shorter, torch.einsum("ric,rjc->rij", x[:, :, :41], y[:, :, :41]), rtol=EXACT, atol=0)
