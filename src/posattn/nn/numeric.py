"""What the models for numeric tasks share: sizes, inputs, the layer and its folded form.

Layer (Back de Luca et al. 2025, section 4): x ← MLP([x ‖ W_O·attention(x)]), no normalisation, no added residual.
Encoder and decoder are linear maps. Scratchpad nodes have input 0 and are dropped from the output.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from posattn import encodings
from posattn.checks import finite, keep_switches, keep_whole, whole
from posattn.errors import kind_of, require, unknown
from posattn.nn.architecture import Architecture, check_heads
from posattn.nn.functional import Init, Params, affine, linear, linear_init, merge_heads, split_heads, xavier_init

#: The name of an encoding or of constants that were passed as a matrix.
GIVEN = "given"


@dataclass(frozen=True, kw_only=True)
class Numeric(Architecture):
    """Sizes of a model that maps (batch, length, in_dim) to (batch, length, out_dim)."""

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

    def check(self, *inputs: Tensor) -> None:
        (x,) = inputs
        require(
            x.dim() == 3 and x.shape[2] == self.in_dim and x.shape[1] >= 1,
            f"the input has shape {tuple(x.shape)}: the model takes (batch, length, {self.in_dim}).",
        )
        require(x.is_floating_point(), f"the input has dtype {x.dtype}, not floating point: use x.float().")
        finite("the input", x)

    def inputs(
        self, p: Params, x: Float[Tensor, "replicas batch length in_dim"]
    ) -> Float[Tensor, "replicas batch nodes input_width"]:
        """x with the scratchpad's zeros below it and the constants beside it."""
        if self.scratchpad:
            x = torch.nn.functional.pad(x, (0, 0, 0, self.scratchpad))
        return self.beside(x, p["constants"]) if "constants" in p else x

    def rows(
        self, table: Float[Tensor, "replicas table_nodes width"], nodes: int
    ) -> Float[Tensor, "replicas nodes width"]:
        """The rows of P for a possibly shorter input: the first ones, and the scratchpad's, which are last."""
        if table.shape[1] == nodes:
            return table
        length = nodes - self.scratchpad
        return torch.cat([table[:, :length], table[:, table.shape[1] - self.scratchpad :]], dim=1)

    def beside(
        self, x: Float[Tensor, "replicas batch nodes features"], table: Float[Tensor, "replicas table_nodes width"]
    ) -> Float[Tensor, "replicas batch nodes wider"]:
        """[x ‖ P]: every node's row of `table` appended to it."""
        rows = self.rows(table, x.shape[2])
        return torch.cat([x, rows.unsqueeze(1).expand(-1, x.shape[1], -1, -1)], dim=-1)


def layer_init(sizes: "Numeric", layers: tuple[int]) -> dict[str, Init]:
    """Xavier on the stacked [W_Q | W_K] of all heads, on W_V and on W_O; PyTorch's default in the MLP."""
    embed, hidden, bias = sizes.embed_dim, sizes.hidden_dim, sizes.bias
    seen, keys = sizes.query_width, sizes.heads * sizes.query_width
    return (
        xavier_init("query", seen, keys, bias=True, layers=layers, stacked=2)
        | xavier_init("key", seen, keys, bias=True, layers=layers, stacked=2)
        | xavier_init("value", embed, embed, bias=bias, layers=layers)
        | xavier_init("output", embed, embed, bias=bias, layers=layers)
        | linear_init("mlp_in", 2 * embed, hidden, bias=bias, layers=layers)
        | (
            linear_init("mlp_middle", hidden, hidden, bias=bias, layers=(*layers, sizes.mlp_layers - 2))
            if sizes.mlp_layers > 2
            else {}
        )
        | linear_init("mlp_out", hidden, embed, bias=bias, layers=layers)
    )


