"""The Triton kernels beside their formulas, as a program of its own: Triton decides at import who runs a kernel.

    TRITON_INTERPRET=1 python cases.py wide cpu      through Triton's interpreter, in NumPy
    python cases.py wide cuda                        on the GPU

Prints a line of JSON for every quantity of every case: its error and what the error may be. An error is the norm of
the difference as a part of the norm.
"""

import itertools
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[2]))
from nn import oracle
from nn.fast import layers
from nn.kernels import reading_cases
from nn.kernels.comparing import (
    FLOAT32,
    ROUNDINGS,
    ROUNDOFF,
    Line,
    compared,
    drawn,
    model,
    norm_error,
    rounding,
    strewn,
)


def tf32(device: str) -> Iterator[Line]:
    """Factors keep eleven bits, rounded to nearest: with one node, attention gives the rounded value itself."""
    from posattn.nn.kernels import causal_attention as causal

    def rounded(x: Tensor) -> Tensor:
        share, exponent = torch.frexp(x.double())
        return torch.ldexp(share.sign() * (share.abs() * 2**11 + 0.5).floor() / 2**11, exponent)

    (read,) = drawn(device, (999, 1, 48))
    attended = torch.zeros(999, 1, 16, device=device)
    sizes = {"HEADS": 1, "nodes": 1, "width": 16, "READERS": 64, "NODES": 16, "WIDTH": 16, "ROUND": True}
    causal._forward[(999, 1)](read, attended, 0.25, **sizes)
    yield Line("rounding to TF32", "value", norm_error(attended, rounded(read.cpu()[..., 32:])), 0.0)


def not_a_number(device: str) -> Iterator[Line]:
    """A NaN comes out as one, also that of a GPU: it has all bits set, and rounding it up would make it 0."""
    from posattn.nn.kernels import causal_attention as causal
    from posattn.nn.kernels.decoder import one_number
    from posattn.nn.kernels.row_maps import map_rows, slope_rows

    nan = torch.tensor([0x7FFFFFFF], dtype=torch.int32).view(torch.float32).to(device)
    read = torch.zeros(1, 5, 48, device=device)
    read[0, 2, 32:] = nan  # the value of node 2; 0 times NaN is NaN
    attended = torch.zeros(1, 5, 16, device=device)
    sizes = {"HEADS": 1, "nodes": 5, "width": 16, "READERS": 64, "NODES": 16, "WIDTH": 16, "ROUND": True}
    causal._forward[(1, 1)](read, attended, 0.25, **sizes)
    yield Line("NaN", "causal attention", float(not attended.isnan().all()), 0.0)

    u, ones, zero = (x.to(device) for x in (torch.zeros(1, 2, 2, 16), torch.ones(1, 16, 16), torch.zeros(1, 1, 16, 16)))
    u[0, 0, 1] = nan
    for exact in (True, False):
        with nullcontext() if exact else rounding():
            z = reading_cases.attended(u, zero, zero[:, :, 0], zero[:, 0], ones, ones, None)
        yield Line("NaN", f"attending layer, exact={exact}", float(not z[0, 0].isnan().all()), 0.0)
        found = map_rows(u.flatten(1, 2), ones, exact=exact, relu=True).isnan().all(2).flatten().tolist()
        yield Line("NaN", f"x·W, exact={exact}", float(found != [False, True, False, False]), 0.0)
    given, z, g = torch.ones(1, 1, 16, device=device), nan.expand(1, 1, 16), torch.zeros(1, 1, 16, device=device)
    slope_rows(given, z, ones, g, exact=True)
    yield Line("NaN", "the slope of its ReLU", float(not torch.equal(g, given)), 0.0)  # as PyTorch's own
    answer = one_number(u, ones[:, :, :1], None)
    yield Line("NaN", "decoder", float(answer.isnan().flatten().tolist() != [False, True, False, False]), 0.0)

    from posattn.nn.kernels.expanded_positional import bias_relu_
    from posattn.nn.kernels.wide_products import wide_product

    row, zeros = nan.expand(1, 1, 3), torch.zeros(1, 3, device=device)
    yield Line("NaN", "bias_relu_", float(not bias_relu_(row.clone(), zeros).isnan().all()), 0.0)
    product = wide_product(torch.ones(1, 1, 1, device=device), row.contiguous(), relu=True)
    yield Line("NaN", "wide_product", float(not product.isnan().all()), 0.0)


