"""The one-layer Transformer of sparse token selection (Wang, Wei, Hsu, Lee, ICML 2024, arXiv 2406.06893).

    f = V·Z·softmax(Zᵀ·W·z_query),   Z = [X; E],   z_query = [0; e_query]

X holds the tokens, E a positional encoding of each. With x_query = 0 only the columns of W that meet e_query are ever
used, so W is kept as (d + d_e) × d_e. The query names the subset y:

    certificate   e_query = E_y(E_yᵀE_y)⁻¹·1: its product with e_i is 1 exactly on y
    sum           e_query = Σ_{j∈y} e_j: the same for one-hot encodings, and about it for others

Encodings are one-hot (d_e = T), near-orthogonal (random signs over √d_e, drawn once), or stochastic (the same, drawn
anew for every key that comes with the input). `keys="with-query"` lets the query attend to itself too, as the paper's
full model does; it then needs a `query_scale` below about 1/q. Where the paper leaves a choice open, the default is the
one that the papers' page argues for.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from posattn import encodings
from posattn.checks import choice, keep_real, keep_whole
from posattn.errors import PosattnError, require
from posattn.nn.architecture import Architecture
from posattn.nn.check_selection import check_selection
from posattn.nn.initial_weights import Init, Params
from posattn.nn.module import Model, full_precision, values_known
from posattn.nn.token_encodings import random_signs

ENCODINGS = ("one-hot", "near-orthogonal", "stochastic")
KEYS = ("tokens", "with-query")
QUERIES = ("certificate", "sum")
BLOCKS = ("all", "surviving")

#: The chance, in a whole training run, of a sample without a certificate that is still taken.
UNLIKELY = 0.05

#: Encodings of length 1 count as dependent where their Gram matrix has an eigenvalue below this.
DEPENDENT = 1e-9


@dataclass(frozen=True, kw_only=True)
class Selector(Architecture):
    """Sizes and choices of the one-layer selector."""

    kind = "selector"

    length: int = 200  # T; one-hot and near-orthogonal encodings end there
    dim: int = 5  # d
    encoding: str = "stochastic"
    encoding_dim: int | None = None  # d_e; None: 170, the paper's, or T for one-hot
    keys: str = "tokens"
    query: str = "certificate"
    query_scale: float = 1.0
    deviation: float = 0.0  # of the first weights; 0: they start at 0
    blocks: str = "all"  # "surviving": without those that the population gradient leaves at 0

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_whole(self, "length", "dim", least=1)
        for what, value, known in (
            ("encoding", self.encoding, ENCODINGS),
            ("keys", self.keys, KEYS),
            ("query", self.query, QUERIES),
            ("blocks", self.blocks, BLOCKS),
        ):
            choice(what, value, known)
        usual = self.length if self.encoding == "one-hot" else 170
        object.__setattr__(self, "encoding_dim", usual if self.encoding_dim is None else self.encoding_dim)
        keep_whole(self, "encoding_dim", least=1)
        require(
            self.encoding != "one-hot" or self.encoding_dim == self.length,
            f"encoding_dim={self.encoding_dim}: one-hot encodings of {self.length} tokens have as many dimensions. "
            "Leave encoding_dim out.",
        )
        keep_real(self, "query_scale", "deviation")
        largest = torch.finfo(torch.float32).max
        require(
            0 < self.query_scale <= largest,
            f"query_scale={self.query_scale}: it is above 0, and at most {largest:.1e}, which float32 holds.",
        )
        require(self.deviation >= 0, f"deviation={self.deviation}: that of the first weights must be 0 or more.")
        require(
            self.encoding != "near-orthogonal" or self.query == "sum" or 2 ** (self.width - 1) >= self.length,
            f"encoding_dim={self.width}: {self.length} tokens cannot all have other signs there, two of them would be "
            "the same up to the sign, and a subset with both has no certificate. Use encoding_dim="
            f"{_fewest(self.length)} or more, or query='sum'.",
        )

    @property
    def width(self) -> int:
        """d_e."""
        assert self.encoding_dim is not None
        return self.encoding_dim

    def parameters(self) -> dict[str, Init]:
        both = self.dim + self.width
        rows, columns = (both, both) if self.blocks == "all" else (self.width, self.dim)
        return {
            "key_query": Init((rows, self.width), normal=self.deviation, decays=True),
            "value": Init((self.dim, columns), normal=self.deviation, decays=True),
        }

    def constants_of(self, generator: torch.Generator | None) -> Params:
        if self.encoding != "near-orthogonal":
            return {}
        drawing = generator or torch.default_generator
        table = encodings.make("near-orthogonal", self.length, dim=self.width, generator=drawing)
        while self.query == "certificate" and (again := _repeated(table)).any():
            fresh = encodings.make("near-orthogonal", self.length, dim=self.width, generator=drawing)
            table = torch.where(again.unsqueeze(1), fresh, table)
        return {"encoding": table}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        held = {"encoding": (self.length, self.width)} if self.encoding == "near-orthogonal" else {}
        return held | super().shapes()

    def likely_failure(self, samples: int, shapes: Sequence[tuple[int, ...]]) -> str | None:
        """Random signs of two tokens may be the same up to the sign, and a subset with both has no certificate."""
        q = shapes[1][0]
        expected = samples * q * (q - 1) / 2.0**self.width
        if self.encoding != "stochastic" or self.query == "sum" or expected <= UNLIKELY:
            return None
        enough = self.width + math.ceil(math.log2(expected / UNLIKELY))
        return (
            f"encoding_dim={self.width}: of {samples:,} samples about {expected:.2g} have two tokens in their subset "
            f"with the same signs, and no certificate. Use encoding_dim={enough} or more, or query='sum'."
        )

    def matrices(self, p: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """W, its columns for e_query, and V, with zeros where `blocks` leaves some out; for one model or a fleet."""
        w, v = p["key_query"], p["value"]
        if self.blocks == "all":
            return w, v
        pad = torch.nn.functional.pad
        return pad(w, (0, 0, self.dim, 0)), pad(v, (0, self.width))

    def measures(self, p: Params) -> dict[str, Float[Tensor, "replicas"]]:
        """How well W and V point to the ground truth, W* = [0; I] and V* = [I, 0], and how large their blocks are.

        A cosine is 0 for weights that are 0. Norms are Frobenius norms over the root of a block's entries.
        """
        w, v = self.matrices(p)
        blocks = {
            "W tokens": w[:, : self.dim],
            "W positions": w[:, self.dim :],
            "V tokens": v[:, :, : self.dim],
            "V positions": v[:, :, self.dim :],
        }
        return {
            "cosine W": _cosine(w, blocks["W positions"]),
            "cosine V": _cosine(v, blocks["V tokens"]),
            **{f"norm {name}": block.square().mean(dim=(1, 2)).sqrt() for name, block in blocks.items()},
        }


def _repeated(table: Float[Tensor, "tokens width"]) -> Bool[Tensor, " tokens"]:
    """Rows that are those of an earlier token up to the sign."""
    products = (table @ table.mT).abs().tril(-1)
    return (products > 1 - 0.5 / table.shape[1]).any(1)


def _fewest(tokens: int) -> int:
    """The fewest dimensions in which so many tokens can have other signs, up to one sign for all."""
    return (tokens - 1).bit_length() + 1


def _cosine(whole: Float[Tensor, "replicas rows columns"], block: Float[Tensor, "replicas side side"]) -> Tensor:
    """Between a matrix and the one that has the identity in this block of it, and else zeros."""
    norm = whole.flatten(1).norm(dim=1).clamp(min=torch.finfo(whole.dtype).tiny)
    return block.diagonal(dim1=1, dim2=2).sum(1) / math.sqrt(block.shape[1]) / norm


class SelectorTransformer(Model[Selector]):
    """x (batch, tokens, dim), subset (batch, q) and key (batch,) → (batch, dim).

    >>> model = SelectorTransformer(length=20, dim=3, generator=torch.Generator().manual_seed(0))
    >>> model(torch.zeros(1, 20, 3), torch.tensor([[2, 11]]), torch.tensor([7])).shape
    torch.Size([1, 3])
    """

    describes = Selector

    def __init__(
        self,
        *,
        length: int = 200,
        dim: int = 5,
        encoding: str = "stochastic",
        encoding_dim: int | None = None,
        keys: str = "tokens",
        query: str = "certificate",
        query_scale: float = 1.0,
        deviation: float = 0.0,
        blocks: str = "all",
        generator: torch.Generator | None = None,
    ) -> None:
        """Draw the first weights.

        Args:
            length: T, where one-hot and near-orthogonal encodings end.
            dim: d, numbers per token.
            encoding: "one-hot", "near-orthogonal" or "stochastic".
            encoding_dim: d_e; None is 170, the paper's, or T for one-hot encodings.
            keys: what the query attends to, "tokens" or "with-query".
            query: how the query names the subset, "certificate" or "sum".
            query_scale: what the query is multiplied by.
            deviation: of the first weights; at 0 they start at 0.
            blocks: "all" of W and V, or the "surviving" ones, which the population gradient does not leave at 0.
            generator: where first weights and fixed encodings are drawn from; None is PyTorch's global one.
        """
        sizes = Selector(
            length=length, dim=dim, encoding=encoding, encoding_dim=encoding_dim, keys=keys, query=query,
            query_scale=query_scale, deviation=deviation, blocks=blocks,
        )  # fmt: skip
        super().__init__(sizes, generator)

    def build(self, architecture: Selector) -> None:
        for name, first in architecture.parameters().items():
            self.register_parameter(name, nn.Parameter(torch.empty(first.shape)))
        if architecture.encoding == "near-orthogonal":
            self.register_buffer("encoding", torch.empty(architecture.length, architecture.width))
        self.attention = SelectorAttention()
        self.output = nn.Identity()

    def parts(self) -> list[tuple[str, str | None]]:
        return [("output", "attention")]

    def check(self, *inputs: Tensor) -> None:
        """Besides shapes and places: chance may give two tokens of a subset dependent encodings, and no certificate."""
        super().check(*inputs)
        (x, subset, key), sizes = inputs, self.architecture
        check_selection(x, subset, key, dim=sizes.dim)
        tokens, q = x.shape[1], subset.shape[1]
        require(
            sizes.encoding == "stochastic" or tokens <= sizes.length,
            f"{tokens} tokens: {sizes.encoding} encodings exist for {sizes.length}. Build the model with "
            f"length={tokens}, or with stochastic encodings, which have no longest length.",
        )
        if sizes.query == "sum" or sizes.encoding == "one-hot":
            return
        require(
            q <= sizes.width,
            f"q={q} and encoding_dim={sizes.width}: E_y cannot have full rank, so there is no certificate. Use "
            f"encoding_dim={q} or more, or query='sum'.",
        )
        chosen = self.encodings(subset, key, torch.float64)
        if values_known(subset) and values_known(chosen):
            self._check_independent(chosen, subset)

    def _check_independent(self, chosen: Float[Tensor, "batch q width"], subset: Int[Tensor, "batch q"]) -> None:
        dependent = torch.linalg.eigvalsh(chosen @ chosen.mT)[:, 0] < DEPENDENT
        if dependent.any():
            sample = int(dependent.nonzero()[0])
            raise PosattnError(
                f"the encodings of subset {subset[sample].tolist()} of sample {sample} are linearly dependent at "
                f"encoding_dim={self.architecture.width}, so E_y does not have full rank and the query has no "
                "certificate: use a larger encoding_dim, or query='sum'."
            )

    def encodings(
        self, tokens: Int[Tensor, "batch tokens"], key: Int[Tensor, " batch"], dtype: torch.dtype
    ) -> Float[Tensor, "batch tokens width"]:
        """e_t for some tokens t of every sample."""
        width = self.architecture.width
        if self.architecture.encoding == "stochastic":
            return random_signs(key.unsqueeze(-1), tokens, width, dtype) / math.sqrt(width)
        if self.architecture.encoding == "one-hot":
            return torch.eye(width, dtype=dtype, device=key.device)[tokens]
        return self.get_buffer("encoding").to(dtype)[tokens]

    def e_query(self, chosen: Float[Tensor, "batch q width"]) -> Float[Tensor, "batch width"]:
        """From the encodings of the subset, E_yᵀ: their sum, or E_y(E_yᵀE_y)⁻¹·1."""
        if self.architecture.query == "sum" or self.architecture.encoding == "one-hot":
            return chosen.sum(1)
        with full_precision(chosen):  # what autocast would round, the inverse magnifies
            ones = torch.ones_like(chosen[:, :, :1])
            return (torch.linalg.solve(chosen @ chosen.mT, ones) * chosen).sum(1)

    def forward(
        self,
        x: Float[Tensor, "batch tokens dim"],
        subset: Int[Tensor, "batch q"],
        key: Int[Tensor, " batch"],
    ) -> Float[Tensor, "batch dim"]:
        self.check(x, subset, key)
        sizes, places = self.architecture, torch.arange(x.shape[1], device=x.device)
        w, v = sizes.matrices(dict(self.named_parameters()))
        codes = self.encodings(places.expand(x.shape[0], -1), key, x.dtype)
        query = sizes.query_scale * self.e_query(self.encodings(subset, key, x.dtype))
        z = torch.cat([x, codes], dim=-1)
        if sizes.keys == "with-query":
            itself = torch.cat([torch.zeros_like(x[:, 0]), query], dim=-1)
            z = torch.cat([z, itself.unsqueeze(1)], dim=1)
        attention = self.attention(z @ (query @ w.mT).unsqueeze(-1))
        return self.output((attention @ z).squeeze(1) @ v.mT)


class SelectorAttention(nn.Module):
    """softmax(Zᵀ·W·z_query) over the tokens, as weights (batch, 1, tokens)."""

    def forward(self, logits: Float[Tensor, "batch keys 1"]) -> Float[Tensor, "batch 1 keys"]:
        return logits.squeeze(-1).softmax(-1).unsqueeze(-2)