def layer(
    p: Params,
    index: int,
    x: Float[Tensor, "replicas batch nodes embed"],
    attention: Float[Tensor, "replicas batch_or_1 heads nodes nodes"],
) -> Float[Tensor, "replicas batch nodes embed"]:
    """One layer in its plain form: MLP([x ‖ W_O·concat_h(A_h·x·W_V,h)])."""
    values = split_heads(affine(p, "value", x, index), heads=attention.shape[2])
    attended = affine(p, "output", merge_heads(attention @ values), index)
    hidden = affine(p, "mlp_in", torch.cat([x, attended], dim=-1), index).relu()
    for weight, bias in middle_maps(p, index):
        hidden = linear(hidden, weight, bias).relu()
    return affine(p, "mlp_out", hidden, index)


def middle_maps(p: Params, index: int) -> list[tuple[Tensor, Tensor | None]]:
    """The MLP's inner linear maps, each followed by a ReLU; none when the MLP has two layers."""
    if "mlp_middle_weight" not in p:
        return []
    weights = p["mlp_middle_weight"][:, index].unbind(1)
    biases = p["mlp_middle_bias"][:, index].unbind(1) if "mlp_middle_bias" in p else [None] * len(weights)
    return list(zip(weights, biases, strict=True))


class FoldedLayer(NamedTuple):
    """Between two ReLUs a layer is linear in what the ReLU before it gave: u ↦ u·M₀ + Σ_h A_h·u·M_h + b."""

    entry: Float[Tensor, "replicas into embed"]  # x = u·entry + entry_bias is the layer's own input
    entry_bias: Float[Tensor, "replicas 1 embed"] | None
    matrices: Float[Tensor, "replicas mixed into hidden"]  # M₀, then M_h for every head
    bias: Float[Tensor, "replicas hidden"] | None


def fold(p: Params, heads: int) -> list[FoldedLayer]:
    """Multiply the matrices between two ReLUs together.

    With x = u·E + e (E, e: the last map of the MLP before, or the encoder), T₀ = W₁'s upper half and
    T_h = W_V,h·W_O,h·W₁'s lower half, the layer's first pre-activation is
        x·T₀ + Σ_h A_h·x·T_h + (b_V·W_O + b_O)·W₁'s lower half + b₁,
    and rows of A_h sum to 1, so M = E·T and b gains e·(T₀ + Σ_h T_h).
    """
    embed = p["value_weight"].shape[2]
    upper, lower = p["mlp_in_weight"].split(embed, dim=2)
    out = p["output_weight"] @ lower
    per_head = p["value_weight"].unflatten(3, (heads, -1)).transpose(2, 3) @ out.unflatten(2, (heads, -1))
    own = torch.cat([upper.unsqueeze(2), per_head], dim=2)  # T: (replicas, layers, 1 + heads, embed, hidden)
    folded = []
    for index in range(own.shape[1]):
        name, at = ("mlp_out", (slice(None), index - 1)) if index else ("encoder", (slice(None),))
        entry = p[f"{name}_weight"][at]
        matrices = entry.unsqueeze(1) @ own[:, index]
        entry_bias = bias = None
        if "mlp_in_bias" in p:
            entry_bias = p[f"{name}_bias"][at].unsqueeze(1)
            bias = (
                p["mlp_in_bias"][:, index]
                + (p["value_bias"][:, index].unsqueeze(1) @ out[:, index]).squeeze(1)
                + (p["output_bias"][:, index].unsqueeze(1) @ lower[:, index]).squeeze(1)
                + (entry_bias @ own[:, index].sum(1)).squeeze(1)
            )
        folded.append(FoldedLayer(entry, entry_bias, matrices, bias))
    return folded


def folded_decoder(p: Params) -> tuple[Tensor, Tensor | None]:
    """The last MLP's last map and the decoder as one linear map."""
    weight = p["mlp_out_weight"][:, -1] @ p["decoder_weight"]
    if "decoder_bias" not in p:
        return weight, None
    bias = p["mlp_out_bias"][:, -1].unsqueeze(1) @ p["decoder_weight"]
    return weight, bias.squeeze(1) + p["decoder_bias"]
