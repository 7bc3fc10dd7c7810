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
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from posattn.checks import choice, keep_switches, keep_whole
from posattn.errors import require
from posattn.nn.architecture import Architecture, check_codes, check_heads, half
from posattn.nn.functional import (
    Init,
    Params,
    affine,
    attention_weights,
    cut,
    linear,
    merge_heads,
    pieces_of,
    row_products,
    split_heads,
    uncut,
)
from posattn.nn.module import Model

DEVIATION = 0.02

#: What the kernels of `fused` hold at once: width of the state, nodes, width of a head.
WIDEST, MOST_NODES, WIDEST_HEAD = 64, 128, 32

#: The forms of GELU, and what PyTorch calls them.
GELUS = {"erf": "none", "tanh": "tanh"}

#: Maps that follow attention.
MAPS = tuple(f"{name}_{part}" for name in ("output", "mlp_in", "mlp_out") for part in ("weight", "bias"))


@dataclass(frozen=True, kw_only=True)
class GPTArchitecture(Architecture):
    """Sizes of a GPT-style model, and its forward pass."""

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

        def affine_init(name: str, into: int, out: int, deviation: float = DEVIATION) -> dict[str, Init]:
            weight = Init((*layers, into, out), normal=deviation, decays=True)
            return {f"{name}_weight": weight, f"{name}_bias": Init((*layers, out))}

        return (
            {"token_embedding": Init((self.vocabulary, width), normal=DEVIATION)}
            | {"position_embedding": Init((self.length, width), normal=DEVIATION)}
            | affine_init("query", width, width)
            | affine_init("key", width, width)
            | affine_init("value", width, width)
            | affine_init("output", width, width, into_residual)
            | affine_init("mlp_in", width, 4 * width)
            | affine_init("mlp_out", 4 * width, width, into_residual)
            | {"decoder_weight": Init((width, self.vocabulary), normal=DEVIATION, decays=True)}
        )

    def check(self, *inputs: Tensor) -> None:
        (tokens,) = inputs
        require(
            tokens.dim() == 2 and 1 <= tokens.shape[1] <= self.length and tokens.dtype == torch.int64,
            f"tokens are {tuple(tokens.shape)}, {tokens.dtype}: the model takes (batch, at most {self.length}), int64.",
        )
        check_codes("token", tokens, self.vocabulary)

    def label(self) -> str:
        return f"{'positional' if self.positional else 'standard'} gpt, {self.layers} layer{'s' * (self.layers > 1)},"

    def forward(self, p: Params, *inputs: Tensor) -> Float[Tensor, "replicas batch nodes vocabulary"]:
        return self._through(p, *inputs, attend=plain_attention, follow=plain_residual)

    def fused(self, p: Params, *inputs: Tensor) -> Float[Tensor, "replicas batch nodes vocabulary"]:
        """The same with what costs most as Triton kernels, rounded to TF32 on a GPU. Can be differentiated once."""
        from posattn.nn.kernels.causal_attention import causal_attention
        from posattn.nn.kernels.gpt_mlp import residual

        return self._through(p, *inputs, attend=causal_attention, follow=residual)

    def _through(
        self, p: Params, tokens: Tensor, *, attend: Callable[..., Tensor], follow: Callable[..., Tensor]
    ) -> Float[Tensor, "replicas batch nodes vocabulary"]:
        replicas, _, nodes = tokens.shape
        position = p["position_embedding"][:, :nodes]
        state = look_up(p["token_embedding"], tokens)
        if not self.positional:
            state = state + position.unsqueeze(1)
        pieces = pieces_of(state.flatten(1, 2), whole=nodes)
        shared = self.attention(p, position).unbind(1) if self.positional else ()
        for index, layer in enumerate(self.layered(p, pieces)):
            read = uncut(affine(layer, "read", cut(state, pieces)), replicas)
            attended = mix(shared[index], read) if self.positional else attend(read, self.heads)
            state = follow(layer, state, attended, self.gelu)
        return affine(p, "decoder", state)

    def layered(self, p: Params, pieces: int) -> list[Params]:
        """Each layer's maps: `read`, all that is read from the state (once a piece), then output, mlp_in, mlp_out."""
        names = ("value",) if self.positional else ("query", "key", "value")
        stacks = {name: p[name] for name in MAPS}
        for part in ("weight", "bias"):
            joined = torch.cat([p[f"{name}_{part}"] for name in names], dim=-1)
            stacks[f"read_{part}"] = joined.repeat_interleave(pieces, dim=0)
        parts = {name: stack.unbind(1) for name, stack in stacks.items()}  # one gradient for all layers together
        return [{name: part[index] for name, part in parts.items()} for index in range(self.layers)]

    def attention(
        self, p: Params, position: Float[Tensor, "replicas nodes width"]
    ) -> Float[Tensor, "replicas layers heads nodes nodes"]:
        """How strongly positions attend to positions, in all layers at once: no layer waits for the one before it."""
        seen = position.unsqueeze(1).expand(-1, self.layers, -1, -1).flatten(0, 1)
        query, key = (
            linear(seen, p[f"{name}_weight"].flatten(0, 1), p[f"{name}_bias"].flatten(0, 1))
            for name in ("query", "key")
        )
        weights = attention_weights(split_heads(query, self.heads), split_heads(key, self.heads), causal=True)
        return weights.unflatten(0, (-1, self.layers))

    def plain(self, p: Params, *inputs: Tensor) -> Tensor:
        with sdpa_kernel(SDPBackend.MATH):  # the fused attention can be differentiated once only
            return self.forward(p, *inputs)

    def form(self, *, device: torch.device, precision: str) -> Callable[..., Tensor]:
        fits = self.embed_dim <= WIDEST and self.length <= MOST_NODES and self.embed_dim <= self.heads * WIDEST_HEAD
        if device.type == "cuda" and precision == "tf32" and fits:
            return self.fused
        return self.forward if precision != "bf16" else half(self.forward, device)


