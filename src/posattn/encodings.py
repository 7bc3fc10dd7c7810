"""Positional encodings P: one row a node.

Every encoding is a function `(nodes, *, dim, generator) -> P` in one registry, so that a name in a
configuration and a function in code are the same thing:

>>> make("one-hot", 3)
tensor([[1., 0., 0.],
        [0., 1., 0.],
        [0., 0., 1.]])
>>> make("binary", 4)
tensor([[-1., -1.],
        [ 1., -1.],
        [-1.,  1.],
        [ 1.,  1.]])

`dim` is the width of P. One-hot, binary and parabolic have only one possible width; the others take any.
The random ones (near-orthogonal, stochastic) draw from the generator that is passed, never from global state.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from posattn.errors import require, unknown

Encoding = Callable[..., Float[Tensor, "nodes dim"]]

REGISTRY: dict[str, Encoding] = {}

SINUSOIDAL_BASE = 10_000.0


def register(name: str) -> Callable[[Encoding], Encoding]:
    """Give an encoding its name."""

    def keep(function: Encoding) -> Encoding:
        REGISTRY[name] = function
        return function

    return keep


def make(
    name: str, nodes: int, *, dim: int | None = None, generator: torch.Generator | None = None
) -> Float[Tensor, "nodes dim"]:
    """The encoding called `name` for `nodes` nodes."""
    if name not in REGISTRY:
        raise unknown("encoding", name, REGISTRY)
    require(nodes >= 1, f"nodes={nodes}: an encoding needs at least one node.")
    require(dim is None or dim >= 1, f"encoding_dim={dim}: the width of an encoding must be at least 1.")
    return REGISTRY[name](nodes, dim=dim, generator=generator)


def _only_width(name: str, nodes: int, dim: int | None, width: int) -> None:
    require(
        dim in (None, width),
        f"encoding_dim={dim}: the {name} encoding of {nodes} nodes has {width} dimensions. Leave encoding_dim out.",
    )


@register("one-hot")
def one_hot(
    nodes: int, *, dim: int | None = None, generator: torch.Generator | None = None
) -> Float[Tensor, "nodes dim"]:
    """P = identity: node i has row e_i (the paper's choice)."""
    _only_width("one-hot", nodes, dim, nodes)
    return torch.eye(nodes)


@register("binary")
def binary(
    nodes: int, *, dim: int | None = None, generator: torch.Generator | None = None
) -> Float[Tensor, "nodes dim"]:
    """The bits of i as ±1, lowest bit first: ⌈log₂ nodes⌉ of them, and at least one."""
    width = max(1, (nodes - 1).bit_length())
    _only_width("binary", nodes, dim, width)
    bits = (torch.arange(nodes)[:, None] >> torch.arange(width)) & 1
    return (2 * bits - 1).float()


@register("parabolic")
def parabolic(
    nodes: int, *, dim: int | None = None, generator: torch.Generator | None = None
) -> Float[Tensor, "nodes dim"]:
    """(1, i, i²): the query (−t², 2t, −1) against it is −(i − t)², which peaks at node t."""
    _only_width("parabolic", nodes, dim, 3)
    i = torch.arange(nodes, dtype=torch.float32)
    return torch.stack([torch.ones(nodes), i, i * i], dim=1)


@register("sinusoidal")
def sinusoidal(
    nodes: int, *, dim: int | None = None, generator: torch.Generator | None = None
) -> Float[Tensor, "nodes dim"]:
    """sin and cos of i / 10000^(2k/dim), interleaved (Vaswani et al. 2017); `dim` is even, by default about `nodes`."""
    width = dim or nodes + nodes % 2
    require(width % 2 == 0, f"encoding_dim={width}: the sinusoidal encoding needs an even width. Use {width + 1}.")
    frequency = torch.exp(-math.log(SINUSOIDAL_BASE) * torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = torch.arange(nodes, dtype=torch.float64)[:, None] * frequency
    return torch.stack([angle.sin(), angle.cos()], dim=2).reshape(nodes, width).float()


@register("near-orthogonal")
def near_orthogonal(
    nodes: int, *, dim: int | None = None, generator: torch.Generator | None = None
) -> Float[Tensor, "nodes dim"]:
    """Random signs over √dim, drawn once and kept.

    Rows have length 1, and with probability at least 1 − δ every inner product of two rows is at most
    √(2 ln(nodes² / δ) / dim) (Hoeffding's bound for every pair): the restricted isometry that sparse token selection
    asks for at dim = Θ(q log nodes).
    """
    return _random_signs("near-orthogonal", nodes, dim, generator)


@register("stochastic")
def stochastic(
    nodes: int, *, dim: int | None = None, generator: torch.Generator | None = None
) -> Float[Tensor, "nodes dim"]:
    """Random signs over √dim, to be redrawn: call again with the same generator for the next P.

    A model keeps the first draw as its own P; whoever trains it passes fresh ones, `model(x, encoding=P)`.
    """
    return _random_signs("stochastic", nodes, dim, generator)


def _random_signs(
    name: str, nodes: int, dim: int | None, generator: torch.Generator | None
) -> Float[Tensor, "nodes dim"]:
    width = dim or nodes
    require(
        generator is not None,
        f"the {name} encoding is random: pass generator=torch.Generator().manual_seed(...) to draw it from.",
    )
    assert generator is not None
    signs = torch.randint(0, 2, (nodes, width), generator=generator, device=generator.device)
    return (2 * signs - 1).float() / math.sqrt(width)