def wide(device: str) -> Iterator[Line]:
    """`wide_product`, `wide_backward`, and the layer that is made of them."""
    from posattn.nn.fast import positional_layer as mixing
    from posattn.nn.kernels import wide_products as wide_kernels
    from posattn.nn.kernels.wide_products import wide_backward, wide_product

    # replicas, rows, depth, columns: up to 128 rows, 256 or 64 columns a program
    for shape in [
        (2, 9, 27, 130),
        (3, 5, 7, 11),
        (1, 1, 1, 1),
        (2, 16, 16, 128),
        (2, 17, 33, 257),
        (1, 64, 64, 129),
        (1, 33, 99, 70),
    ]:
        r, rows, depth, c = shape
        a, y, bias = drawn(device, (r, rows, depth), (r, depth, c), (r, 1, c))
        product = torch.einsum("rid,rdc->ric", a.cpu().double(), y.cpu().double())
        shifted = product + bias.cpu().double()
        for case, found, expected in [
            ("a·y", wide_product(a, y), product),
            ("relu", wide_product(a, y, relu=True), product.clamp(min=0)),
            ("bias", wide_product(a, y, bias), shifted),
            ("bias, relu", wide_product(a, y, bias, relu=True), shifted.clamp(min=0)),
            ("strewn", wide_product(*strewn(a, y, bias)), shifted),
        ]:
            yield Line(f"product {shape}", case, norm_error(found, expected), FLOAT32)
    # replicas, rows, depth, columns: 4096 columns a program, 64 at once
    for shape in [(2, 9, 27, 130), (1, 1, 1, 1), (1, 17, 33, 4096), (2, 3, 64, 4099), (1, 33, 99, 70)]:
        r, rows, depth, c = shape
        a, y, z, dz = drawn(device, (r, rows, depth), (r, depth, c), (r, rows, c), (r, rows, c))
        exact_a, exact_y, exact_z, exact_dz = (x.cpu().double() for x in (a, y, z, dz))
        g = exact_dz * (exact_z > 0)
        found = wide_backward(*strewn(a, y, z, dz))
        expected = torch.einsum("ric,rdc->rid", g, exact_y), torch.einsum("rid,ric->rdc", exact_a, g), g.sum(1)
        for name, x, e in zip(("a", "y", "bias"), found, expected, strict=True):
            yield Line(f"backward {shape}", f"gradient of {name}", norm_error(x, e), FLOAT32)
        if c == 130:
            again = all(torch.equal(x, e) for x, e in zip(wide_backward(a, y, z, dz), found, strict=True))
            yield Line(f"backward {shape}", "the same every time", float(not again), 0.0)

    with ExitStack() as patches:
        if device == "cpu":  # on a GPU the layer chooses these kernels by itself
            patches.enter_context(patch.object(mixing, "_suits_kernels", lambda a, y: True))
            patches.enter_context(patch.object(wide_kernels, "SLICE", 128))  # empty columns cost the interpreter time
        yield from mixed_layers(mixing.mixed_layer, device)
        yield from model("positional", "folded", device, heads=3)


def mixed_layers(layer: Callable[..., Tensor], device: str) -> Iterator[Line]:
    """A positional layer, the state as (replicas, nodes, features, batch), with a bias and without."""
    for size in [(2, 9, 17, 5, 3, 19), (2, 1, 5, 7, 3, 11), (3, 5, 7, 2, 11, 13)]:
        r, n, k, s, g, f = size
        shapes = (r, n, k, s), (r, g, n, n), (r, g, k, f), (r, f)
        inputs = drawn(device, *shapes, scales=[1.0, n**-0.5, (g * k) ** -0.5, 1.0])
        none: list[Any] = [*inputs[:-1], None]
        yield from compared(f"layer {size}", layer, layers.mixed_sum, inputs, FLOAT32)
        yield from compared(f"layer {size} without bias", layer, layers.mixed_sum, none, FLOAT32)


