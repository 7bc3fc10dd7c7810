"""The positional Transformer: attention weights depend on positions alone.

    A_h = softmax(P·W_Q,h·(P·W_K,h)ᵀ/√d_k)                 (`posattn.nn.numeric_model.Attention`)
    x  ← MLP([x ‖ W_O·concat_h(A_h·x·W_V,h)])              (`posattn.nn.numeric_model.Layer`)

P (nodes × d_P) is fixed and the same in every layer, d_k = d_P.

Back de Luca, Giapitzakis, Yang, Veličković, Fountoulakis, "Positional Attention: Expressivity and Learnability of
Algorithmic Computation", ICML 2025 (arXiv 2410.01686), section 4. Differs from the paper's formula, as the paper's
experiments do, in the scaling by 1/√d_k and in the biases.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posattn.checks import whole
from posattn.errors import require
from posattn.nn.architecture import LATER
from posattn.nn.hardened import HardenedTransformer
from posattn.nn.initial_weights import Init
from posattn.nn.numeric_model import Layer, NumericModel
from posattn.nn.numeric_sizes import Numeric, layer_init
from posattn.nn.shifted_layer import ShiftedLayer, entered, left
from posattn.nn.symmetry import checked_symmetry


@dataclass(frozen=True, kw_only=True)
class Positional(Numeric):
    """Sizes of a positional Transformer.

    symmetry=("scale",): no biases, so that f(cx) = c·f(x) for c > 0. `bias=False` says the same, and older files do.
    With "shift", f(x + t) = f(x) + t, by layers of another kind (`posattn.nn.shifted_layer`).
    """

    kind = "positional"
    #: The symmetries that a model of this kind can have.
    possible: ClassVar[tuple[str, ...]] = ("scale", "shift")

    symmetry: tuple[Any, ...] | str | None = field(default=None, metadata=LATER)  # None: what `bias` says

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.symmetry is None:
            return
        named = checked_symmetry(self.symmetry)
        for one in named:
            require(
                one in self.possible,
                f"symmetry='{one}': the {self.kind} model can have {' and '.join(self.possible) or 'none'}. "
                "LoopedPositionalTransformer knows more of them.",
            )
        require(
            not named or self.constants is None,
            f"symmetry={named} with constants='{self.constants}': constants stay where they are when the numbers move. "
            "Leave one of them out.",
        )
        require(
            self.bias or "scale" in named,
            f"bias=False with symmetry={named}: a model without biases has the symmetry 'scale'. Name it, or leave "
            "bias out.",
        )
        require(
            "shift" not in named or self.in_dim == self.out_dim == 1,
            f"symmetry={named} with in_dim={self.in_dim} and out_dim={self.out_dim}: under a shift a node holds one "
            "number, which moves. Use 1 and 1.",
        )
        object.__setattr__(self, "bias", "scale" not in named)
        object.__setattr__(self, "symmetry", named if "shift" in named else None)
        object.__setattr__(self, "carried", int("shift" in named))

    @property
    def symmetries(self) -> tuple[Any, ...]:
        """The symmetries that it has, by either spelling."""
        scales = not self.bias and self.constants is None
        return (("scale",) if scales else ()) + (("shift",) if self.carried else ())

    @property
    def query_width(self) -> int:
        return self.encoding_width

    def parameters(self) -> dict[str, Init]:
        return layer_init(self, (self.depth,)) if self.carried else super().parameters()


DescribedPositional = TypeVar("DescribedPositional", bound=Positional)


class PositionalModel(NumericModel[DescribedPositional]):
    """What models whose attention sees positions alone are built from."""

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
        symmetry: tuple[str, ...] | str | None = None,
        encoding: str | Float[Tensor, "nodes width"] = "one-hot",
        encoding_dim: int | None = None,
        constants: str | Float[Tensor, "nodes constants_width"] | None = None,
        constants_dim: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        """Draw the first weights.

        Args:
            length: the longest input, for encodings that end somewhere (one-hot, binary, random or given ones).
            scratchpad: extra nodes with input 0 (under a shift: the mean of the input), whose outputs are dropped.
            in_dim: numbers per node in the input.
            out_dim: numbers per node in the output.
            embed_dim: width of a node's state; a multiple of `heads`.
            heads: attention heads per layer.
            layers: number of layers; None is floor(log2 length) + 1, the paper's choice.
            hidden_dim: width of the MLPs.
            mlp_layers: linear maps in each MLP, with a ReLU between each two.
            bias: False is an older way to write symmetry=("scale",).
            symmetry: "scale" (f(cx) = c·f(x) for c > 0), "shift" (f(x + t) = f(x) + t), or both in a tuple.
            encoding: P, the name of an encoding (`posattn.encodings`) or a matrix with one row per node, the
                scratchpad's last.
            encoding_dim: width of P, where the encoding leaves a choice.
            constants: an encoding or a matrix whose rows are appended to every node's input; None appends nothing.
            constants_dim: width of the constants, where their encoding leaves a choice.
            generator: where first weights and random encodings are drawn from; None is PyTorch's global one.
        """
        self._begin(
            generator, length=length, scratchpad=scratchpad, in_dim=in_dim, out_dim=out_dim, embed_dim=embed_dim,
            heads=heads, layers=layers, hidden_dim=hidden_dim, mlp_layers=mlp_layers, bias=bias, symmetry=symmetry,
            encoding=encoding, encoding_dim=encoding_dim, constants=constants, constants_dim=constants_dim,
        )  # fmt: skip


class PositionalTransformer(PositionalModel[Positional]):
    """(batch, length, in_dim) → (batch, length, out_dim), with attention that sees positions alone.

    >>> model = PositionalTransformer(length=8, layers=2, generator=torch.Generator().manual_seed(0))
    >>> model(torch.zeros(3, 8, 1)).shape, model.attention().shape
    (torch.Size([3, 8, 1]), torch.Size([2, 2, 9, 9]))
    """

    describes = Positional

    def build(self, architecture: Positional) -> None:
        super().build(architecture)
        self.carries = architecture.carried > 0
        if self.carries:  # the number itself enters and leaves
            self.add_module("encoder", nn.Identity())
            self.add_module("decoder", nn.Identity())

    def layer(self, sizes: Positional) -> Layer:
        return ShiftedLayer(sizes) if sizes.carried else Layer(sizes)

    def forward(
        self, x: Float[Tensor, "batch length in_dim"], *, encoding: Float[Tensor, "nodes width"] | None = None
    ) -> Float[Tensor, "batch length out_dim"]:
        """`encoding` replaces P for this call: one row for every number of x, then the scratchpad's."""
        position, sizes = self.checked(x, encoding), self.architecture
        first = entered(x, scratchpad=sizes.scratchpad, channels=sizes.embed_dim) if self.carries else self.inputs(x)
        state = self.encoder(first)
        for layer in self.layers:
            state = layer(state, position)
        return self.decoder(left(state, x) if self.carries else state)[:, : x.shape[1]]

    def attention(self, length: int | None = None) -> Float[Tensor, "layers heads nodes nodes"]:
        """The attention weights of every layer and head for a length (the model's own); each row sums to 1."""
        asked = self.architecture.length if length is None else whole("length", length, least=1)
        self.check_length(asked, "encoding")
        position = self.rows("encoding", asked)
        return torch.stack([layer.get_submodule("attention")(position) for layer in self.layers])

    def harden(self) -> HardenedTransformer:
        """The same model with attention as a table of reads, where every node's attention selects one node."""
        require(
            not self.architecture.carried,
            "a model with the symmetry 'shift' is not hardened: that is for compiled programs, which have none.",
        )
        return HardenedTransformer(self, self.attention())
