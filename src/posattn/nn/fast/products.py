"""Products of a fleet, as pure functions of (parameters, inputs), each replica with its own.

Parameters are a plain dict of tensors in the stacked layout (`posattn.nn.layout`). Every tensor, parameter or input,
has a leading replica axis: a linear map called `name` is the pair `name_weight` (replicas, in, out) and `name_bias`
(replicas, out); without the second it has no bias. Maps that every layer has are stacked: (replicas, layers, in, out).
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posattn.errors import require
from posattn.nn.fast.large_products import product
from posattn.nn.initial_weights import Params

#: Products of small matrices that keep a large GPU busy (two for each of an H200's 132 multiprocessors), and the fewest
#: rows that are worth a product of their own.
BUSY, ROWS = 264, 256
#: The largest table whose gradient the kernel of `posattn.nn.kernels.look_up` takes.
MOST_ENTRIES, WIDEST_ENTRY = 256, 64


def linear(
    x: Float[Tensor, "replicas *nodes into"],
    weight: Float[Tensor, "replicas into out"],
    bias: Float[Tensor, "replicas out"] | None,
) -> Float[Tensor, "replicas *nodes out"]:
    """x·W + b, each replica with its own W and b."""
    rows = x.flatten(1, -2)
    pieces = pieces_of(rows)
    if pieces > 1:  # as if every piece were a replica: autograd then takes the gradient of W piece by piece
        rows = rows.reshape(rows.shape[0] * pieces, -1, rows.shape[2])
        weight = weight.repeat_interleave(pieces, dim=0)
        bias = None if bias is None else bias.repeat_interleave(pieces, dim=0)
    y = product(rows, weight, None if bias is None else bias.unsqueeze(1))
    return y.reshape(*x.shape[:-1], y.shape[2])


def pieces_of(rows: Float[Tensor, "replicas rows features"], *, whole: int = 1) -> int:
    """Into how many equal pieces to cut the rows of every replica, `whole` neighbours never being parted.

    The gradient of a weight is a sum over all rows. cuBLAS gives each replica's sum to one small part of the GPU, so
    that few replicas leave most of it idle; in pieces, all of it has work. On a CPU there is nothing to gain.
    """
    if not rows.is_cuda:
        return 1
    replicas, count = rows.shape[:2]
    most = min(-(-BUSY // replicas), count // ROWS)
    return next((pieces for pieces in range(most, 1, -1) if (count // whole) % pieces == 0), 1)


def cut(x: Float[Tensor, "replicas batch *rest"], pieces: int) -> Float[Tensor, "pieces samples *rest"]:
    """Each replica's samples in equal pieces, as if every piece were a replica."""
    return x.unflatten(1, (pieces, -1)).flatten(0, 1)


def uncut(x: Float[Tensor, "pieces samples *rest"], replicas: int) -> Float[Tensor, "replicas batch *rest"]:
    """The samples of every replica together again."""
    return x.unflatten(0, (replicas, -1)).flatten(1, 2)


