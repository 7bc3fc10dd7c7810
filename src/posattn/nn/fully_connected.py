"""A fully connected network for sparse token selection: what the selector is compared with.

ReLU layers on the flattened input [X, indicator of the subset]. Its first layer sees X through as many linear features
as it is wide, and below d·T of them no training can help (`posattn.theory.selection.fcn_floor`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from posattn.checks import keep_whole, whole
from posattn.errors import PosattnError, require
from posattn.nn.architecture import Architecture
from posattn.nn.check_selection import check_selection
from posattn.nn.initial_weights import Init, linear_init
from posattn.nn.module import Model


@dataclass(frozen=True, kw_only=True)
class FullyConnected(Architecture):
    """Sizes of a fully connected network."""

    kind = "connected"

    length: int = 20  # T
    dim: int = 5  # d
    widths: tuple[int, ...] = (100,)  # of the hidden layers, the first one first

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            isinstance(self.widths, (tuple, list)),
            f"widths={self.widths!r}: one whole number for every hidden layer, as ({self.widths!r},).",
        )
        keep_whole(self, "length", "dim", least=1)
        widths = tuple(whole(f"widths[{layer}]", width, least=1) for layer, width in enumerate(self.widths))
        object.__setattr__(self, "widths", widths)
        require(len(self.widths) >= 1, "widths=(): a network has at least one hidden layer.")

    def family(self) -> str:
        """Any widths can be computed together: units whose weights are 0 stay at 0, their gradients are 0."""
        return replace(self, widths=(1,) * len(self.widths)).to_json()

    def covering(self, family: Sequence[Architecture]) -> "FullyConnected":
        each = zip(*(member.widths for member in family if isinstance(member, FullyConnected)), strict=True)
        return replace(self, widths=tuple(map(max, each)))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Widths of the input, of every hidden layer and of the output."""
        return self.length * (self.dim + 1), *self.widths, self.dim

    def parameters(self) -> dict[str, Init]:
        found: dict[str, Init] = {}
        for index, (into, out) in enumerate(pairwise(self.sizes)):
            found |= linear_init(f"layer{index}", into, out, bias=True)
        return found


class FullyConnectedNetwork(Model[FullyConnected]):
    """(batch, tokens, dim), subset (batch, q) and key (batch,) → (batch, dim).

    >>> network = FullyConnectedNetwork(length=6, dim=2, widths=(9,), generator=torch.Generator().manual_seed(0))
    >>> network(torch.zeros(1, 6, 2), torch.tensor([[0, 3]]), torch.zeros(1, dtype=torch.int64)).shape
    torch.Size([1, 2])
    """

    describes = FullyConnected

    def __init__(
        self,
        *,
        length: int = 20,
        dim: int = 5,
        widths: tuple[int, ...] = (100,),
        generator: torch.Generator | None = None,
    ) -> None:
        """Draw the first weights.

        Args:
            length: T, the number of tokens.
            dim: d, numbers per token.
            widths: of the hidden layers, the first one first.
            generator: where first weights are drawn from; None is PyTorch's global one.
        """
        super().__init__(FullyConnected(length=length, dim=dim, widths=widths), generator)

    def build(self, architecture: FullyConnected) -> None:
        self.layers = nn.ModuleList(nn.Linear(into, out) for into, out in pairwise(architecture.sizes))
        self.activations = nn.ModuleList(nn.ReLU() for _ in architecture.widths)

    def parts(self) -> list[tuple[str, str | None]]:
        hidden = len(self.activations)
        return [*((f"activations.{index}", None) for index in range(hidden)), (f"layers.{hidden}", None)]

    def forward(
        self,
        x: Float[Tensor, "batch tokens dim"],
        subset: Int[Tensor, "batch q"],
        key: Int[Tensor, " batch"],
    ) -> Float[Tensor, "batch dim"]:
        """The key is for models with encodings; this one has none."""
        self.check(x, subset, key)
        sizes = self.architecture
        check_selection(x, subset, key, dim=sizes.dim)
        if x.shape[1] != sizes.length:
            raise PosattnError(
                f"{x.shape[1]} tokens: the network takes {sizes.length}. Build it with length={x.shape[1]}."
            )
        chosen = torch.zeros_like(x[:, :, 0]).scatter(1, subset, 1.0)
        state = torch.cat([x.flatten(1), chosen], dim=-1)
        *hidden, last = self.layers
        for layer, activation in zip(hidden, self.activations, strict=True):
            state = activation(layer(state))
        return last(state)
