"""Attention over tokens with stochastic encodings, as Triton kernels that read the encodings as bits.

A program owns a sample. Its encodings are tokens × width signs, read as 32 of them in a word and never written as
numbers: at the paper's sizes and a fleet of ten that is 12 MB a pass instead of 350.
"""

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

from posattn.nn.fast.products import only_once
from posattn.nn.fast.token_encodings import Codes, Read, Stochastic

#: Tokens that are on the way at once.
TOKENS = 16


@triton.jit
def _signs(words_pointer, sample, tokens, words, start, TOKENS: tl.constexpr, WORDS: tl.constexpr):
    """The signs of some tokens as a (TOKENS, WORDS, 32) block; what lies outside is −1 and must meet a 0."""
    t, w, bit = start + tl.arange(0, TOKENS), tl.arange(0, WORDS), tl.arange(0, 32)
    inside = (t[:, None] < tokens) & (w[None, :] < words)
    held = tl.load(words_pointer + (sample * tokens + t[:, None]) * words + w[None, :], mask=inside, other=0)
    return (((held[:, :, None] >> bit[None, None, :]) & 1) * 2 - 1).to(tl.float32)


@triton.jit
def _vector(pointer, sample, width, WORDS: tl.constexpr):
    """A sample's vector of `width` numbers as a (WORDS, 32) block."""
    at = tl.arange(0, WORDS)[:, None] * 32 + tl.arange(0, 32)[None, :]
    return tl.load(pointer + sample * width + at, mask=at < width, other=0.0)


@triton.jit
def _store_vector(pointer, sample, width, block, WORDS: tl.constexpr):
    at = tl.arange(0, WORDS)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tl.store(pointer + sample * width + at, block, mask=at < width)


@triton.jit
def _tile(x_pointer, sample, tokens, dim, start, TOKENS: tl.constexpr, DIM: tl.constexpr):
    """Some tokens of a sample."""
    t, k = start + tl.arange(0, TOKENS), tl.arange(0, DIM)
    inside = (t[:, None] < tokens) & (k[None, :] < dim)
    return tl.load(x_pointer + (sample * tokens + t[:, None]) * dim + k[None, :], mask=inside, other=0.0)


@triton.jit
def _forward(
    words_pointer, x_pointer, on_tokens_pointer, on_codes_pointer, own_pointer,
    weights_pointer, tokens_pointer, codes_pointer, itself_pointer,
    words, dim, width,
    tokens: tl.constexpr, TOKENS: tl.constexpr, ALL: tl.constexpr, WORDS: tl.constexpr, DIM: tl.constexpr,
):  # fmt: skip
    sample = tl.program_id(0).to(tl.int64)
    k, every = tl.arange(0, DIM), tl.arange(0, ALL)
    on_codes = _vector(on_codes_pointer, sample, width, WORDS)[None, :, :]
    on_tokens = tl.load(on_tokens_pointer + sample * dim + k, mask=k < dim, other=0.0)[None, :]
    own = tl.load(own_pointer + sample)
    for start in range(0, tokens, TOKENS):
        t = start + tl.arange(0, TOKENS)
        signs = _signs(words_pointer, sample, tokens, words, start, TOKENS, WORDS)
        logits = tl.sum(tl.sum(signs * on_codes, axis=2), axis=1)
        logits += tl.sum(_tile(x_pointer, sample, tokens, dim, start, TOKENS, DIM) * on_tokens, axis=1)
        tl.store(weights_pointer + sample * tokens + t, logits, mask=t < tokens)
    tl.debug_barrier()
    inside = every < tokens
    logits = tl.load(weights_pointer + sample * tokens + every, mask=inside, other=float("-inf"))
    most = tl.maximum(tl.max(logits, axis=0), own)
    weights = tl.exp(logits - most)
    itself = tl.exp(own - most)
    total = tl.sum(weights, axis=0) + itself
    tl.store(weights_pointer + sample * tokens + every, weights / total, mask=inside)
    tl.store(itself_pointer + sample, itself / total)
    tl.debug_barrier()
    pooled = tl.zeros((TOKENS, WORDS, 32), dtype=tl.float32)
    mean = tl.zeros((TOKENS, DIM), dtype=tl.float32)
    for start in range(0, tokens, TOKENS):
        t = start + tl.arange(0, TOKENS)
        weight = tl.load(weights_pointer + sample * tokens + t, mask=t < tokens, other=0.0)
        pooled += weight[:, None, None] * _signs(words_pointer, sample, tokens, words, start, TOKENS, WORDS)
        mean += weight[:, None] * _tile(x_pointer, sample, tokens, dim, start, TOKENS, DIM)
    _store_vector(codes_pointer, sample, width, tl.sum(pooled, axis=0), WORDS)
    tl.store(tokens_pointer + sample * dim + k, tl.sum(mean, axis=0), mask=k < dim)


