"""The GPT-style pair for k-hop induction heads: causal, additive residual, GELU, learned positions.

Back de Luca et al. 2025, Figs 3 and 5: no normalisation, no dropout, MLP four times as wide, weights N(0, 0.02), and
0.02/√(2·layers) where a map writes into the residual; biases start at 0. `positional=False` adds the position
embedding to the token's and attends by value; `positional=True` keeps the two apart: the state starts as the token
alone, and Q and K of every layer see the position embedding alone. The map to the vocabulary has no bias and is not
tied to the embedding (the paper leaves both open).

`gelu="erf"` is x·Φ(x) itself; `gelu="tanh"`, the form in the authors' code, is ½x(1 + tanh(√(2/π)(x + 0.044715x³))),
which differs from it by at most 4.8e-4.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from posattn.checks import choice, keep_switches, keep_whole
from posattn.errors import PosattnError
from posattn.nn.architecture import Architecture, check_heads
from posattn.nn.initial_weights import Init, normal_init
from posattn.nn.module import Model, check_codes

DEVIATION = 0.02

#: The forms of GELU, and what PyTorch calls them.
GELUS = {"erf": "none", "tanh": "tanh"}


@dataclass(frozen=True, kw_only=True)
class GPTArchitecture(Architecture):
    """Sizes of a GPT-style model."""

    kind = "gpt"

    vocabulary: int = 16
    length: int = 99
    embed_dim: int = 60
    heads: int = 3
    layers: int = 3
    positional: bool = False
    gelu: str = "erf"

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_whole(self, "vocabulary", "length", "embed_dim", "heads", "layers", least=1)
        check_heads(self.embed_dim, self.heads)
        keep_switches(self, "positional")
        choice("gelu", self.gelu, GELUS)

    def parameters(self) -> dict[str, Init]:
        width, layers = self.embed_dim, (self.layers,)
        into_residual = DEVIATION / math.sqrt(2 * self.layers)

        return (
            {"token_embedding": Init((self.vocabulary, width), normal=DEVIATION)}
            | {"position_embedding": Init((self.length, width), normal=DEVIATION)}
            | normal_init("query", width, width, deviation=DEVIATION, layers=layers)
            | normal_init("key", width, width, deviation=DEVIATION, layers=layers)
            | normal_init("value", width, width, deviation=DEVIATION, layers=layers)
            | normal_init("output", width, width, deviation=into_residual, layers=layers)
            | normal_init("mlp_in", width, 4 * width, deviation=DEVIATION, layers=layers)
            | normal_init("mlp_out", 4 * width, width, deviation=into_residual, layers=layers)
            | {"decoder_weight": Init((width, self.vocabulary), normal=DEVIATION, decays=True)}
        )

    def label(self) -> str:
        return f"{'positional' if self.positional else 'standard'} gpt, {self.layers} layer{'s' * (self.layers > 1)},"


class CausalAttention(nn.Module):
    """A_h = softmax(S·W_Q,h·(S·W_K,h)ᵀ/√d_k), where S is what attention sees; no node reads a later one."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)

    def forward(self, seen: Float[Tensor, "*batch nodes width"]) -> Float[Tensor, "*batch heads nodes nodes"]:
        query = self.query(seen).unflatten(-1, (self.heads, -1)).transpose(-3, -2)
        key = self.key(seen).unflatten(-1, (self.heads, -1)).transpose(-3, -2)
        logits = query @ key.mT / math.sqrt(query.shape[-1])
        later = torch.ones(logits.shape[-2:], dtype=torch.bool, device=logits.device).triu(1)
        return logits.masked_fill(later, float("-inf")).softmax(-1)


class Block(nn.Module):
    """x ← x + W_O·concat_h(A_h·x·W_V,h), then x ← x + W₂·gelu(W₁·x)."""

    def __init__(self, sizes: GPTArchitecture) -> None:
        super().__init__()
        width = sizes.embed_dim
        self.attention = CausalAttention(width, sizes.heads)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)
        self.mlp_in = nn.Linear(width, 4 * width)
        self.mlp_out = nn.Linear(4 * width, width)
        self.gelu = GELUS[sizes.gelu]

    def forward(
        self, x: Float[Tensor, "batch nodes width"], seen: Float[Tensor, "*batch nodes width"]
    ) -> Float[Tensor, "batch nodes width"]:
        attention = self.attention(seen)
        values = self.value(x).unflatten(-1, (self.attention.heads, -1)).transpose(-3, -2)
        x = x + self.output((attention @ values).transpose(-3, -2).flatten(-2))
        return x + self.mlp_out(nn.functional.gelu(self.mlp_in(x), approximate=self.gelu))


class GPT(Model[GPTArchitecture]):
    """(batch, nodes) token ids → (batch, nodes, vocabulary) logits.

    >>> GPT(length=9, generator=torch.Generator().manual_seed(0))(torch.zeros(2, 7, dtype=torch.int64)).shape
    torch.Size([2, 7, 16])
    """

    describes = GPTArchitecture

    def __init__(
        self,
        *,
        vocabulary: int = 16,
        length: int = 99,
        embed_dim: int = 60,
        heads: int = 3,
        layers: int = 3,
        positional: bool = False,
        gelu: str = "erf",
        generator: torch.Generator | None = None,
    ) -> None:
        """Draw the first weights.

        Args:
            vocabulary: how many tokens there are.
            length: the longest input; positions are learned.
            embed_dim: width of a node's state; a multiple of `heads`.
            heads: attention heads per layer.
            layers: number of layers.
            positional: whether attention sees positions alone.
            gelu: "erf", x·Φ(x) itself, or "tanh", the form in the authors' code.
            generator: where first weights are drawn from; None is PyTorch's global one.
        """
        sizes = GPTArchitecture(
            vocabulary=vocabulary, length=length, embed_dim=embed_dim, heads=heads, layers=layers,
            positional=positional, gelu=gelu,
        )  # fmt: skip
        super().__init__(sizes, generator)

    def build(self, architecture: GPTArchitecture) -> None:
        sizes = architecture
        self.token_embedding = nn.Embedding(sizes.vocabulary, sizes.embed_dim)
        self.embedded = nn.Identity()  # where hooks meet the state before the first layer
        self.position_embedding = nn.Embedding(sizes.length, sizes.embed_dim)
        self.layers = nn.ModuleList(Block(sizes) for _ in range(sizes.layers))
        self.decoder = nn.Linear(sizes.embed_dim, sizes.vocabulary, bias=False)

    def check(self, *inputs: Tensor) -> None:
        super().check(*inputs)
        (tokens,), longest = inputs, self.architecture.length
        if not (tokens.dim() == 2 and 1 <= tokens.shape[1] <= longest and tokens.dtype == torch.int64):
            raise PosattnError(
                f"tokens are {tuple(tokens.shape)}, {tokens.dtype}: the model takes (batch, at most {longest}), int64."
            )
        check_codes("token", tokens, self.architecture.vocabulary)

    def parts(self) -> list[tuple[str, str | None]]:
        return [("embedded", None), *super().parts()[1:]]

    def forward(self, tokens: Int[Tensor, "batch nodes"]) -> Float[Tensor, "batch nodes vocabulary"]:
        self.check(tokens)
        position = self.position_embedding.weight[: tokens.shape[1]]
        positional = self.architecture.positional
        token = self.token_embedding(tokens)
        state = self.embedded(token if positional else token + position)
        for layer in self.layers:
            state = layer(state, position if positional else state)
        return self.decoder(state)
