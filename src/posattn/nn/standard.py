"""The standard Transformer of the same comparison: attention weights depend on the nodes' values.

    A_h = softmax(x·W_Q,h·(x·W_K,h)ᵀ/√d_k),  d_k = embed_dim

The rest is the positional Transformer's (`posattn.nn.numeric_model`). Its input is [x ‖ P], unless
`append_encoding=False`.
`rotary=True` rotates queries and keys by their node's place (`posattn.nn.rotary`).
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from posattn.checks import keep_switches
from posattn.errors import require
from posattn.nn.numeric_model import Layer, NumericModel
from posattn.nn.numeric_sizes import Numeric


@dataclass(frozen=True, kw_only=True)
class Standard(Numeric):
    """Sizes of a standard Transformer."""

    kind = "standard"

    append_encoding: bool = True
    rotary: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_switches(self, "append_encoding", "rotary")
        require(
            not self.rotary or self.embed_dim % 2 == 0,
            f"embed_dim={self.embed_dim}: rotary turns pairs of dimensions, so it must be even.",
        )

    @property
    def input_width(self) -> int:
        return super().input_width + (self.encoding_width if self.append_encoding else 0)

    @property
    def query_width(self) -> int:
        return self.embed_dim


class StandardTransformer(NumericModel[Standard]):
    """(batch, length, in_dim) → (batch, length, out_dim), with attention that sees values.

    >>> model = StandardTransformer(length=8, layers=2, generator=torch.Generator().manual_seed(0))
    >>> x = torch.zeros(3, 8, 1)
    >>> model(x).shape, model.attention(x).shape
    (torch.Size([3, 8, 1]), torch.Size([3, 2, 2, 9, 9]))
    """

    describes = Standard

    def __init__(
        self,
        *,
        length: int = 8,
        scratchpad: int = 1,
        in_dim: int = 1,
        out_dim: int = 1,
        embed_dim: int = 64,
        heads: int = 2,
        layers: int | None = 4,
        hidden_dim: int = 64,
        mlp_layers: int = 2,
        bias: bool = True,
        encoding: str | Float[Tensor, "nodes width"] = "one-hot",
        encoding_dim: int | None = None,
        constants: str | Float[Tensor, "nodes constants_width"] | None = None,
        constants_dim: int | None = None,
        append_encoding: bool = True,
        rotary: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        """Draw the first weights.

        Args:
            length: the longest input, for encodings that end somewhere (one-hot, binary, random or given ones).
            scratchpad: extra nodes with input 0, whose outputs are dropped.
            in_dim: numbers per node in the input.
            out_dim: numbers per node in the output.
            embed_dim: width of a node's state; a multiple of `heads`.
            heads: attention heads per layer.
            layers: number of layers; None is floor(log2 length) + 1, the paper's choice.
            hidden_dim: width of the MLPs.
            mlp_layers: linear maps in each MLP, with a ReLU between each two.
            bias: False leaves out every bias except those of queries and keys.
            encoding: P, the name of an encoding (`posattn.encodings`) or a matrix with one row per node, the
                scratchpad's last.
            encoding_dim: width of P, where the encoding leaves a choice.
            constants: an encoding or a matrix whose rows are appended to every node's input; None appends nothing.
            constants_dim: width of the constants, where their encoding leaves a choice.
            append_encoding: whether P is appended to the input; without it only `rotary` tells nodes apart.
            rotary: whether queries and keys are rotated by their node's place.
            generator: where first weights and random encodings are drawn from; None is PyTorch's global one.
        """
        self._begin(
            generator, length=length, scratchpad=scratchpad, in_dim=in_dim, out_dim=out_dim, embed_dim=embed_dim,
            heads=heads, layers=layers, hidden_dim=hidden_dim, mlp_layers=mlp_layers, bias=bias, encoding=encoding,
            encoding_dim=encoding_dim, constants=constants, constants_dim=constants_dim,
            append_encoding=append_encoding, rotary=rotary,
        )  # fmt: skip

    def tables(self) -> tuple[str, ...]:
        return tuple(name for name in super().tables() if name != "encoding" or self.architecture.append_encoding)

    def layer(self, sizes: Standard) -> Layer:
        return Layer(sizes, rotary=sizes.rotary)

    def forward(
        self, x: Float[Tensor, "batch length in_dim"], *, encoding: Float[Tensor, "nodes width"] | None = None
    ) -> Float[Tensor, "batch length out_dim"]:
        """`encoding` replaces P for this call: one row for every number of x, then the scratchpad's."""
        position = self.checked(x, encoding)
        state = self.encoder(self.inputs(x, position) if self.architecture.append_encoding else self.inputs(x))
        for layer in self.layers:
            state = layer(state, state)
        return self.decoder(state)[:, : x.shape[1]]

    def attention(self, x: Float[Tensor, "batch length in_dim"]) -> Float[Tensor, "batch layers heads nodes nodes"]:
        """The attention weights on this input; each row sums to 1."""
        return torch.stack([step.attention for step in self.trace(x) if step.attention is not None], dim=1)
