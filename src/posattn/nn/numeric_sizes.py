"""Sizes of the models for numbers, and their first weights.

Encoder and decoder are linear maps. Scratchpad nodes have input 0 and are dropped from the output.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch

from posattn import encodings
from posattn.checks import keep_switches, keep_whole, whole
from posattn.errors import kind_of, require, unknown
from posattn.nn.architecture import Architecture, check_heads
from posattn.nn.initial_weights import Init, Params, linear_init, xavier_init

#: The name of an encoding or of constants that were passed as a matrix.
GIVEN = "given"


@dataclass(frozen=True, kw_only=True)
class Numeric(Architecture):
    """Sizes of a model that maps (batch, length, in_dim) to (batch, length, out_dim)."""

    #: Numbers of a node that pass through the layers beside its state.
    carried: ClassVar[int] = 0

    length: int = 8  # longest input
    scratchpad: int = 1  # extra nodes with input 0, the model's own affair
    in_dim: int = 1
    out_dim: int = 1
    embed_dim: int = 64
    heads: int = 2
    layers: int | None = 4  # None: floor(log2 length) + 1, the paper's choice
    hidden_dim: int = 64  # width of the MLP
    mlp_layers: int = 2  # linear maps in the MLP, a ReLU between each two
    bias: bool = True  # False: no bias but those of Q and K
    encoding: str = "one-hot"  # P, a name of posattn.encodings
    encoding_dim: int | None = None  # width of P where the encoding leaves a choice
    constants: str | None = None  # an encoding to append to every input; None appends nothing
    constants_dim: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_whole(self, "length", "in_dim", "out_dim", "embed_dim", "heads", "hidden_dim", least=1)
        check_heads(self.embed_dim, self.heads)
        keep_whole(self, "scratchpad", least=0)
        keep_whole(self, "mlp_layers", least=2)  # there is a ReLU between each two
        keep_switches(self, "bias")
        if self.layers is None:
            object.__setattr__(self, "layers", self.length.bit_length())  # floor(log2 length) + 1
        keep_whole(self, "layers", least=1)
        object.__setattr__(self, "encoding_dim", self._width("encoding", self.encoding, self.encoding_dim))
        if self.constants is not None:
            object.__setattr__(self, "constants_dim", self._width("constants", self.constants, self.constants_dim))
        else:
            require(
                self.constants_dim is None,
                f"constants_dim={self.constants_dim}: there are no constants. Leave it out, or name an encoding.",
            )

    def _width(self, what: str, name: str, dim: int | None) -> int:
        """Width of P or of the constants; a given matrix has its own."""
        require(
            isinstance(name, str),
            f"{what} is {kind_of(name)}: it must be the name of an encoding, or a tensor where the model "
            f"takes one. Known: {', '.join(encodings.REGISTRY)}.",
        )
        if name not in (GIVEN, *encodings.REGISTRY):
            raise unknown(what, name, encodings.REGISTRY)
        if dim is not None:
            dim = whole(f"{what}_dim", dim, least=1)
        if name != GIVEN:
            return encodings.width(name, self.nodes, dim)
        require(dim is not None, f"{what}={GIVEN!r} stands for a matrix: pass the matrix itself, {what}=P.")
        assert dim is not None
        return dim

    @property
    def nodes(self) -> int:
        return self.length + self.scratchpad

    @property
    def depth(self) -> int:
        assert self.layers is not None
        return self.layers

    @property
    def encoding_width(self) -> int:
        assert self.encoding_dim is not None
        return self.encoding_dim

    @property
    def input_width(self) -> int:
        """What the encoder sees of a node."""
        return self.in_dim + (self.constants_dim or 0)

    @property
    @abstractmethod
    def query_width(self) -> int:
        """Width of what Q and K see; they map it to as many dimensions a head (d_k)."""

    def parameters(self) -> dict[str, Init]:
        return (
            linear_init("encoder", self.input_width, self.embed_dim, bias=self.bias)
            | layer_init(self, (self.depth,))
            | linear_init("decoder", self.embed_dim, self.out_dim, bias=self.bias)
        )

    def constants_of(self, generator: torch.Generator | None) -> Params:
        """P and the constants, drawn if they are random; a given matrix starts as zeros and is filled in."""
        held: Params = {}
        for key, name, width in (
            ("encoding", self.encoding, self.encoding_dim),
            ("constants", self.constants, self.constants_dim),
        ):
            if name == GIVEN:
                assert width is not None
                held[key] = torch.zeros(self.nodes, width)
            elif name is not None:
                drawing = generator or torch.default_generator
                held[key] = encodings.make(name, self.nodes, dim=width, generator=drawing)
        return held

    def shapes(self) -> dict[str, tuple[int, ...]]:
        widths = {"encoding": self.encoding_dim, "constants": self.constants_dim}
        held = {name: (self.nodes, width) for name, width in widths.items() if width is not None}
        return held | super().shapes()


def layer_init(sizes: "Numeric", layers: tuple[int]) -> dict[str, Init]:
    """Xavier on the stacked [W_Q | W_K] of all heads, on W_V and on W_O; PyTorch's default in the MLP."""
    embed, hidden, bias = sizes.embed_dim, sizes.hidden_dim, sizes.bias
    seen, keys = sizes.query_width, sizes.heads * sizes.query_width
    return (
        xavier_init("query", seen, keys, bias=True, layers=layers, stacked=2)
        | xavier_init("key", seen, keys, bias=True, layers=layers, stacked=2)
        | xavier_init("value", embed, embed, bias=bias, layers=layers)
        | xavier_init("output", embed, embed, bias=bias, layers=layers)
        | linear_init("mlp_in", 2 * embed + sizes.heads * sizes.carried, hidden, bias=bias, layers=layers)
        | (
            linear_init("mlp_middle", hidden, hidden, bias=bias, layers=(*layers, sizes.mlp_layers - 2))
            if sizes.mlp_layers > 2
            else {}
        )
        | linear_init("mlp_out", hidden, embed + sizes.carried, bias=bias, layers=layers)
    )
