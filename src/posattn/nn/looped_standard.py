"""A looped standard Transformer: one layer for all iterations, as many as the input's length asks for.

    state ← Layer(state), ⌈log₂ length⌉ + 1 times                        (`posattn.nn.numeric_model.Layer`, rotary)

What the looped positional model is, with attention that sees values in place of a schedule: queries and keys are
rotated by their node's place (`posattn.nn.rotary`), and the input is x alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from posattn import checks
from posattn.errors import require
from posattn.nn.module import Step
from posattn.nn.numeric_model import Layer, NumericModel
from posattn.nn.numeric_sizes import Numeric


@dataclass(frozen=True, kw_only=True)
class LoopedStandard(Numeric):
    """Sizes of a looped standard Transformer. `length` bounds nothing."""

    kind = "looped-standard"
    training_options: ClassVar[dict[str, Any]] = {"every": True}

    layers: int | None = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.layers == 1, f"layers={self.layers}: one layer is shared by all iterations. Leave it out.")
        require(
            self.embed_dim % 2 == 0,
            f"embed_dim={self.embed_dim}: rotary turns pairs of dimensions, so it must be even.",
        )

    @property
    def query_width(self) -> int:
        return self.embed_dim


def iterations(length: int) -> int:
    """⌈log₂ length⌉ + 1.

    >>> [iterations(length) for length in (1, 2, 3, 8, 9)]
    [1, 2, 3, 4, 5]
    """
    return (length - 1).bit_length() + 1


class LoopedStandardTransformer(NumericModel[LoopedStandard]):
    """(batch, length, in_dim) → (batch, length, out_dim), at any length.

    >>> model = LoopedStandardTransformer(generator=torch.Generator().manual_seed(0))
    >>> model(torch.zeros(3, 20, 1)).shape
    torch.Size([3, 20, 1])
    """

    describes = LoopedStandard

    def __init__(
        self,
        *,
        length: int = 8,
        scratchpad: int = 1,
        in_dim: int = 1,
        out_dim: int = 1,
        embed_dim: int = 64,
        heads: int = 2,
        hidden_dim: int = 64,
        mlp_layers: int = 2,
        bias: bool = True,
        generator: torch.Generator | None = None,
    ) -> None:
        """Draw the first weights. Arguments are those of `PositionalTransformer`, as far as there are any."""
        self._begin(
            generator, length=length, scratchpad=scratchpad, in_dim=in_dim, out_dim=out_dim, embed_dim=embed_dim,
            heads=heads, hidden_dim=hidden_dim, mlp_layers=mlp_layers, bias=bias, encoding="one-hot", constants=None,
        )  # fmt: skip

    def layer(self, sizes: LoopedStandard) -> Layer:
        return Layer(sizes, rotary=True)

    def tables(self) -> tuple[str, ...]:
        return tuple(name for name in super().tables() if name != "encoding")

    def forward(
        self, x: Float[Tensor, "batch length in_dim"], *, every: bool = False
    ) -> Float[Tensor, "batch length answers"]:
        """The answer of every node; `every`: the answers after each iteration but the first, beside each other."""
        self.checked(x, None)
        *before, last = self._states(x)
        shown = [*before[1:], last] if checks.switch("every", every) else [last]
        return torch.cat([self.decoder(state)[:, : x.shape[1]] for state in shown], dim=-1)

    def _states(self, x: Tensor) -> Iterator[Tensor]:
        """The state after every iteration."""
        (layer,) = self.layers
        state = self.encoder(self.inputs(x))
        for _ in range(iterations(x.shape[1])):
            state = layer(state, state)
            yield state

    @torch.no_grad()
    def trace(self, *inputs: Tensor, **options: Tensor) -> list[Step]:
        """The state after the encoder, every iteration and the decoder; attention is that of the last iteration."""
        start, *rest = super().trace(*inputs, **options)
        each = [Step(f"iteration {number}", state) for number, state in enumerate(self._states(*inputs), 1)]
        return [start, *each[:-1], *rest]
