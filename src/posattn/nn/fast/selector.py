"""The selector in fleets: Z is never put together, and encodings are only ever used in products."""

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from posattn.nn.fast.products import half
from posattn.nn.fast.token_encodings import Codes, Fixed, OneHot, Read, Stochastic
from posattn.nn.initial_weights import Params
from posattn.nn.selector import Selector

Attend = Callable[[Codes, Tensor, Tensor, Tensor, Tensor | None], Read]


def form(sizes: Selector, *, device: torch.device, precision: str) -> Callable[..., Tensor]:
    """Kernels for stochastic encodings on a GPU."""
    if sizes.encoding == "stochastic" and device.type == "cuda" and precision in ("float32", "tf32"):
        return partial(fused, sizes)
    return partial(split, sizes) if precision != "bf16" else half(partial(split, sizes), device)


def split(sizes: Selector, p: Params, *inputs: Tensor) -> Float[Tensor, "replicas batch dim"]:
    """Tokens and encodings apart, by ordinary operations."""
    return _answer(sizes, p, *inputs, attend=attend)


def fused(sizes: Selector, p: Params, *inputs: Tensor) -> Float[Tensor, "replicas batch dim"]:
    """The same with stochastic encodings that are never written down, by Triton kernels."""
    from posattn.nn.kernels.sign_attention import attend_signs

    return _answer(sizes, p, *inputs, attend=attend_signs)


def _answer(sizes: Selector, p: Params, x: Tensor, subset: Tensor, key: Tensor, *, attend: Attend) -> Tensor:
    w, v = sizes.matrices(p)
    codes = codes_of(sizes, p, key, x.shape[2], x.dtype)
    query = sizes.query_scale * _query(sizes, codes.chosen(subset))
    on_tokens, on_codes = (query @ w.mT).split([sizes.dim, sizes.width], dim=-1)  # W·z_query
    own = (query * on_codes).sum(-1, keepdim=True) if sizes.keys == "with-query" else None
    read = attend(codes, x, on_tokens, on_codes, own)
    seen = read.codes if read.itself is None else read.codes + read.itself * query
    return torch.cat([read.tokens, seen], dim=-1) @ v.mT


def codes_of(sizes: Selector, p: Params, key: Tensor, tokens: int, dtype: torch.dtype) -> Codes:
    """The encodings of all samples' tokens."""
    if sizes.encoding == "one-hot":
        return OneHot(tokens, sizes.width, dtype)
    if sizes.encoding == "near-orthogonal":
        return Fixed(p["encoding"][:, :tokens])
    return Stochastic(key, tokens, sizes.width, dtype)


def _query(sizes: Selector, chosen: Float[Tensor, "replicas batch q width"]) -> Float[Tensor, "replicas batch width"]:
    """e_query from the encodings of the subset, E_yᵀ."""
    if sizes.query == "sum" or sizes.encoding == "one-hot":
        return chosen.sum(2)
    with torch.autocast(chosen.device.type, enabled=False):  # what autocast would round, the inverse magnifies
        coefficients = solve_ones(chosen @ chosen.mT)
        return (coefficients.unsqueeze(-2) @ chosen).squeeze(-2)


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


def solve_ones(gram: Float[Tensor, "*lead q q"]) -> Float[Tensor, "*lead q"]:
    """G⁻¹·1 for a symmetric positive definite G, by elimination: ordinary operations that a CUDA graph can capture."""
    q = gram.shape[-1]
    rows = torch.cat([gram, torch.ones_like(gram[..., :1])], dim=-1)
    for pivot in range(q):
        rows_pivot = rows[..., pivot : pivot + 1, :] / rows[..., pivot : pivot + 1, pivot : pivot + 1]
        rest = rows - rows[..., :, pivot : pivot + 1] * rows_pivot
        rows = torch.cat([rest[..., :pivot, :], rows_pivot, rest[..., pivot + 1 :, :]], dim=-2)
    return rows[..., -1]
