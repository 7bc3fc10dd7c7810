"""The positional Transformer that computes exactly what its formula says, for weights that were compiled.

Same sizes, weights and function as `posattn.nn.positional`; only the forward pass is the plain one. The folded form
multiplies matrices together first, and a compiled gate's large constant would then round away what stands beside it.
A compiled program has one length, so shorter inputs are refused instead of being run on fewer nodes.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from posattn.errors import require
from posattn.nn.functional import Params
from posattn.nn.positional import Positional, PositionalTransformer


@dataclass(frozen=True, kw_only=True)
class ExactPositional(Positional):
    """Sizes of a compiled positional Transformer, and its forward pass."""

    kind = "positional-exact"

    def check(self, *inputs: Tensor) -> None:
        super().check(*inputs)
        require(
            inputs[0].shape[1] == self.length,
            f"the input has length {inputs[0].shape[1]} and the model was compiled for {self.length}: load it with "
            "posattn.compile.load, which fills up shorter inputs where the program allows it.",
        )

    def forward(self, p: Params, *inputs: Tensor) -> Float[Tensor, "replicas batch length out_dim"]:
        """The plain form, whatever autocast says: in fewer bits it would be another function."""
        with torch.autocast(inputs[0].device.type, enabled=False):
            return self.plain(p, *inputs)

    def form(self, *, device: torch.device, precision: str) -> Callable[..., Tensor]:
        """The plain form at any precision: a faster one would not be exact."""
        return self.forward


class ExactPositionalTransformer(PositionalTransformer):
    """(batch, length, in_dim) → (batch, length, out_dim), in the plain form."""

    describes = ExactPositional