def plain_attention(
    read: Float[Tensor, "replicas batch nodes thrice"], heads: int
) -> Float[Tensor, "replicas batch nodes width"]:
    """Every head's causal attention, from queries, keys and values that lie side by side."""
    query, key, values = (split_heads(x, heads).flatten(0, 1) for x in read.chunk(3, dim=-1))  # kernels take four axes
    attended = merge_heads(scaled_dot_product_attention(query, key, values, is_causal=True))
    return attended.unflatten(0, read.shape[:2])


def plain_residual(
    layer: Params,
    state: Float[Tensor, "replicas batch nodes width"],
    attended: Float[Tensor, "replicas batch nodes width"],
    gelu: str,
) -> Float[Tensor, "replicas batch nodes width"]:
    """What follows attention in a layer."""
    state = state + affine(layer, "output", attended)
    hidden = functional.gelu(affine(layer, "mlp_in", state), approximate=GELUS[gelu])
    return state + affine(layer, "mlp_out", hidden)


def mix(
    weights: Float[Tensor, "replicas heads nodes nodes"], read: Float[Tensor, "replicas batch nodes width"]
) -> Float[Tensor, "replicas batch nodes width"]:
    """A·V with the weights that all samples share: one product with the samples side by side, no copies of A."""
    replicas, batch, nodes, _ = read.shape
    values = split_heads(read, weights.shape[1])
    beside = values.permute(0, 2, 3, 1, 4).reshape(replicas, -1, nodes, batch * values.shape[4])
    mixed = (weights @ beside).unflatten(3, (batch, -1))
    return merge_heads(mixed.permute(0, 3, 1, 2, 4))


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


class GPT(Model[GPTArchitecture]):
    """(batch, nodes) token ids → (batch, nodes, vocabulary) logits. Options: `GPTArchitecture`."""

    describes = GPTArchitecture

    def forward(self, tokens: Int[Tensor, "batch nodes"]) -> Float[Tensor, "batch nodes vocabulary"]:
        return self.run(tokens)
