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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from posattn import encodings
from posattn.checks import choice, finite, keep_real, keep_whole
from posattn.errors import PosattnError, require
from posattn.nn.architecture import Architecture
from posattn.nn.functional import Init, Params
from posattn.nn.module import Model
from posattn.nn.token_encodings import Codes, Fixed, OneHot, Stochastic

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
    """Sizes and choices of the one-layer selector, and its forward pass."""

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

    def check(self, *inputs: Tensor) -> None:
        x, subset, key = inputs
        check_selection(x, subset, key, dim=self.dim)
        tokens, q = x.shape[1], subset.shape[1]
        require(
            self.encoding == "stochastic" or tokens <= self.length,
            f"{tokens} tokens: {self.encoding} encodings exist for {self.length}. Build the model with "
            f"length={tokens}, or with stochastic encodings, which have no longest length.",
        )
        require(
            self.query == "sum" or q <= self.width,
            f"q={q} and encoding_dim={self.width}: E_y cannot have full rank, so there is no certificate. Use "
            f"encoding_dim={q} or more, or query='sum'.",
        )

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

    def forward(self, p: Params, *inputs: Tensor) -> Float[Tensor, "replicas batch dim"]:
        return self._answer(p, *inputs, attend=attend)

    def fused(self, p: Params, *inputs: Tensor) -> Float[Tensor, "replicas batch dim"]:
        """The same with stochastic encodings that are never written down, by Triton kernels."""
        from posattn.nn.kernels.sign_attention import attend_signs

        return self._answer(p, *inputs, attend=attend_signs)

    def form(self, *, device: torch.device, precision: str) -> Callable[..., Tensor]:
        if self.encoding == "stochastic" and device.type == "cuda" and precision in ("float32", "tf32"):
            return self.fused
        return super().form(device=device, precision=precision)

    def _answer(self, p: Params, *inputs: Tensor, attend: "Attend") -> Tensor:
        x, subset, key = inputs
        w, v = self.matrices(p)
        codes = self.codes(p, key, x.shape[2], x.dtype)
        query = self.query_scale * self._query(codes.chosen(subset))
        on_tokens, on_codes = (query @ w.mT).split([self.dim, self.width], dim=-1)  # W·z_query
        own = (query * on_codes).sum(-1, keepdim=True) if self.keys == "with-query" else None
        read = attend(codes, x, on_tokens, on_codes, own)
        seen = read.codes if read.itself is None else read.codes + read.itself * query
        return torch.cat([read.tokens, seen], dim=-1) @ v.mT

    def matrices(self, p: Params) -> tuple[Tensor, Tensor]:
        """W, its columns for e_query, and V, with zeros where `blocks` leaves some out."""
        w, v = p["key_query"], p["value"]
        if self.blocks == "all":
            return w, v
        pad = torch.nn.functional.pad
        return pad(w, (0, 0, self.dim, 0)), pad(v, (0, self.width))

    def codes(self, p: Params, key: Tensor, tokens: int, dtype: torch.dtype) -> Codes:
        """The encodings of all samples' tokens."""
        if self.encoding == "one-hot":
            return OneHot(tokens, self.width, dtype)
        if self.encoding == "near-orthogonal":
            return Fixed(p["encoding"][:, :tokens])
        return Stochastic(key, tokens, self.width, dtype)

    def _query(self, chosen: Float[Tensor, "replicas batch q width"]) -> Float[Tensor, "replicas batch width"]:
        """e_query from the encodings of the subset, E_yᵀ."""
        if self.query == "sum" or self.encoding == "one-hot":
            return chosen.sum(2)
        with torch.autocast(chosen.device.type, enabled=False):  # what autocast would round, the inverse magnifies
            coefficients = solve_ones(chosen @ chosen.mT)
            return (coefficients.unsqueeze(-2) @ chosen).squeeze(-2)

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


def check_selection(x: Tensor, subset: Tensor, key: Tensor, *, dim: int) -> None:
    """Raise where the inputs are no samples of token selection."""
    require(
        x.dim() == 3 and x.shape[2] == dim and x.is_floating_point(),
        f"x is {tuple(x.shape)}, {x.dtype}: the model takes (batch, tokens, {dim}), floating point.",
    )
    finite("x", x)
    require(
        subset.dim() == 2 and subset.shape[0] == x.shape[0] and subset.dtype == torch.int64,
        f"subset is {tuple(subset.shape)}, {subset.dtype}: the model takes (batch, q), int64, one row a sample.",
    )
    require(
        key.shape == x.shape[:1] and key.dtype == torch.int64,
        f"key is {tuple(key.shape)}, {key.dtype}: the model takes (batch,), int64, one a sample.",
    )
    tokens, q = x.shape[1], subset.shape[1]
    require(1 <= q <= tokens, f"q={q} of {tokens} tokens: a subset has at least one and at most all. Choose q so.")
    require(
        bool(((subset >= 0) & (subset < tokens)).all()),
        f"subset holds a place outside 0 … {tokens - 1}: correct it.",
    )
    twice = (subset.sort(1).values.diff(dim=1) == 0).any(1)
    if twice.any():
        sample = int(twice.nonzero()[0])
        raise PosattnError(f"subset {subset[sample].tolist()} of sample {sample} names a place twice: name each once.")