@triton.jit
def _backward(
    words_pointer, x_pointer, weights_pointer, itself_pointer,
    d_tokens_pointer, d_codes_pointer, d_itself_pointer,
    scratch_pointer, d_on_tokens_pointer, d_on_codes_pointer, d_own_pointer,
    words, dim, width,
    tokens: tl.constexpr, TOKENS: tl.constexpr, WORDS: tl.constexpr, DIM: tl.constexpr,
):  # fmt: skip
    """With weights a and their derivatives da, the logits' derivatives are a·(da − Σ a·da)."""
    sample = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, DIM)
    d_codes = _vector(d_codes_pointer, sample, width, WORDS)[None, :, :]
    d_tokens = tl.load(d_tokens_pointer + sample * dim + k, mask=k < dim, other=0.0)[None, :]
    itself, d_itself = tl.load(itself_pointer + sample), tl.load(d_itself_pointer + sample)
    means = tl.zeros((TOKENS,), dtype=tl.float32)
    for start in range(0, tokens, TOKENS):
        t = start + tl.arange(0, TOKENS)
        signs = _signs(words_pointer, sample, tokens, words, start, TOKENS, WORDS)
        da = tl.sum(tl.sum(signs * d_codes, axis=2), axis=1)
        da += tl.sum(_tile(x_pointer, sample, tokens, dim, start, TOKENS, DIM) * d_tokens, axis=1)
        means += da * tl.load(weights_pointer + sample * tokens + t, mask=t < tokens, other=0.0)
        tl.store(scratch_pointer + sample * tokens + t, da, mask=t < tokens)
    tl.debug_barrier()
    mean = tl.sum(means, axis=0) + itself * d_itself
    tl.store(d_own_pointer + sample, itself * (d_itself - mean))
    d_on_codes = tl.zeros((TOKENS, WORDS, 32), dtype=tl.float32)
    d_on_tokens = tl.zeros((TOKENS, DIM), dtype=tl.float32)
    for start in range(0, tokens, TOKENS):
        t = start + tl.arange(0, TOKENS)
        weight = tl.load(weights_pointer + sample * tokens + t, mask=t < tokens, other=0.0)
        dl = weight * (tl.load(scratch_pointer + sample * tokens + t, mask=t < tokens, other=0.0) - mean)
        d_on_codes += dl[:, None, None] * _signs(words_pointer, sample, tokens, words, start, TOKENS, WORDS)
        d_on_tokens += dl[:, None] * _tile(x_pointer, sample, tokens, dim, start, TOKENS, DIM)
    _store_vector(d_on_codes_pointer, sample, width, tl.sum(d_on_codes, axis=0), WORDS)
    tl.store(d_on_tokens_pointer + sample * dim + k, tl.sum(d_on_tokens, axis=0), mask=k < dim)


class _Signed(torch.autograd.Function):
    """(words, x, on_tokens, on_codes, own) → (mean token, mean sign, the query's own weight)."""

    @staticmethod
    def forward(ctx, words, x, on_tokens, on_codes, own):
        lead, (tokens, dim), width = x.shape[:2], x.shape[2:], on_codes.shape[-1]
        words, x = words.contiguous().view(torch.int32), x.contiguous()
        weights, means, codes, itself = (x.new_empty(*lead, size) for size in (tokens, dim, width, 1))
        sizes = {"WORDS": triton.next_power_of_2(words.shape[-1]), "DIM": triton.next_power_of_2(dim)}
        sizes |= {"tokens": tokens, "TOKENS": TOKENS}
        _forward[(lead.numel(),)](
            words, x, on_tokens.contiguous(), on_codes.contiguous(), own.contiguous(), weights, means, codes, itself,
            words.shape[-1], dim, width, ALL=triton.next_power_of_2(tokens), **sizes,
        )  # fmt: skip
        ctx.save_for_backward(words, x, weights, itself)
        ctx.sizes = sizes
        return means, codes, itself

    @staticmethod
    def backward(ctx, *grads):
        only_once()
        words, x, weights, itself = ctx.saved_tensors
        d_tokens, d_codes, d_itself = (grad.contiguous() for grad in grads)
        dim, width = x.shape[3], d_codes.shape[-1]
        found = [torch.empty_like(grad) for grad in (d_tokens, d_codes, d_itself)]
        _backward[(x.shape[:2].numel(),)](
            words, x, weights, itself, d_tokens, d_codes, d_itself, torch.empty_like(weights), *found,
            words.shape[-1], dim, width, **ctx.sizes,
        )  # fmt: skip
        return None, None, *found


def attend_signs(
    codes: Codes,
    x: Float[Tensor, "replicas batch tokens dim"],
    on_tokens: Float[Tensor, "replicas batch dim"],
    on_codes: Float[Tensor, "replicas batch width"],
    own: Float[Tensor, "replicas batch 1"] | None,
) -> Read:
    """`posattn.nn.fast.selector.attend` for stochastic codes. The tokens are data: they get no gradient."""
    assert isinstance(codes, Stochastic)
    unit = codes.unit
    logit = torch.full_like(on_codes[..., :1], -torch.inf) if own is None else own
    words: Int[Tensor, "replicas batch tokens words"] = codes.words()
    means, signs, itself = _Signed.apply(words, x, on_tokens, on_codes * unit, logit)
    return Read(means, signs * unit, None if own is None else itself)
