"""A fast form beside the model itself, mapped over replicas: values, and the gradient for every tensor."""

from collections.abc import Callable

import torch
from torch import Tensor

from nn import oracle
from posattn.nn import Architecture
from posattn.nn.fast.any_model import mapped
from posattn.nn.initial_weights import Params


def traced(form: Callable[..., Tensor], p: Params, *inputs: Tensor) -> tuple[Tensor, Params]:
    """Output, and the gradient of a fixed random mixture of it for every tensor; 0 where a tensor is not used."""
    given = p | {f"input {at}": x for at, x in enumerate(inputs)}
    leaves = {name: x.clone().requires_grad_(x.is_floating_point()) for name, x in given.items()}
    y = form({name: leaves[name] for name in p}, *(leaves[name] for name in given if name not in p))
    (y * oracle.numbers(*y.shape, seed=9)).sum().backward()
    return y.detach(), {
        name: torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
        for name, leaf in leaves.items()
        if leaf.requires_grad
    }


def assert_equals_the_model(form: Callable[..., Tensor], sizes: Architecture, p: Params, *inputs: Tensor) -> None:
    y, gradients = traced(mapped(sizes), p, *inputs)
    fast_y, fast_gradients = traced(form, p, *inputs)
    assert 0.1 < y.abs().max() < 100  # neither so small nor so large that an error would hide
    assert oracle.relative_error(fast_y, y) < oracle.ROUNDING
    largest = max(gradient.abs().max() for gradient in gradients.values())
    for name, gradient in gradients.items():
        error = (fast_gradients[name] - gradient).abs().max()
        # A gradient that is 0 by algebra (of b_K: softmax does not see it) is rounding on one side, 0 on the other.
        scale = gradient.abs().max() if gradient.abs().max() > oracle.ROUNDING * largest else largest
        assert error <= oracle.ROUNDING * scale, name
