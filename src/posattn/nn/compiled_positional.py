"""The positional Transformer of a compiled program: the same function, kept from being rounded or cut short.

Autocast would make it another function in fewer bits, and fewer nodes another program.
"""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from posattn.errors import PosattnError
from posattn.nn.module import full_precision
from posattn.nn.positional import Positional, PositionalTransformer


@dataclass(frozen=True, kw_only=True)
class ExactPositional(Positional):
    """Sizes of a compiled positional Transformer."""

    kind = "positional-exact"
    possible = ("scale",)


class ExactPositionalTransformer(PositionalTransformer):
    """(batch, length, in_dim) → (batch, length, out_dim), for the length that it was compiled for."""

    describes = ExactPositional

    def forward(
        self, x: Float[Tensor, "batch length in_dim"], *, encoding: Float[Tensor, "nodes width"] | None = None
    ) -> Float[Tensor, "batch length out_dim"]:
        with full_precision(self.get_buffer("encoding")):
            return super().forward(x, encoding=encoding)

    def check(self, *inputs: Tensor) -> None:
        super().check(*inputs)
        length, compiled = inputs[0].shape[1], self.architecture.length
        if length != compiled:
            raise PosattnError(
                f"the input has length {length} and the model was compiled for {compiled}: load it with "
                "posattn.compile.load, which fills up shorter inputs where the program allows it."
            )
