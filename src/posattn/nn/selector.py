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
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posattn import encodings
from posattn.errors import PosattnError, require, unknown
from posattn.nn.architecture import Architecture, check_finite, check_sizes
from posattn.nn.model import Model
from posattn.nn.parts import Init, Params

ENCODINGS = ("one-hot", "near-orthogonal", "stochastic")
KEYS = ("tokens", "with-query")
QUERIES = ("certificate", "sum")

#: Encodings of length 1 count as dependent where their Gram matrix has an eigenvalue below this.
DEPENDENT = 1e-9

#: Multipliers and shifts of splitmix64 (Steele, Lea, Flood 2014), as the signed numbers that tensors hold.
STEP, FIRST, SECOND = (number - 2**64 for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


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

    def __post_init__(self) -> None:
        check_sizes(length=self.length, dim=self.dim)
        for what, value, known in (
            ("encoding", self.encoding, ENCODINGS),
            ("keys", self.keys, KEYS),
            ("query", self.query, QUERIES),
        ):
            if value not in known:
                raise unknown(what, value, known)
        usual = self.length if self.encoding == "one-hot" else 170
        object.__setattr__(self, "encoding_dim", usual if self.encoding_dim is None else self.encoding_dim)
        check_sizes(encoding_dim=self.encoding_dim)
        require(
            self.encoding != "one-hot" or self.encoding_dim == self.length,
            f"encoding_dim={self.encoding_dim}: one-hot encodings of {self.length} tokens have as many dimensions. "
            "Leave encoding_dim out.",
        )
        require(self.query_scale > 0, f"query_scale={self.query_scale}: it is above 0.")
        require(self.deviation >= 0, f"deviation={self.deviation}: of the first weights, 0 or more.")

    @property
    def width(self) -> int:
        """d_e."""
        assert self.encoding_dim is not None
        return self.encoding_dim

    def parameters(self) -> dict[str, Init]:
        both = self.dim + self.width
        return {
            "key_query": Init((both, self.width), normal=self.deviation),
            "value": Init((self.dim, both), normal=self.deviation),
        }

    def constants_of(self, generator: torch.Generator | None) -> Params:
        if self.encoding != "near-orthogonal":
            return {}
        drawing = generator or torch.default_generator
        return {"encoding": encodings.make("near-orthogonal", self.length, dim=self.width, generator=drawing)}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        held = {"encoding": (self.length, self.width)} if self.encoding == "near-orthogonal" else {}
        return held | super().shapes()

    def check(self, *inputs: Tensor) -> None:
        x, subset, key = inputs
        require(
            x.dim() == 3 and x.shape[2] == self.dim and x.is_floating_point(),
            f"x is {tuple(x.shape)}, {x.dtype}: the model takes (batch, tokens, {self.dim}), floating point.",
        )
        check_finite("x", x)
        require(
            subset.dim() == 2 and subset.shape[0] == x.shape[0] and subset.dtype == torch.int64,
            f"subset is {tuple(subset.shape)}, {subset.dtype}: the model takes (batch, q), int64, one row a sample.",
        )
        require(
            key.shape == x.shape[:1] and key.dtype == torch.int64,
            f"key is {tuple(key.shape)}, {key.dtype}: the model takes (batch,), int64, one a sample.",
        )
        tokens, q = x.shape[1], subset.shape[1]
        require(1 <= q <= tokens, f"q={q} of {tokens} tokens: a subset has at least one and at most all of them.")
        require(
            bool(((subset >= 0) & (subset < tokens)).all()),
            f"subset holds a place outside 0 … {tokens - 1}: correct it.",
        )
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

    def forward(self, p: Params, *inputs: Tensor) -> Float[Tensor, "replicas batch dim"]:
        x, subset, key = inputs
        if self.encoding == "one-hot":
            return self._one_hot(p, x, subset)
        codes = self._codes(p, x, key)
        query = self.query_scale * self._query(codes, subset)
        moved = query @ p["key_query"].mT  # W·z_query: (replicas, batch, d + d_e)
        on_tokens, on_codes = moved.split([self.dim, self.width], dim=-1)
        logits = (x @ on_tokens.unsqueeze(-1) + codes @ on_codes.unsqueeze(-1)).squeeze(-1)
        own = (query * on_codes).sum(-1, keepdim=True) if self.keys == "with-query" else None
        weights, itself = self._softmax(logits, own)
        pooled = torch.cat([_pool(weights, x), _pool(weights, codes)], dim=-1)
        if itself is not None:
            pooled = pooled + torch.cat([torch.zeros_like(x[:, :, 0]), itself * query], dim=-1)
        return pooled @ p["value"].mT

    def _one_hot(self, p: Params, x: Tensor, subset: Tensor) -> Tensor:
        """E is the identity, and nothing has to be multiplied by it."""
        tokens = x.shape[2]
        query = torch.zeros(*x.shape[:2], self.width, dtype=x.dtype, device=x.device)
        query = query.scatter(2, subset, self.query_scale)
        moved = query @ p["key_query"].mT
        on_tokens, on_codes = moved.split([self.dim, self.width], dim=-1)
        logits = (x @ on_tokens.unsqueeze(-1)).squeeze(-1) + on_codes[:, :, :tokens]
        own = (query * on_codes).sum(-1, keepdim=True) if self.keys == "with-query" else None
        weights, itself = self._softmax(logits, own)
        seen = torch.nn.functional.pad(weights, (0, self.width - tokens))
        if itself is not None:
            seen = seen + itself * query
        return torch.cat([_pool(weights, x), seen], dim=-1) @ p["value"].mT

    def _softmax(self, logits: Tensor, own: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Weights of the tokens, and of the query itself where it is among the keys."""
        if own is None:
            return logits.softmax(-1), None
        both = torch.cat([logits, own], dim=-1).softmax(-1)
        return both[..., :-1], both[..., -1:]

    def _codes(self, p: Params, x: Tensor, key: Tensor) -> Float[Tensor, "replicas batch_or_1 tokens width"]:
        tokens = x.shape[2]
        if self.encoding == "near-orthogonal":
            return p["encoding"][:, None, :tokens]
        return random_signs(key, tokens, self.width).to(x.dtype) / math.sqrt(self.width)

    def _chosen(self, codes: Tensor, subset: Tensor) -> Float[Tensor, "replicas batch q width"]:
        """E_yᵀ: the encodings of the tokens in each subset."""
        several = codes.expand(-1, subset.shape[1], -1, -1)
        return several.gather(2, subset.unsqueeze(-1).expand(-1, -1, -1, self.width))

    def _query(self, codes: Tensor, subset: Tensor) -> Float[Tensor, "replicas batch width"]:
        """E_y times the coefficients that the query has on it."""
        chosen = self._chosen(codes, subset)
        if self.query == "sum":
            return chosen.sum(2)
        coefficients = solve_ones(chosen @ chosen.mT)
        return (coefficients.unsqueeze(-2) @ chosen).squeeze(-2)

    def measures(self, p: Params) -> dict[str, Float[Tensor, "replicas"]]:
        """How well W and V point to the ground truth, W* = [0; I] and V* = [I, 0]; 0 for weights that are 0."""
        w, v = p["key_query"], p["value"]
        along_w = w[:, self.dim :].diagonal(dim1=1, dim2=2).sum(1) / math.sqrt(self.width)
        along_v = v[:, :, : self.dim].diagonal(dim1=1, dim2=2).sum(1) / math.sqrt(self.dim)
        tiny = torch.finfo(w.dtype).tiny
        return {
            "cosine W": along_w / w.flatten(1).norm(dim=1).clamp(min=tiny),
            "cosine V": along_v / v.flatten(1).norm(dim=1).clamp(min=tiny),
        }


def _pool(weights: Float[Tensor, "replicas batch tokens"], values: Tensor) -> Float[Tensor, "replicas batch width"]:
    return (weights.unsqueeze(-2) @ values).squeeze(-2)


def solve_ones(gram: Float[Tensor, "*lead q q"]) -> Float[Tensor, "*lead q"]:
    """G⁻¹·1 for a symmetric positive definite G, by elimination: ordinary operations that a CUDA graph can capture."""
    q = gram.shape[-1]
    rows = torch.cat([gram, torch.ones_like(gram[..., :1])], dim=-1)
    for pivot in range(q):
        rows_pivot = rows[..., pivot : pivot + 1, :] / rows[..., pivot : pivot + 1, pivot : pivot + 1]
        rest = rows - rows[..., :, pivot : pivot + 1] * rows_pivot
        rows = torch.cat([rest[..., :pivot, :], rows_pivot, rest[..., pivot + 1 :, :]], dim=-2)
    return rows[..., -1]


def random_signs(key: Int[Tensor, "*lead"], tokens: int, width: int) -> Int[Tensor, "*lead tokens width"]:
    """±1 for every token and dimension, a function of the key alone: the bits of splitmix64 from that state.

    On any device and in any order the same, so a sample's encoding needs no generator and no memory until it is used.
    """
    words = -(-width // 64)
    counter = torch.arange(1, tokens * words + 1, device=key.device).view(tokens, words)
    state = key[..., None, None] + counter * STEP
    state = (state ^ _shifted(state, 30)) * FIRST
    state = (state ^ _shifted(state, 27)) * SECOND
    state = state ^ _shifted(state, 31)
    bits = (state.unsqueeze(-1) >> torch.arange(64, device=key.device)) & 1
    return (2 * bits - 1).flatten(-2)[..., :width]


def _shifted(state: Tensor, by: int) -> Tensor:
    """Shift right with zeros coming in, where tensors bring in the sign."""
    return (state >> by) & (2 ** (64 - by) - 1)


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
        chosen = sizes._chosen(sizes._codes(self.replica(), x, key), subset)[0].double()
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
