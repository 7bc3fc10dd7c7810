"""A fully connected network for sparse token selection: what the selector is compared with.

ReLU layers on the flattened input [X, indicator of the subset]. Its first layer sees X through as many linear features
as it is wide, and below d·T of them no training can help (`posattn.theory.selection.fcn_floor`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posattn.checks import keep_whole, whole
from posattn.errors import require
from posattn.nn.architecture import Architecture
from posattn.nn.functional import Init, Params, affine, linear_init
from posattn.nn.module import Model
from posattn.nn.selector import check_selection


@dataclass(frozen=True, kw_only=True)
class FullyConnected(Architecture):
    """Sizes of a fully connected network, and its forward pass."""

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

    def parameters(self) -> dict[str, Init]:
        sizes = (self.length * (self.dim + 1), *self.widths, self.dim)
        found: dict[str, Init] = {}
        for index, (into, out) in enumerate(pairwise(sizes)):
            found |= linear_init(f"layer{index}", into, out, bias=True)
        return found

    def check(self, *inputs: Tensor) -> None:
        x, subset, key = inputs
        check_selection(x, subset, key, dim=self.dim)
        require(
            x.shape[1] == self.length,
            f"{x.shape[1]} tokens: the network takes {self.length}. Build it with length={x.shape[1]}.",
        )

    def forward(self, p: Params, *inputs: Tensor) -> Float[Tensor, "replicas batch dim"]:
        x, subset, _ = inputs
        chosen = torch.zeros(*x.shape[:3], dtype=x.dtype, device=x.device).scatter(2, subset, 1.0)
        state = torch.cat([x.flatten(2), chosen], dim=-1)
        for index in range(len(self.widths)):
            state = affine(p, f"layer{index}", state).relu()
        return affine(p, f"layer{len(self.widths)}", state)


class FullyConnectedNetwork(Model[FullyConnected]):
    """(batch, tokens, dim), (batch, q) and (batch,) → (batch, dim). Options: `FullyConnected`."""

    describes = FullyConnected

    def forward(
        self,
        x: Float[Tensor, "batch tokens dim"],
        subset: Int[Tensor, "batch q"],
        key: Int[Tensor, " batch"],
    ) -> Float[Tensor, "batch dim"]:
        """The key is for models with encodings; this one has none."""
        return self.run(x, subset, key)
