"""Products on tensor cores within a Triton kernel: of numbers rounded to TF32, or of float32 from two parts each."""

import triton
import triton.language as tl


def side(size: int) -> int:
    """The least power of two that tensor cores take and that is not smaller."""
    return max(16, triton.next_power_of_2(size))


@triton.jit
def nearest(x):
    """The nearest TF32, for numbers: a GPU's NaN has all bits set, and one more makes it 0."""
    return ((x.to(tl.uint32, bitcast=True) + 0x1000) & 0xFFFFE000).to(tl.float32, bitcast=True)


@triton.jit
def rounded(x, ROUND: tl.constexpr):
    """Float32 to the nearest TF32 where asked to; NaN stays as it is.

    Tensor cores would cut float32 off instead, and numbers that are all cut towards 0 make every sum too small.
    """
    if ROUND:
        x = tl.where(x == x, nearest(x), x)
    return x


@triton.jit
def dot(x, y, total, EXACT: tl.constexpr):
    """total + x·y of float32: each factor rounded to TF32, or with what rounding leaves over as a second part.

    The parts hold 11 and 12 of 24 bits. Tensor cores cut one bit off the second, and its product with the other's
    second part is left out: errors of 2⁻²³ and 2⁻²⁴. What is left over of a NaN is NaN.
    """
    if EXACT:
        first, other = nearest(x), nearest(y)
        total = tl.dot(x - first, other, total, input_precision="tf32")
        total = tl.dot(first, y - other, total, input_precision="tf32")
        return tl.dot(first, other, total, input_precision="tf32")
    return tl.dot(rounded(x, True), rounded(y, True), total, input_precision="tf32")
