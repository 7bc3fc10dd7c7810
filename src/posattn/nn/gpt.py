"""The GPT-style pair for k-hop induction heads: causal, additive residual, GELU, learned positions.

Back de Luca et al. 2025, Figs 3 and 5: no normalisation, no dropout, MLP four times as wide, weights N(0, 0.02), and
0.02/√(2·layers) where a map writes into the residual; biases start at 0. `positional=False` adds the position
embedding to the token's and attends by value; `positional=True` keeps the two apart: the state starts as the token
alone, and Q and K of every layer see the position embedding alone. The map to the vocabulary has no bias and is not
tied to the embedding (the paper leaves both open).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import gelu, scaled_dot_product_attention

from posattn.errors import require
from posattn.nn.architecture import Architecture, check_codes, check_heads, check_sizes, check_switches, half
from posattn.nn.model import Model
from posattn.nn.parts import Init, Params, affine, attention_weights, merge_heads, row_products, split_heads

DEVIATION = 0.02


@dataclass(frozen=True, kw_only=True)
class Gpt(Architecture):
    """Sizes of a GPT-style model, and its forward pass."""

    kind = "gpt"

    vocabulary: int = 16
    length: int = 99
    embed_dim: int = 60
    heads: int = 3
    layers: int = 3
    positional: bool = False

    def __post_init__(self) -> None:
        check_sizes(vocabulary=self.vocabulary, length=self.length, embed_dim=self.embed_dim)
        check_sizes(heads=self.heads, layers=self.layers)
        check_heads(self.embed_dim, self.heads)
        check_switches(positional=self.positional)

    def parameters(self) -> dict[str, Init]:
        width, layers = self.embed_dim, (self.layers,)
        into_residual = DEVIATION / math.sqrt(2 * self.layers)

        def linear(name: str, into: int, out: int, deviation: float = DEVIATION) -> dict[str, Init]:
            weight = Init((*layers, into, out), normal=deviation)
            return {f"{name}_weight": weight, f"{name}_bias": Init((*layers, out))}

        return (
            {"token_embedding": Init((self.vocabulary, width), normal=DEVIATION)}
            | {"position_embedding": Init((self.length, width), normal=DEVIATION)}
            | linear("query", width, width)
            | linear("key", width, width)
            | linear("value", width, width)
            | linear("output", width, width, into_residual)
            | linear("mlp_in", width, 4 * width)
            | linear("mlp_out", 4 * width, width, into_residual)
            | {"decoder_weight": Init((width, self.vocabulary), normal=DEVIATION)}
        )

    def check(self, *inputs: Tensor) -> None:
        (tokens,) = inputs
        require(
            tokens.dim() == 2 and 1 <= tokens.shape[1] <= self.length and tokens.dtype == torch.int64,
            f"tokens are {tuple(tokens.shape)}, {tokens.dtype}: the model takes (batch, at most {self.length}), int64.",
        )
        check_codes("token", tokens, self.vocabulary)

    def forward(self, p: Params, *inputs: Tensor) -> Float[Tensor, "replicas batch nodes vocabulary"]:
        (tokens,) = inputs
        position = p["position_embedding"][:, None, : tokens.shape[2]]
        state = look_up(p["token_embedding"], tokens)
        if not self.positional:
            state = state + position
        for index in range(self.layers):
            seen = position if self.positional else state
            query = split_heads(affine(p, "query", seen, index), self.heads)
            key = split_heads(affine(p, "key", seen, index), self.heads)
            values = split_heads(affine(p, "value", state, index), self.heads)
            if self.positional:
                attended = mix(attention_weights(query, key, causal=True), values)
            else:
                q, k, v = (x.flatten(0, 1) for x in (query, key, values))  # the fast kernels take four axes
                attended = scaled_dot_product_attention(q, k, v, is_causal=True).view_as(values)
            state = state + affine(p, "output", merge_heads(attended), index)
            state = state + affine(p, "mlp_out", gelu(affine(p, "mlp_in", state, index)), index)
        return affine(p, "decoder", state)

    def plain(self, p: Params, *inputs: Tensor) -> Tensor:
        with sdpa_kernel(SDPBackend.MATH):  # the fused attention can be differentiated once only
            return self.forward(p, *inputs)

    def form(self, *, device: torch.device, precision: str) -> Callable[..., Tensor]:
        return self.forward if precision != "bf16" else half(self.forward, device)


def mix(
    weights: Float[Tensor, "replicas 1 heads nodes nodes"], values: Float[Tensor, "replicas batch heads nodes width"]
) -> Float[Tensor, "replicas batch heads nodes width"]:
    """A·V with the weights that all samples share: one product with the samples side by side, no copies of A."""
    replicas, batch, heads, nodes, width = values.shape
    beside = values.permute(0, 2, 3, 1, 4).reshape(replicas, heads, nodes, batch * width)
    return (weights[:, 0] @ beside).view(replicas, heads, nodes, batch, width).permute(0, 3, 1, 2, 4)


class _LookUp(torch.autograd.Function):
    """Autograd's own gradient of an indexed table adds row after row where a code repeats, and codes repeat often."""

    @staticmethod
    def forward(ctx, table, codes):
        ctx.save_for_backward(codes)
        ctx.entries = table.shape[1]
        replica = torch.arange(table.shape[0], device=table.device)[:, None, None]
        return table[replica, codes]

    @staticmethod
    def backward(ctx, *grads):
        (codes,) = ctx.saved_tensors
        chosen = codes.flatten(1).unsqueeze(2) == torch.arange(ctx.entries, device=codes.device)
        return row_products(chosen.to(grads[0].dtype), grads[0].flatten(1, 2)), None


def look_up(
    table: Float[Tensor, "replicas entries width"], codes: Int[Tensor, "replicas batch nodes"]
) -> Float[Tensor, "replicas batch nodes width"]:
    """Each replica's own embedding of its codes."""
    return _LookUp.apply(table, codes)


class GPT(Model[Gpt]):
    """(batch, nodes) token ids → (batch, nodes, vocabulary) logits. Options are the fields of `Gpt`, by name."""

    describes = Gpt

    def forward(self, tokens: Int[Tensor, "batch nodes"]) -> Float[Tensor, "batch nodes vocabulary"]:
        return self.run(tokens)
