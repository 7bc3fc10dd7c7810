"""What the models for numbers share: attention, the layer around it, and how numbers become nodes.

Layer (Back de Luca et al. 2025, section 4): x ← MLP([x ‖ W_O·concat_h(A_h·x·W_V,h)]), no normalisation, no residual.
The models differ in what attention sees: positions, values or both.
"""

import math
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posattn import checks, encodings
from posattn.errors import PosattnError, require
from posattn.nn.module import Model, values_known
from posattn.nn.numeric_sizes import GIVEN, Numeric
from posattn.nn.rotary import rotate

DescribedNumeric = TypeVar("DescribedNumeric", bound=Numeric)


class Attention(nn.Module):
    """A_h = softmax(S·W_Q,h·(S·W_K,h)ᵀ/√d_k), where S is what attention sees and d_k is its width."""

    def __init__(self, width: int, heads: int, *, rotary: bool = False) -> None:
        super().__init__()
        self.heads, self.rotary = heads, rotary
        self.query = nn.Linear(width, heads * width)
        self.key = nn.Linear(width, heads * width)

    def forward(
        self, seen: Float[Tensor, "*batch nodes width"], less: Float[Tensor, "heads nodes nodes"] | None = None
    ) -> Float[Tensor, "*batch heads nodes nodes"]:
        """`less` is taken off the logits."""
        query = self.query(seen).unflatten(-1, (self.heads, -1)).transpose(-3, -2)
        key = self.key(seen).unflatten(-1, (self.heads, -1)).transpose(-3, -2)
        if self.rotary:
            query, key = rotate(query), rotate(key)
        logits = query @ key.mT / math.sqrt(query.shape[-1])
        return (logits if less is None else logits - less).softmax(-1)


class Layer(nn.Module):
    """x ← MLP([x ‖ W_O·concat_h(A_h·x·W_V,h)]), the A_h from what attention sees."""

    def __init__(self, sizes: Numeric, *, rotary: bool = False) -> None:
        super().__init__()
        embed, hidden, bias = sizes.embed_dim, sizes.hidden_dim, sizes.bias
        self.attention = Attention(sizes.query_width, sizes.heads, rotary=rotary)
        self.value = nn.Linear(embed, embed, bias=bias)
        self.output = nn.Linear(embed, embed, bias=bias)
        self.mlp_in = nn.Linear(2 * embed + sizes.heads * sizes.carried, hidden, bias=bias)
        self.mlp_middle = nn.ModuleList(nn.Linear(hidden, hidden, bias=bias) for _ in range(sizes.mlp_layers - 2))
        self.mlp_out = nn.Linear(hidden, embed + sizes.carried, bias=bias)

    def forward(
        self,
        x: Float[Tensor, "batch nodes embed"],
        seen: Float[Tensor, "*batch nodes width"],
        carrier: Float[Tensor, "batch nodes 1"] | None = None,
    ) -> Float[Tensor, "batch nodes state"]:
        """With a `carrier`, the MLP also sees what each head reads of it, minus the node's own."""
        attention = self.attention(seen)
        values = self.value(x).unflatten(-1, (self.attention.heads, -1)).transpose(-3, -2)
        beside = [self.output((attention @ values).transpose(-3, -2).flatten(-2))]
        if carrier is not None:
            beside.append((attention @ carrier.unsqueeze(-3)).squeeze(-1).mT - carrier)
        hidden = self.mlp_in(torch.cat([x, *beside], dim=-1)).relu()
        for linear in self.mlp_middle:
            hidden = linear(hidden).relu()
        return self.mlp_out(hidden)


