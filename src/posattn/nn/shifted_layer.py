"""A positional layer that commutes with x ↦ x + t: it passes a node's number on, and its MLP sees differences alone.

A node's state is its number s, the carrier, and further channels z that a shift leaves alone, 0 at first:

    s ← s + MLP([z ‖ W_O·concat_h(A_h·z·W_V,h) ‖ A_1·s − s … A_H·s − s])₀,    z ← the MLP's other outputs

Rows of A_h sum to 1 and no node holds a constant, so t cancels in A_h·s − s.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from posattn.nn.numeric_model import Layer


class ShiftedLayer(Layer):
    """States are (batch, nodes, 1 + embed), the carrier first."""

    def forward(
        self,
        x: Float[Tensor, "batch nodes state"],
        seen: Float[Tensor, "*batch nodes width"],
        carrier: Float[Tensor, "batch nodes 1"] | None = None,
    ) -> Float[Tensor, "batch nodes state"]:
        carrier, invariant = x[..., :1], x[..., 1:]
        step = super().forward(invariant, seen, carrier)
        return torch.cat([carrier + step[..., :1], step[..., 1:]], dim=-1)


def entered(
    x: Float[Tensor, "*batch length 1"], *, scratchpad: int, channels: int
) -> Float[Tensor, "*batch nodes state"]:
    """The first states: numbers relative to the first of them, so that a large shift costs no digits.

    Nodes of the scratchpad begin with the mean of the numbers, which moves as they do.
    """
    relative = x - x[..., :1, :]
    beside = relative.mean(-2, keepdim=True).expand(*x.shape[:-2], scratchpad, 1)
    return torch.nn.functional.pad(torch.cat([relative, beside], dim=-2), (0, channels))


def left(
    state: Float[Tensor, "*batch nodes state"], x: Float[Tensor, "*batch length 1"]
) -> Float[Tensor, "*batch length 1"]:
    """The answers: the carriers of the numbers' nodes, no longer relative."""
    return state[..., : x.shape[-2], :1] + x[..., :1, :]