def expand(device: str) -> Iterator[Line]:
    """`expand`, `collect`, `bias_relu_` and `relu_slope`, and on a GPU the layer that is made of them."""
    from posattn.nn.kernels.expanded_positional import bias_relu_, collect, expand, relu_slope

    def formula(attention: Tensor, matrices: Tensor) -> Tensor:
        return torch.einsum("rgij,rgkf->rjkif", attention, matrices).flatten(3).flatten(1, 2)

    class Kernels(torch.autograd.Function):
        @staticmethod
        def forward(ctx, attention, matrices):
            ctx.save_for_backward(attention, matrices)
            return expand(attention, matrices)

        @staticmethod
        def backward(ctx, *grads):
            attention, matrices = ctx.saved_tensors
            return collect(attention, matrices, grads[0])

    # replicas, mixed, nodes, into, out: 16 rows of a matrix at once
    sizes = [(2, 2, 3, 37, 33), (2, 3, 2, 17, 7), (2, 2, 5, 1, 11), (2, 3, 1, 16, 32), (1, 1, 2, 31, 1)]
    for size in sizes:
        r, g, n, k, f = size
        inputs = drawn(device, (r, g, n, n), (r, g, k, f))
        yield from compared(f"expand {size}", Kernels.apply, formula, inputs, FLOAT32, relu=False)
        if size == sizes[1]:
            yield from compared(f"strewn {size}", Kernels.apply, formula, strewn(*inputs), FLOAT32, relu=False)
    # replicas, batch, columns: 2048 numbers a program
    for shape, kind in itertools.product([(2, 7, 576), (3, 5, 11), (1, 2, 1024), (2, 1, 1)], ["float32", "float16"]):
        r, s, c = shape
        out = 64 if c == 576 else c
        z, bias, dz = drawn(device, (r, s, c), (r, out), (r, s, c))
        z, dz = z.to(getattr(torch, kind)), dz.to(getattr(torch, kind))
        g, sums = relu_slope(*strewn(dz, z))
        exact = dz.cpu().double() * (z.cpu() > 0)
        yield Line(f"relu_slope {kind} {shape}", "gradient", norm_error(g, exact), 0.0)
        yield Line(f"relu_slope {kind} {shape}", "sums", norm_error(sums, exact.sum(1)), FLOAT32)
        expected = (z.cpu().double() + bias.cpu().double().repeat(1, c // out)[:, None]).clamp(min=0)
        found = bias_relu_(z, bias)
        bound = max(FLOAT32, 2 * ROUNDOFF[kind])  # the bias and the sum are rounded
        yield Line(f"bias_relu_ {kind} {shape}", "value", norm_error(found, expected), bound)
        yield Line(f"bias_relu_ {kind} {shape}", "in the place of z", float(found.data_ptr() != z.data_ptr()), 0.0)
    if device == "cuda":
        yield from mixed_layers(expanded, device)
        yield from model("positional", "expanded", device, heads=3)


def signed(device: str) -> Iterator[Line]:
    """`attend_signs`: the selector with stochastic encodings, beside its formula with the encodings as numbers."""
    from posattn.nn.fast.selector import attend
    from posattn.nn.fast.token_encodings import Stochastic
    from posattn.nn.kernels.sign_attention import attend_signs

    def read(how: Callable[..., Any], key: Tensor, x: Tensor, with_query: bool, *on: Tensor) -> Tensor:
        on_tokens, on_codes, *own = on
        held = Stochastic(key.to(on_codes.device), x.shape[2], on_codes.shape[2], on_codes.dtype)
        found = how(held, x.to(on_codes), on_tokens, on_codes, own[0] if with_query else None)
        return torch.cat([part for part in found if part is not None], dim=-1)

    # replicas, batch, tokens, dim, width: 16 tokens at once, 64 signs a word
    for size in [(2, 3, 37, 5, 70), (1, 2, 16, 1, 64), (3, 1, 1, 3, 1), (2, 2, 50, 4, 170), (1, 1, 17, 2, 257)]:
        r, s, t, d, w = size
        x, on_tokens, on_codes, own = drawn(device, (r, s, t, d), (r, s, d), (r, s, w), (r, s, 1))
        key = torch.arange(r * s, device=device).view(r, s) * 7919 - 5
        for case, inputs in (
            ("plain", [on_tokens, on_codes]),
            ("strewn", strewn(on_tokens, on_codes)),
            ("with the query", [on_tokens, on_codes, own]),
            ("with the query, strewn", strewn(on_tokens, on_codes, own)),
            ("sharp", [10 * on_tokens, 10 * on_codes]),
            ("with the query, sharp", [10 * on_tokens, 10 * on_codes, own]),
        ):
            fast, formula = (partial(read, how, key, x, "query" in case) for how in (attend_signs, attend))
            yield from compared(f"signed {size}, {case}", fast, formula, inputs, FLOAT32, relu=False)


def gpt(device: str) -> Iterator[Line]:
    """`residual` and `causal_attention`, and the GPT-style pair that is made of them."""
    yield from tf32(device)
    from posattn import GPT
    from posattn.nn.fast import gpt as fast_gpt
    from posattn.nn.fast.any_model import mapped
    from posattn.nn.kernels.causal_attention import causal_attention
    from posattn.nn.kernels.gpt_mlp import residual

    bound = max(FLOAT32, ROUNDINGS * ROUNDOFF["tf32" if device == "cuda" else "float32"])

    def after(gelu: str, state: Tensor, attended: Tensor, *maps: Tensor) -> Tensor:
        return residual(state, attended, *maps, tanh=gelu == "tanh")

    def after_formula(gelu: str, state: Tensor, attended: Tensor, o: Tensor, ob: Tensor, *mlp: Tensor) -> Tensor:
        w1, b1, w2, b2 = mlp
        x = state + torch.einsum("rik,rkf->rif", attended, o) + ob[:, None]
        z = torch.einsum("rik,rkf->rif", x, w1) + b1[:, None]
        odd = torch.tanh((2 / torch.pi) ** 0.5 * (z + 0.044715 * z**3)) if gelu == "tanh" else torch.erf(z / 2**0.5)
        return x + torch.einsum("rik,rkf->rif", z * (1 + odd) / 2, w2) + b2[:, None]

    # replicas, rows, width, hidden: 32 or 64 rows and as many hidden units at once
    for size in [(2, 130, 60, 240), (3, 17, 5, 7), (1, 64, 64, 64), (1, 1, 1, 1), (2, 65, 33, 65), (1, 700, 4, 3)]:
        r, n, w, h = size
        shapes = (r, n, w), (r, n, w), (r, w, w), (r, w), (r, w, h), (r, h), (r, h, w), (r, w)
        inputs = drawn(device, *shapes, scales=[1.0, 1.0, w**-0.5, 1.0, w**-0.5, 1.0, h**-0.5, 1.0])
        for gelu in ("erf", "tanh") if n < 100 else ("erf",):
            fast, formula = partial(after, gelu), partial(after_formula, gelu)
            yield from compared(f"residual {size}, {gelu}", fast, formula, inputs, bound, relu=False)
            if size == (3, 17, 5, 7):
                yield from compared(f"residual, strewn, {gelu}", fast, formula, strewn(*inputs), bound, relu=False)
                far = [inputs[0], inputs[1], *inputs[2:5], 20 * inputs[5], *inputs[6:]]  # where both forms are flat
                yield from compared(f"residual, far, {gelu}", fast, formula, far, bound, relu=False)

    def attention_formula(read: Tensor, heads: int) -> Tensor:
        query, key, value = (x.unflatten(2, (heads, -1)) for x in read.chunk(3, dim=2))
        scores = torch.einsum("sihk,sjhk->shij", query, key) / query.shape[3] ** 0.5
        earlier = torch.arange(read.shape[1])[:, None] >= torch.arange(read.shape[1])
        weights = scores.exp() * earlier
        return torch.einsum("shij,sjhk->sihk", weights / weights.sum(3, keepdim=True), value).flatten(2)

    # samples, nodes, heads, width of a head: 64 readers at once, 128 nodes at most
    for size in [
        (3, 99, 3, 20),
        (2, 100, 4, 16),
        (2, 1, 1, 1),
        (2, 64, 2, 32),
        (1, 65, 3, 5),
        (2, 7, 5, 3),
        (1, 128, 1, 17),
    ]:
        s, n, heads, w = size
        inputs = drawn(device, (s, n, 3 * heads * w))
        fast, formula = (partial(how, heads=heads) for how in (causal_attention, attention_formula))
        yield from compared(f"attention {size}", fast, formula, inputs, bound, relu=False)
    sharp = [30 * x for x in drawn(device, (2, 99, 60))]  # logits of thousands: exp of them would overflow
    if device == "cpu":
        found = causal_attention(sharp[0], 1)
        yield Line("sharp attention", "is finite", float(not found.isfinite().all()), 0.0)

    tokens = torch.randint(0, 7, (1, 5, 11), generator=torch.Generator().manual_seed(0))
    for positional, gelu in ((False, "erf"), (True, "erf"), (False, "tanh")):
        sizes: dict[str, Any] = {"vocabulary": 7, "length": 11, "embed_dim": 15, "heads": 3, "layers": 2}
        whole = oracle.stirred(GPT(**sizes, positional=positional, gelu=gelu))
        # logits of about 1: where they are large, softmax multiplies every rounding by them
        whole = oracle.reweighted(whole, lambda w: [w[name].mul_(1 / 16) for name in ("query_weight", "query_bias")])
        held = {name: tensor.detach() for name, tensor in whole.replica().items()}
        names, weights = list(held), list(held.values())

        def through(form: Callable[..., Tensor], *values: Tensor, names: list[str] = names) -> Tensor:
            return form(dict(zip(names, values, strict=True)), tokens.to(values[0].device))

        forms = partial(fast_gpt.fused, whole.architecture), mapped(whole.architecture)
        fast, plain = (partial(through, form) for form in forms)
        rounded = [tensor.float().to(device) for tensor in weights]
        yield from compared(f"gpt, positional={positional}, {gelu}", fast, plain, rounded, 3 * bound, relu=False)


def expanded(state: Tensor, *rest: Any) -> Tensor:
    """`expanded_layer`, taking and giving a state that lies as that of `mixed_layer`."""
    from posattn.nn.fast.positional_layer import expanded_layer

    flat = expanded_layer(state.permute(0, 3, 1, 2).flatten(2), *rest)
    return flat.unflatten(2, (state.shape[1], -1)).permute(0, 2, 3, 1)


def look_up(device: str) -> Iterator[Line]:
    """`look_up_gradient`: 32 places at once, tables of 64 … 256 entries."""
    from posattn.nn.kernels.look_up import look_up_gradient

    # replicas, batch, nodes, entries, width
    for shape in [(2, 17, 5, 13, 7), (1, 1, 1, 1, 1), (3, 7, 11, 150, 32), (2, 40, 9, 65, 33)]:
        r, batch, nodes, entries, width = shape
        (dy,) = drawn(device, (r, batch, nodes + 2, width))
        codes = torch.randint(0, entries, (r, batch, nodes), generator=torch.Generator().manual_seed(0)).to(device)
        part = dy[:, :, :nodes]  # as it lies above other nodes
        chosen = torch.nn.functional.one_hot(codes.cpu(), entries).double()
        expected = torch.einsum("rbne,rbnw->rew", chosen, part.cpu().double())
        found = look_up_gradient(codes, part, entries, exact=True)
        again = look_up_gradient(codes, part.mT.contiguous().mT, entries, exact=True)  # other strides
        yield Line(f"look up {shape}", "float32", norm_error(found, expected), FLOAT32)
        yield Line(f"look up {shape}", "lying otherwise", norm_error(again, expected), FLOAT32)
        found = look_up_gradient(codes, part, entries, exact=False)
        yield Line(f"look up {shape}", "rounded", norm_error(found, expected), 4 * ROUNDOFF["tf32"])


def decoder(device: str) -> Iterator[Line]:
    """`one_number`: 32 rows at once, 512 rows' gradients a program."""
    from posattn.nn.kernels.decoder import one_number

    def formula(x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        y = torch.einsum("rsik,rko->rsio", x, w)
        return y if b is None else y + b[:, None, None]

    for size in [(2, 129, 9, 64), (3, 5, 1, 7), (1, 1, 1, 1), (2, 64, 8, 33), (1, 2, 3, 200)]:
        r, s, n, k = size
        inputs = drawn(device, (r, s, n, k), (r, k, 1), (r, 1))
        none: list[Any] = [*inputs[:-1], None]
        yield from compared(f"decoder {size}", one_number, formula, inputs, FLOAT32, relu=False)
        yield from compared(f"decoder {size}, strewn", one_number, formula, strewn(*inputs), FLOAT32, relu=False)
        yield from compared(f"decoder {size}, without bias", one_number, formula, none, FLOAT32, relu=False)


def adam(device: str) -> Iterator[Line]:
    """`adam_` beside PyTorch's own Adam and AdamW in float64, over five steps; the last replica is dead."""
    from posattn.nn.kernels.adam import adam_

    betas, eps, decay = (0.9, 0.999), 1e-8, 0.1
    for (replicas, total), kind, decaying in itertools.product(
        [(3, 1025), (2, 7), (1, 1)], (torch.optim.Adam, torch.optim.AdamW), (False, True)
    ):
        case = f"{kind.__name__} {replicas} × {total}{', decay' * decaying}"
        values, *grads = drawn(device, *[(replicas, total)] * 6)
        state = torch.zeros_like(values), torch.zeros_like(values)
        rate = torch.linspace(1.0, 2.0, replicas, device=device)
        alive = torch.arange(replicas, device=device) < max(1, replicas - 1)
        mask = (torch.arange(total, device=device) % 2 == 0).float()
        own = [[x.clone() for x in row.cpu().double()] for row in values]  # one tensor a number: its own decay
        makers = []
        for row, lr in zip(own, rate.tolist(), strict=True):
            groups = [
                {"params": row[start::2], "weight_decay": decay * decaying * (start == 0)}
                for start in range(min(2, total))
            ]
            makers.append(kind(groups, lr=lr, betas=betas, eps=eps))
        before = values.clone()
        for step, grad in enumerate(grads):
            broken = torch.where(alive[:, None], grad, torch.nan)
            shrunk = torch.tensor([1 - beta ** (step + 1) for beta in betas], device=device)
            adam_(
                values, broken, *state, rate=rate, alive=alive, shrunk=shrunk, betas=betas, eps=eps,
                decayed=mask if decaying else None, decay=decay, decoupled=kind is torch.optim.AdamW,
            )  # fmt: skip
            for replica, maker in enumerate(makers):
                for x, g in zip(own[replica], grad[replica].cpu().double(), strict=True):
                    x.grad = g
                maker.step()
        expected = torch.stack([torch.stack(row) for row in own])
        living = alive.cpu()
        # Steps are as large as the numbers they change, and 1 − β₂ as float32 would be off by 200 roundoffs.
        yield Line(case, "values", norm_error(values[alive], expected[living]), 32 * ROUNDOFF["float32"])
        kept = torch.equal(values[~alive], before[~alive])
        yield Line(case, "a dead replica stays", float(not kept), 0.0)


def noise(device: str) -> Iterator[Line]:
    """Counted randomness beside Philox, written out in NumPy (Salmon et al. 2011)."""
    from posattn.nn.kernels.counted_randomness import counted
    from posattn.train.fleet.own_randomness import mixed

    def philox(key: int, places: int) -> np.ndarray:
        low, high = np.uint64(0xFFFFFFFF), np.uint64(32)
        counter = [np.arange(places, dtype=np.uint64), *(np.zeros(places, dtype=np.uint64) for _ in range(3))]
        k0, k1 = key & 0xFFFFFFFF, key >> 32
        for _ in range(10):
            a, b = counter[0] * np.uint64(0xD2511F53), counter[2] * np.uint64(0xCD9E8D57)
            first, third = (b >> high) ^ counter[1] ^ np.uint64(k0), (a >> high) ^ counter[3] ^ np.uint64(k1)
            counter = [first & low, b & low, third & low, a & low]
            k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
        whole = counter[0].astype(np.uint32).view(np.int32).astype(np.int64)
        return np.where(whole < 0, -whole - 1, whole) / 2**31

    keys, step = [5, 2**62 - 3], 2**33 + 7
    held = torch.tensor(keys, device=device), torch.tensor(step, device=device)
    for number, each in itertools.product((1, 2, 17), (1, 3, 1025)):
        expected = torch.tensor(np.stack([philox(mixed(key, step, number), each) for key in keys]))
        uniform = counted(*held, number, (2, each), "uniform", 0.0)
        yield Line(f"noise {number} {each}", "uniform", float((uniform.cpu() - expected).abs().max()), 2.0**-22)
        kept = counted(*held, number, (2, each), "kept", 0.25).cpu()
        yield Line(f"noise {number} {each}", "kept", float((kept != (expected < 0.25)).sum()), 0.0)
    normal = counted(*held, 3, (2, 20_000), "normal", 0.0)
    yield Line("noise", "mean of normal", abs(float(normal.mean())), 5 / 200)
    yield Line("noise", "variance of normal", abs(float(normal.var()) - 1), 5 * 2**0.5 / 200)
    yield Line("noise", "nothing", float(counted(*held, 1, (2, 0), "uniform", 0.0).numel()), 0.0)


if __name__ == "__main__":
    torch.set_num_threads(1)
    kernels: dict[str, Callable[[str], Iterator[Line]]] = {
        "attending": lambda device: itertools.chain(reading_cases.attending(device), not_a_number(device)),
        "mixing": reading_cases.mixing,
        "maps": reading_cases.maps,
        "wide": wide,
        "expand": expand,
        "decoder": decoder,
        "look-up": look_up,
        "adam": adam,
        "signed": signed,
        "gpt": gpt,
        "noise": noise,
    }
    for line in kernels[sys.argv[1]](sys.argv[2]):
        print(json.dumps(line._asdict()), flush=True)
