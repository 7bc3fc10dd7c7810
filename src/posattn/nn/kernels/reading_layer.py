"""A layer between two ReLUs on a GPU, made of kernels: a product before nodes read each other, and one after.

    [… | y | v_1 | …] = u·[… | M₀ | V_1 | …]        one product for every row, a node of a sample
    r_h = A_h·v_h                                   what every node reads
    z = relu(y + [r_1 | …]·W + b)

Values stay as narrow as their heads (see `posattn.nn.fast.factored_layer`). What differs is A: of a positional layer
it is given, of a standard one it comes from queries, which stand where the dots are. The state lies as (replicas, rows,
features), and the nodes of a sample are neighbours.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from posattn.nn.fast.products import is_exact, only_once, row_products
from posattn.nn.kernels.attending_rows import Attending
from posattn.nn.kernels.mixing_rows import mix, mixing_gradient
from posattn.nn.kernels.row_maps import map_rows, slope_rows


def _summed(
    x: Float[Tensor, "replicas rows into"], y: Float[Tensor, "replicas rows out"], *, exact: bool
) -> Float[Tensor, "replicas into out"]:
    """xᵀ·y by cuBLAS, as exact as the layer itself."""
    now = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = "ieee" if exact else "tf32"
    try:
        return row_products(x, y)
    finally:
        torch.backends.cuda.matmul.fp32_precision = now


class _Mapped(torch.autograd.Function):
    """relu(x·W + b)."""

    @staticmethod
    def forward(ctx, x, w, bias):
        ctx.exact, ctx.has_bias = is_exact(), bias is not None
        z = map_rows(x, w, exact=ctx.exact, bias=bias, relu=True)
        ctx.save_for_backward(x, w, z)
        return z

    @staticmethod
    def backward(ctx, *grads):
        only_once()
        x, w, z = ctx.saved_tensors
        g = torch.empty_like(z)
        dx, sums = slope_rows(grads[0], z, w.mT, g, exact=ctx.exact)
        return dx, _summed(x, g, exact=ctx.exact), sums if ctx.has_bias else None


class _Mixing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, u, attention, maps, output, bias):
        hidden, ctx.exact, ctx.has_bias = output.shape[2], is_exact(), bias is not None
        moved = map_rows(u, maps, exact=ctx.exact)
        read = torch.empty_like(moved[:, :, hidden:], memory_format=torch.contiguous_format)
        mix(attention, moved[:, :, hidden:], read, exact=ctx.exact)
        z = map_rows(read, output, exact=ctx.exact, own=moved[:, :, :hidden], bias=bias, relu=True)
        ctx.save_for_backward(u, attention, maps, output, moved, read, z)
        return z

    @staticmethod
    def backward(ctx, *grads):
        only_once()
        u, attention, maps, output, moved, read, z = ctx.saved_tensors
        hidden, how = output.shape[2], {"exact": ctx.exact}
        right = torch.empty_like(moved)
        g, values = right[:, :, :hidden], moved[:, :, hidden:]
        dread, sums = slope_rows(grads[0], z, output.mT, g, **how)
        heads, nodes = attention.shape[1:3]
        dattention = mixing_gradient(dread, values, heads=heads, nodes=nodes, **how)
        mix(attention, dread, right[:, :, hidden:], backward=True, **how)
        du = map_rows(right, maps.mT, **how) if ctx.needs_input_grad[0] else None
        dmaps, doutput = _summed(u, right, **how), _summed(read, g, **how)
        return du, dattention, dmaps, doutput, sums if ctx.has_bias else None


class _Attending(torch.autograd.Function):
    @staticmethod
    def forward(ctx, u, maps, shift, output, bias, turns, heads, nodes):
        hidden, ctx.has_bias = output.shape[2], bias is not None
        at = maps.shape[2] - output.shape[1]
        kinds = 1 if turns is None else 2  # queries, and keys where they are not u
        attending = Attending(heads, nodes, (at - hidden) // (kinds * heads), at, is_exact(), turns)
        moved = map_rows(u, maps, exact=attending.exact)
        read, weights = attending.read(u, moved, shift)
        z = map_rows(read, output, exact=attending.exact, own=moved[:, :, at - hidden : at], bias=bias, relu=True)
        ctx.save_for_backward(u, maps, shift, output, moved, read, weights, z)
        ctx.attending = attending
        return z

    @staticmethod
    def backward(ctx, *grads):
        only_once()
        u, maps, shift, output, moved, read, weights, z = ctx.saved_tensors
        attending, hidden = ctx.attending, output.shape[2]
        right = torch.empty_like(moved)
        g = right[:, :, attending.values_at - hidden : attending.values_at]
        dread, sums = slope_rows(grads[0], z, output.mT, g, exact=attending.exact)
        keys, dshift = attending.differentiated(u, moved, shift, weights, dread, right)
        du = map_rows(right, maps.mT, exact=attending.exact, own=keys) if ctx.needs_input_grad[0] else None
        dmaps = _summed(u, right, exact=attending.exact)
        doutput = _summed(read, g, exact=attending.exact)
        return du, dmaps, dshift, doutput, sums if ctx.has_bias else None, None, None, None


def mapped(
    x: Float[Tensor, "replicas *rows into"],
    weight: Float[Tensor, "replicas into out"],
    bias: Float[Tensor, "replicas out"] | None,
) -> Float[Tensor, "replicas *rows out"]:
    """relu(x·W + b)."""
    return _Mapped.apply(x.flatten(1, -2).contiguous(), weight, bias).view(*x.shape[:-1], -1)


def mixing_layer(
    u: Float[Tensor, "replicas batch nodes into"],
    attention: Float[Tensor, "replicas heads nodes nodes"],
    maps: Float[Tensor, "replicas into columns"],
    output: Float[Tensor, "replicas values hidden"],
    bias: Float[Tensor, "replicas hidden"] | None,
) -> Float[Tensor, "replicas batch nodes hidden"]:
    """relu(u·M₀ + b + [A_1·u·V_1 | …]·W); `maps`: [M₀ | V_1 | …]."""
    return _Mixing.apply(u.flatten(1, 2).contiguous(), attention, maps, output, bias).view(*u.shape[:3], -1)


def attending_layer(
    u: Float[Tensor, "replicas batch nodes into"],
    maps: Float[Tensor, "replicas into columns"],
    shift: Float[Tensor, "replicas shifts"],
    output: Float[Tensor, "replicas values hidden"],
    bias: Float[Tensor, "replicas hidden"] | None,
    *,
    heads: int,
    turns: Float[Tensor, "2 nodes wide"] | None = None,
) -> Float[Tensor, "replicas batch nodes hidden"]:
    """The same with A_h = softmax((u·N_h + c_h)·uᵀ); `maps`: [N_1 | … | M₀ | V_1 | …], `shift`: [c_1 | …].

    With `turns`, A_h = softmax(R(u·Q_h + q_h)·R(u·K_h + k_h)ᵀ), where R turns a node by its place; `maps` then begins
    with [Q_1 | … | K_1 | …], and `shift` is [q_1 | … | k_1 | …].
    """
    nodes, rows = u.shape[2], u.flatten(1, 2).contiguous()
    turns = None if turns is None else turns.contiguous()
    z = _Attending.apply(rows, maps, shift.contiguous(), output, bias, turns, heads, nodes)
    return z.view(*u.shape[:3], -1)