class NumericModel(Model[DescribedNumeric]):
    """(batch, length, in_dim) → (batch, length, out_dim)."""

    #: Whether a list of numbers is all that the model takes.
    takes_numbers_alone: ClassVar[bool] = True

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
            generator: where first weights and random encodings are drawn from; None is PyTorch's global one.
        """
        self._begin(
            generator, length=length, scratchpad=scratchpad, in_dim=in_dim, out_dim=out_dim, embed_dim=embed_dim,
            heads=heads, layers=layers, hidden_dim=hidden_dim, mlp_layers=mlp_layers, bias=bias, encoding=encoding,
            encoding_dim=encoding_dim, constants=constants, constants_dim=constants_dim,
        )  # fmt: skip

    def _begin(self, generator: torch.Generator | None, **options: Any) -> None:
        """Describe the model by its options, of which P and the constants may be matrices, and draw its weights."""
        require(
            hasattr(self, "describes"),
            f"{type(self).__name__} is what all models for numbers share: build one of its kinds, as "
            "PositionalTransformer().",
        )
        given = {name: value for name, value in options.items() if isinstance(value, Tensor)}
        for name, value in given.items():
            require(value.dim() == 2, f"{name} of shape {tuple(value.shape)}: it must be (nodes, width).")
            options |= {name: GIVEN, f"{name}_dim": value.shape[1]}
        for name in ("encoding", "constants"):
            named = name in given or not (isinstance(options[name], str) and options[name] == GIVEN)
            require(named, f"{name}={GIVEN!r} stands for a matrix: pass the matrix itself, {name}=P.")
        described: Any = self.describes(**options)
        super().__init__(described, generator)
        for name, value in given.items():
            nodes = self.architecture.nodes
            require(
                value.shape[0] == nodes,
                f"{name} has {value.shape[0]} rows: it needs one for each of the model's length + scratchpad = {nodes} "
                "nodes.",
            )
            checks.finite(name, value)
            self.get_buffer(name).copy_(value)

    def build(self, architecture: DescribedNumeric) -> None:
        sizes = architecture
        self.register_buffer("encoding", torch.empty(sizes.nodes, sizes.encoding_width))
        if sizes.constants_dim is not None:
            self.register_buffer("constants", torch.empty(sizes.nodes, sizes.constants_dim))
        self.encoder = nn.Linear(sizes.input_width, sizes.embed_dim, bias=sizes.bias)
        self.layers = nn.ModuleList(self.layer(sizes) for _ in range(sizes.depth))
        self.decoder = nn.Linear(sizes.embed_dim, sizes.out_dim, bias=sizes.bias)

    def layer(self, sizes: DescribedNumeric) -> Layer:
        """One layer of the model."""
        return Layer(sizes)

    def check(self, *inputs: Tensor) -> None:
        """Besides kind, device and dtype: shape and length always, and values where they are known."""
        super().check(*inputs)
        (x,), sizes = inputs, self.architecture
        if x.dim() != 3 or x.shape[2] != sizes.in_dim or x.shape[1] < 1:
            raise PosattnError(
                f"the input has shape {tuple(x.shape)}: the model takes (batch, length, {sizes.in_dim})."
            )
        if not x.is_floating_point():
            raise PosattnError(f"the input has dtype {x.dtype}, not floating point: use x.float().")
        if values_known(x) and not x.isfinite().all():
            checks.finite("the input", x)

    def checked(self, x: Tensor, encoding: Tensor | None) -> Float[Tensor, "nodes width"]:
        """P for this input, the model's own or the one passed, after checking that everything fits."""
        self.check(x)
        length = x.shape[1]
        if isinstance(length, torch.SymInt) or length > self.architecture.length:  # a length may be traced
            self.check_length(length, *(name for name in self.tables() if encoding is None or name != "encoding"))
        if encoding is None:
            return self.rows("encoding", length) if "encoding" in self.tables() else self.get_buffer("encoding")
        self.check_encoding(encoding, length)
        return encoding

    def tables(self) -> tuple[str, ...]:
        """The tables with a row per node that the model reads."""
        return ("encoding", "constants") if self.architecture.constants is not None else ("encoding",)

    @property
    def takes_any_length(self) -> bool:
        """Whether every table that the model reads is a formula, with any number of rows."""
        return all(getattr(self.architecture, name) in encodings.ENDLESS for name in self.tables())

    def check_length(self, length: int, *names: str) -> None:
        """Raise where there are more numbers than P, or the constants, have rows for."""
        sizes = self.architecture
        for name in names:
            used = getattr(sizes, name)
            if used not in encodings.ENDLESS and length > sizes.length:  # an endless one must not bound what is traced
                other = ", or pass a longer P: model(x, encoding=P)." if sizes.constants is None else "."
                raise PosattnError(
                    f"the input has length {length} and the {used} {name} of the model {sizes.length}: shorten it, or "
                    f"build the model with length={length}{other}"
                )

    def check_encoding(self, encoding: Tensor, length: int) -> None:
        """Raise where a P that was passed for one call does not fit the model and the input."""
        checks.tensor("encoding", encoding)
        wanted = (length + self.architecture.scratchpad, self.architecture.encoding_width)
        held = self.get_buffer("encoding")
        require(
            tuple(encoding.shape) == wanted and encoding.dtype == held.dtype and encoding.device == held.device,
            f"encoding is {tuple(encoding.shape)}, {encoding.dtype}, on '{encoding.device}': this input needs {wanted} "
            f"(length + scratchpad rows), {held.dtype}, on '{held.device}'.",
        )
        if values_known(encoding):
            checks.finite("encoding", encoding)

    def rows(self, name: str, length: int) -> Float[Tensor, "nodes width"]:
        """The rows of P, or of the constants, for `length` numbers and then for the scratchpad.

        The scratchpad keeps its rows, right after those of the longest input, whatever the length. Further numbers take
        the rows behind them, where an encoding is a formula that has any number of rows.
        """
        table, longest, encoding = self.get_buffer(name), self.architecture.length, getattr(self.architecture, name)
        if isinstance(length, torch.SymInt) and encoding in encodings.ENDLESS:
            every = encodings.make(encoding, length + len(table), dim=table.shape[1])
            return self._rows_of_any(length, every.to(table))
        if length > longest:
            more = encodings.make(encoding, length + len(table) - longest, dim=table.shape[1])
            return torch.cat([table[:longest], more[len(table) :].to(table), table[longest:]])
        return torch.cat([table[:length], table[longest:]])

    def _rows_of_any(self, length: int, table: Float[Tensor, "rows width"]) -> Float[Tensor, "nodes width"]:
        """The same for a length that is not known yet, while the model is exported: by places, without a branch."""
        longest, scratchpad = self.architecture.length, self.architecture.scratchpad
        place = torch.arange(length, device=table.device)
        number = place + scratchpad * (place >= longest)
        return table[torch.cat([number, torch.arange(longest, longest + scratchpad, device=table.device)])]

    def inputs(
        self, x: Float[Tensor, "batch length in_dim"], *beside: Float[Tensor, "nodes width"]
    ) -> Float[Tensor, "batch nodes input_width"]:
        """x with the scratchpad's zeros below it, and the constants and other rows beside it."""
        if self.architecture.constants is not None:
            beside = (self.rows("constants", x.shape[1]), *beside)
        nodes = nn.functional.pad(x, (0, 0, 0, self.architecture.scratchpad))
        return torch.cat([nodes, *(rows.expand(x.shape[0], -1, -1) for rows in beside)], dim=-1)
