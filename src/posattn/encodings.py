"""Positional encodings P: one row per node.

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

from posattn import checks
from posattn.errors import require

Encoding = Callable[..., Float[Tensor, "nodes dim"]]

REGISTRY: dict[str, Encoding] = {}

#: The width of P that each encoding has unless told otherwise; those in `ONE_WIDTH` have no other.
USUAL_WIDTH: dict[str, Callable[[int], int]] = {}
ONE_WIDTH: set[str] = set()
#: Those that are a formula: at a given width they have any number of rows, and more rows do not change the first ones.
ENDLESS: set[str] = set()

SINUSOIDAL_BASE = 10_000.0


def register(
    name: str, width: Callable[[int], int], *, only: bool = False, endless: bool = False
) -> Callable[[Encoding], Encoding]:
    """Give an encoding its name and its usual width for a number of nodes (`only`: the one that it can have).

    `endless`: row i is a formula of i and the width, so that a model can take longer inputs than it was built for.
    """
    require(isinstance(name, str) and name != "", f"name={name!r}: an encoding is called by a word, as 'one-hot'.")
    require(callable(width), f"width={width!r}: it must be a function of the number of nodes, as lambda nodes: nodes.")
    checks.switch("only", only)
    checks.switch("endless", endless)

    def keep(function: Encoding) -> Encoding:
        REGISTRY[name] = function
        USUAL_WIDTH[name] = width
        for is_so, those in ((only, ONE_WIDTH), (endless, ENDLESS)):
            those.discard(name)
            if is_so:
                those.add(name)
        return function

    return keep


def width(name: str, nodes: int, dim: int | None = None) -> int:
    """The width of the encoding called `name` for `nodes` nodes, checked, without making it."""
    checks.choice("encoding", name, REGISTRY)
    nodes, dim = checks.whole("nodes", nodes), None if dim is None else checks.whole("encoding_dim", dim)
    require(nodes >= 1, f"nodes={nodes}: an encoding needs at least one node.")
    require(dim is None or dim >= 1, f"encoding_dim={dim}: the width of an encoding must be at least 1.")
    usual = USUAL_WIDTH[name](nodes)
    require(
        name not in ONE_WIDTH or dim in (None, usual),
        f"encoding_dim={dim}: the {name} encoding of {nodes} nodes has {usual} dimensions. Leave encoding_dim out.",
    )
    require(
        name != "sinusoidal" or (dim or usual) % 2 == 0,
        f"encoding_dim={dim}: the sinusoidal encoding needs an even width. Use {(dim or usual) + 1}.",
    )
    return dim or usual


def make(
    name: str, nodes: int, *, dim: int | None = None, generator: torch.Generator | None = None
) -> Float[Tensor, "nodes dim"]:
    """The encoding called `name` for `nodes` nodes."""
    width(name, nodes, dim)
    return REGISTRY[name](nodes, dim=dim, generator=generator)


def _sizes(name: str, nodes: int, dim: int | None, generator: torch.Generator | None) -> tuple[int, int]:
    """Rows and width of an encoding, all that was passed being checked."""
    if generator is not None:
        checks.generator(generator)
    dim = width(name, nodes, dim)
    return checks.whole("nodes", nodes), dim


@register("one-hot", lambda nodes: nodes, only=True)
def one_hot(
    nodes: int, *, dim: int | None = None, generator: torch.Generator | None = None
) -> Float[Tensor, "nodes dim"]:
    """P = identity: node i has row e_i (the paper's choice)."""
    return torch.eye(_sizes("one-hot", nodes, dim, generator)[0])


@register("binary", lambda nodes: max(1, (nodes - 1).bit_length()), only=True)
def binary(
    nodes: int, *, dim: int | None = None, generator: torch.Generator | None = None
) -> Float[Tensor, "nodes dim"]:
    """The bits of i as ±1, lowest bit first: ⌈log₂ nodes⌉ of them, and at least one."""
    nodes, dim = _sizes("binary", nodes, dim, generator)
    bits = (torch.arange(nodes)[:, None] >> torch.arange(dim)) & 1
    return (2 * bits - 1).float()


@register("parabolic", lambda nodes: 3, only=True, endless=True)
def parabolic(
    nodes: int, *, dim: int | None = None, generator: torch.Generator | None = None
) -> Float[Tensor, "nodes dim"]:
    """(1, i, i²): the query (−t², 2t, −1) against it is −(i − t)², which peaks at node t."""
    nodes, _ = _sizes("parabolic", nodes, dim, generator)
    i = torch.arange(nodes, dtype=torch.float32)
    return torch.stack([torch.ones(nodes), i, i * i], dim=1)


@register("sinusoidal", lambda nodes: nodes + nodes % 2, endless=True)
def sinusoidal(
    nodes: int, *, dim: int | None = None, generator: torch.Generator | None = None
) -> Float[Tensor, "nodes dim"]:
    """sin and cos of i / 10000^(2k/dim), interleaved (Vaswani et al. 2017); `dim` is even, by default about `nodes`."""
    nodes, dim = _sizes("sinusoidal", nodes, dim, generator)
    frequency = torch.exp(-math.log(SINUSOIDAL_BASE) * torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angle = torch.arange(nodes, dtype=torch.float64)[:, None] * frequency
    return torch.stack([angle.sin(), angle.cos()], dim=2).reshape(nodes, dim).float()


@register("near-orthogonal", lambda nodes: nodes)
def near_orthogonal(
    nodes: int, *, dim: int | None = None, generator: torch.Generator | None = None
) -> Float[Tensor, "nodes dim"]:
    """Random signs over √dim, drawn once and kept.

    Rows have length 1, and with probability at least 1 − δ every inner product of two rows is at most
    √(2 ln(nodes² / δ) / dim) (Hoeffding's bound for every pair): the restricted isometry that sparse token selection
    asks for at dim = Θ(q log nodes).
    """
    return _random_signs("near-orthogonal", nodes, dim, generator)


@register("stochastic", lambda nodes: nodes)
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
    nodes, dim = _sizes(name, nodes, dim, generator)
    generator = checks.generator(generator, why=f"the {name} encoding is random")
    signs = torch.randint(0, 2, (nodes, dim), generator=generator, device=generator.device)
    return (2 * signs - 1).float() / math.sqrt(dim)
