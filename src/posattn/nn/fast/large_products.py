"""Large float32 products on a CPU by oneDNN, which PyTorch brings along beside MKL and multiplies with only rarely.

MKL keeps its AVX-512 code for Intel's processors: on AMD's with AVX-512, oneDNN takes less than half as long. On
Intel's own, MKL is the faster one, and multiplies all. `torch.backends.mkldnn.enabled = False` leaves all to it
everywhere.
"""

import platform
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor

#: Multiply-adds of one replica's product, and its shortest side, from which on oneDNN's call (10 to 20 µs) pays.
LARGE, LONG = 2**22, 16
#: Whether this build of PyTorch has oneDNN, and with it the call that multiplies matrices as they lie.
HAS_ONEDNN = hasattr(torch.ops.mkldnn, "_linear_pointwise")


def product(
    x: Float[Tensor, "replicas rows inner"],
    y: Float[Tensor, "replicas inner columns"],
    plus: Float[Tensor, "replicas rows_or_1 columns"] | None = None,
) -> Float[Tensor, "replicas rows columns"]:
    """x·y + plus, each replica's own; `plus` may be one row for all."""
    if is_large(x, y):
        return _Large.apply(x, y, plus)
    return torch.bmm(x, y) if plus is None else torch.baddbmm(plus, x, y)


def plus_product(
    total: Float[Tensor, "replicas rows columns"],
    x: Float[Tensor, "replicas rows inner"],
    y: Float[Tensor, "replicas inner columns"],
) -> Float[Tensor, "replicas rows columns"]:
    """total + x·y, and `total` may be used up: for backward passes written by hand."""
    return product(x, y, total) if is_large(x, y) else total.baddbmm_(x, y)


def is_large(x: Float[Tensor, "replicas rows inner"], y: Float[Tensor, "replicas inner columns"]) -> bool:
    """Whether oneDNN takes this product."""
    sides = *x.shape[1:], y.shape[2]
    if len(x) == 0 or min(sides) < LONG or sides[0] * sides[1] * sides[2] < LARGE:
        return False
    if x.device.type != "cpu" or not x.dtype == y.dtype == torch.float32 or torch.is_autocast_enabled("cpu"):
        return False
    if not (HAS_ONEDNN and torch.backends.mkldnn.enabled) or "GenuineIntel" in processor():
        return False
    return torch.backends.cpu.get_cpu_capability().startswith("AVX")


@cache
def processor() -> str:
    """What the system says of its first processor, its maker among it."""
    try:
        with open("/proc/cpuinfo") as cpuinfo:
            return cpuinfo.read(1000)
    except OSError:  # not Linux
        return platform.processor()


class _Large(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, plus):
        ctx.save_for_backward(x, y)
        ctx.plus = None if plus is None else plus.shape
        shape, products = (*x.shape[:2], y.shape[2]), []
        for replica, (rows, columns) in enumerate(zip(x, y.mT, strict=True)):
            if not (columns.is_contiguous() or columns.mT.is_contiguous()):
                columns = columns.contiguous()  # what lies in another way, oneDNN multiplies number by number
            if plus is None or plus.shape[1] == 1:
                row = None if plus is None else plus[replica, 0].contiguous()
                products.append(torch.ops.mkldnn._linear_pointwise(rows, columns, row, "none", [], ""))
            else:
                products.append(torch.ops.mkldnn._linear_pointwise(rows, plus[replica], columns, None, "add"))
        # One replica's product is not copied, and not a view: its caller may change it in place.
        return torch.ops.aten._unsafe_view(products[0], shape) if len(products) == 1 else torch.stack(products)

    @staticmethod
    def backward(ctx, *grads):
        x, y = ctx.saved_tensors
        (g,) = grads
        return (
            product(g, y.mT) if ctx.needs_input_grad[0] else None,
            product(x.mT, g) if ctx.needs_input_grad[1] else None,
            g.sum_to_size(ctx.plus) if ctx.needs_input_grad[2] else None,
        )