def _repeated(table: Float[Tensor, "tokens width"]) -> Bool[Tensor, " tokens"]:
    """Rows that are those of an earlier token up to the sign."""
    products = (table @ table.mT).abs().tril(-1)
    return (products > 1 - 0.5 / table.shape[1]).any(1)


def _fewest(tokens: int) -> int:
    """The fewest dimensions in which so many tokens can have other signs, up to one sign for all."""
    return (tokens - 1).bit_length() + 1


class Read(NamedTuple):
    """What attention gives: the mean token, the mean encoding, and the query's weight where it is among the keys."""

    tokens: Float[Tensor, "replicas batch dim"]
    codes: Float[Tensor, "replicas batch width"]
    itself: Float[Tensor, "replicas batch 1"] | None


Attend = Callable[[Codes, Tensor, Tensor, Tensor, Tensor | None], Read]


def attend(
    codes: Codes,
    x: Float[Tensor, "replicas batch tokens dim"],
    on_tokens: Float[Tensor, "replicas batch dim"],
    on_codes: Float[Tensor, "replicas batch width"],
    own: Float[Tensor, "replicas batch 1"] | None,
) -> Read:
    """Softmax over ⟨x_t, on_tokens⟩ + ⟨e_t, on_codes⟩, and over the query's own logit where there is one."""
    logits = (x @ on_tokens.unsqueeze(-1)).squeeze(-1) + codes.products(on_codes)
    itself = None
    if own is None:
        weights = logits.softmax(-1)
    else:
        weights, itself = torch.cat([logits, own], dim=-1).softmax(-1).split([logits.shape[-1], 1], dim=-1)
    return Read((weights.unsqueeze(-2) @ x).squeeze(-2), codes.pooled(weights), itself)


def _cosine(whole: Float[Tensor, "replicas rows columns"], block: Float[Tensor, "replicas side side"]) -> Tensor:
    """Between a matrix and the one that has the identity in this block of it, and else zeros."""
    norm = whole.flatten(1).norm(dim=1).clamp(min=torch.finfo(whole.dtype).tiny)
    return block.diagonal(dim1=1, dim2=2).sum(1) / math.sqrt(block.shape[1]) / norm


def solve_ones(gram: Float[Tensor, "*lead q q"]) -> Float[Tensor, "*lead q"]:
    """G⁻¹·1 for a symmetric positive definite G, by elimination: ordinary operations that a CUDA graph can capture."""
    q = gram.shape[-1]
    rows = torch.cat([gram, torch.ones_like(gram[..., :1])], dim=-1)
    for pivot in range(q):
        rows_pivot = rows[..., pivot : pivot + 1, :] / rows[..., pivot : pivot + 1, pivot : pivot + 1]
        rest = rows - rows[..., :, pivot : pivot + 1] * rows_pivot
        rows = torch.cat([rest[..., :pivot, :], rows_pivot, rest[..., pivot + 1 :, :]], dim=-2)
    return rows[..., -1]


class SelectorTransformer(Model[Selector]):
    """(batch, tokens, dim), (batch, q) and (batch,) → (batch, dim). Options are the fields of `Selector`, by name."""

    describes = Selector

    def check(self, *inputs: Tensor) -> None:
        """Besides shapes and places: chance may give two tokens of a subset dependent encodings, and no certificate."""
        super().check(*inputs)
        sizes = self.architecture
        if sizes.query == "sum" or sizes.encoding == "one-hot":
            return
        x, subset, key = (tensor.unsqueeze(0) for tensor in inputs)
        chosen = sizes.codes(self.replica(), key, x.shape[2], torch.float64).chosen(subset)[0].double()
        dependent = torch.linalg.eigvalsh(chosen @ chosen.mT)[:, 0] < DEPENDENT
        if dependent.any():
            sample = int(dependent.nonzero()[0])
            raise PosattnError(
                f"the encodings of subset {subset[0, sample].tolist()} of sample {sample} are linearly dependent at "
                f"encoding_dim={sizes.width}, so E_y has no full rank and the query no certificate: use a larger "
                "encoding_dim, or query='sum'."
            )

    def forward(
        self,
        x: Float[Tensor, "batch tokens dim"],
        subset: Int[Tensor, "batch q"],
        key: Int[Tensor, " batch"],
    ) -> Float[Tensor, "batch dim"]:
        return self.run(x, subset, key)