def row_products(
    x: Float[Tensor, "replicas rows into"], y: Float[Tensor, "replicas rows out"]
) -> Float[Tensor, "replicas into out"]:
    """xᵀ·y, the sum over all rows, cut into pieces where that keeps a GPU busy."""
    pieces = pieces_of(x)
    if pieces == 1:
        return product(x.mT, y)
    parts = (tensor.reshape(-1, tensor.shape[1] // pieces, tensor.shape[2]) for tensor in (x, y))
    left, right = parts
    return torch.bmm(left.mT, right).unflatten(0, (-1, pieces)).sum(1)


def beside(matrices: Float[Tensor, "replicas count into out"]) -> Float[Tensor, "replicas into columns"]:
    """[M_1 | M_2 | …]."""
    return matrices.transpose(1, 2).flatten(2)


def affine(
    p: Params, name: str, x: Float[Tensor, "replicas *nodes into"], *layer: int
) -> Float[Tensor, "replicas *nodes out"]:
    """The linear map called `name`, that of one layer where there are several."""
    at = (slice(None), *layer)
    bias = p.get(f"{name}_bias")
    return linear(x, p[f"{name}_weight"][at], None if bias is None else bias[at])


def split_heads(x: Float[Tensor, "*lead nodes features"], heads: int) -> Float[Tensor, "*lead heads nodes width"]:
    return x.unflatten(-1, (heads, -1)).transpose(-3, -2)


def merge_heads(x: Float[Tensor, "*lead heads nodes width"]) -> Float[Tensor, "*lead nodes features"]:
    return x.transpose(-3, -2).flatten(-2)


def attention_weights(
    query: Float[Tensor, "*lead nodes width"], key: Float[Tensor, "*lead nodes width"], *, causal: bool = False
) -> Float[Tensor, "*lead nodes nodes"]:
    """softmax(Q·Kᵀ/√d_k), each row over the nodes it reads from (with `causal`: none after itself)."""
    logits = query @ key.mT / math.sqrt(query.shape[-1])
    if causal:
        later = torch.ones(logits.shape[-2:], dtype=torch.bool, device=logits.device).triu(1)
        logits = logits.masked_fill(later, float("-inf"))
    return logits.softmax(-1)


def with_identity(
    attention: Float[Tensor, "replicas layers heads nodes nodes"],
) -> Float[Tensor, "replicas layers mixed nodes nodes"]:
    """[1, A_1, …, A_H]: what the matrices [M₀, M_1, …, M_H] are mixed with."""
    eye = torch.eye(attention.shape[-1], dtype=attention.dtype, device=attention.device)
    return torch.cat([eye.expand(*attention.shape[:2], 1, *eye.shape), attention], dim=2)


def is_exact() -> bool:
    """Whether a GPU's products are those of float32, not of factors rounded to TF32; to be asked on the way forward."""
    return torch.backends.cuda.matmul.fp32_precision != "tf32"


def by_hand(function: Callable[..., Tensor], *tensors: Tensor | None) -> Tensor:
    """A function with a hand-written backward pass, also under autocast: then all of it in autocast's dtype.

    Autocast would round some of its products and not others, and ends before the backward pass, which would multiply
    two dtypes. Rounded before the function, every gradient is cast back by autograd.
    """
    kind = next(x for x in tensors if x is not None).device.type
    if not torch.is_autocast_enabled(kind):
        return function(*tensors)
    rounded = [None if x is None else x.to(torch.get_autocast_dtype(kind)) for x in tensors]
    with torch.autocast(kind, enabled=False):
        return function(*rounded)


def only_once() -> None:
    """Called first in a hand-written backward pass: it may run, but must not itself be differentiated."""
    require(
        not torch.is_grad_enabled(),
        "a second derivative of a fleet's fast form was asked for (create_graph=True), and it has only the first: "
        "differentiate the model itself, which has all.",
    )


class _LookUp(torch.autograd.Function):
    """Autograd's own gradient of an indexed table adds row after row where a code repeats, and codes repeat often."""

    @staticmethod
    def forward(ctx, table, codes):
        ctx.save_for_backward(codes)
        ctx.entries, ctx.exact = table.shape[1], is_exact()
        replica = torch.arange(table.shape[0], device=table.device)[:, None, None]
        return table[replica, codes]

    @staticmethod
    def backward(ctx, *grads):
        (codes,) = ctx.saved_tensors
        dy, entries = grads[0], ctx.entries
        held = entries <= MOST_ENTRIES and dy.shape[3] <= WIDEST_ENTRY
        if dy.is_cuda and dy.dtype == torch.float32 and held and not torch.is_grad_enabled():
            from posattn.nn.kernels.look_up import look_up_gradient

            return look_up_gradient(codes, dy, entries, exact=ctx.exact), None
        chosen = codes.flatten(1).unsqueeze(2) == torch.arange(entries, device=codes.device)
        return row_products(chosen.to(dy.dtype), dy.flatten(1, 2)), None


def look_up(
    table: Float[Tensor, "replicas entries width"], codes: Int[Tensor, "replicas batch nodes"]
) -> Float[Tensor, "replicas batch nodes width"]:
    """Each replica's own embedding of its codes."""
    return _LookUp.apply(table, codes)


def half(function: Callable[..., Tensor], device: torch.device) -> Callable[..., Tensor]:
    """A forward pass with its products in bfloat16."""

    def half(p: Params, *inputs: Tensor) -> Tensor:
        with torch.autocast(device.type, torch.bfloat16, cache_enabled=False):
            return function(p, *inputs)

    return half
