"""What the tests of the fast layers share: the layers' formulas in plain torch, and a comparison with them.

Nothing here calls posattn.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

Inputs = Sequence[Tensor | None]


def mixed_sum(state: Tensor, attention: Tensor, matrices: Tensor, bias: Tensor | None) -> Tensor:
    """b + Σ_g A_g·u·M_g, the state as (replicas, nodes, features, batch)."""
    z = torch.einsum("rgij,rjkb,rgkf->rifb", attention, state, matrices)
    return z if bias is None else z + bias[:, None, :, None]


def mixed(*inputs: Any) -> Tensor:
    return mixed_sum(*inputs).relu()


def narrow(state: Tensor, attention: Tensor, maps: Tensor, output: Tensor, bias: Tensor | None) -> Tensor:
    """relu(u·M₀ + b + [A_1·u·V_1 | …]·W) for `maps` [M₀ | V_1 | …], the state as (replicas, features, nodes, batch)."""
    hidden, heads = output.shape[2], attention.shape[1]
    values = torch.einsum("rkjs,rkv->rvjs", state, maps[:, :, hidden:]).unflatten(1, (heads, -1))
    read = torch.einsum("rhij,rhvjs->rhvis", attention, values).flatten(1, 2)
    z = torch.einsum("rkis,rkf->rfis", state, maps[:, :, :hidden])[:, :, : attention.shape[2]]
    z = z + torch.einsum("rvis,rvf->rfis", read, output)
    return (z if bias is None else z + bias[:, :, None, None]).relu()


def attending_sum(u: Tensor, n: Tensor, c: Tensor, m: Tensor, b: Tensor | None) -> Tensor:
    """u·M₀ + b + Σ_h softmax((u·N_h + c_h)·uᵀ)·u·M_h, the state as (replicas, batch, nodes, features)."""
    query = torch.einsum("rsik,rhkl->rshil", u, n) + c[:, None, :, None, :]
    weights = torch.einsum("rshil,rsjl->rshij", query, u).softmax(-1)
    z = torch.einsum("rsik,rkf->rsif", u, m[:, 0]) + torch.einsum("rshij,rsjk,rhkf->rsif", weights, u, m[:, 1:])
    return z if b is None else z + b[:, None, None, :]


def attending(*inputs: Any) -> Tensor:
    return attending_sum(*inputs).relu()


def numbers(*shape: int, seed: int, scale: float = 1.0) -> Tensor:
    """Float64 whatever the use, so that rounding comes from what is tested alone."""
    return scale * torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def differentiable(inputs: Inputs) -> list[Any]:
    """The inputs as leaves that collect gradients; None stays None."""
    return [None if x is None else x.detach().requires_grad_() for x in inputs]


class Result(NamedTuple):
    value: Tensor
    gradients: list[Tensor | None]  # one for every input; None where none was asked for


def traced(layer: Callable[..., Tensor], inputs: Inputs, weighing: Tensor, *, constant: Sequence[int] = ()) -> Result:
    """The layer's value, and the gradients of ⟨weighing, value⟩; the inputs at the places in `constant` get none."""
    given = [x if x is None or at in constant else x.detach().requires_grad_() for at, x in enumerate(inputs)]
    value = layer(*given)
    kept = value.detach().clone()  # a backward pass may use it up
    leaves = [x for at, x in enumerate(given) if x is not None and at not in constant]
    found = iter(torch.autograd.grad(value, leaves, weighing))
    return Result(kept, [None if x is None or not x.requires_grad else next(found) for x in given])


def errors(found: Result, expected: Result) -> list[float]:
    """Of the value and of every gradient: the largest difference, as a part of the largest entry."""
    # A gradient that is 0 by algebra (of N, with one node: softmax over one number) is measured against the others.
    largest = max(float(x.abs().max()) for x in expected.gradients if x is not None)
    assert 1e-3 < float(expected.value.abs().max()) < 1e3
    assert 1e-3 < largest < 1e6  # neither so small nor so large that an error would hide
    measured = []
    for x, y in zip((found.value, *found.gradients), (expected.value, *expected.gradients), strict=True):
        assert (x is None) == (y is None)
        if x is not None and y is not None:
            assert x.shape == y.shape
            scale = float(y.abs().max())
            error = float((x.to(y.dtype) - y).abs().max())
            measured.append(error / (scale if scale > 1e-9 * largest else largest))
    return measured


def scattered(x: Any) -> Any:
    """The same numbers, lying in the reverse order of axes and two apart; None stays None."""
    if x is None:
        return None
    reverse = tuple(reversed(range(x.dim())))
    far = torch.stack([x.permute(reverse), torch.full_like(x, torch.nan).permute(reverse)], dim=-1)
    return far[..., 0].permute(reverse)
