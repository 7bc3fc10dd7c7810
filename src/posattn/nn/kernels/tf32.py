"""Rounding to TF32 within a Triton kernel."""

import triton
import triton.language as tl


@triton.jit
def rounded(x, ROUND: tl.constexpr):
    """Float32 to the nearest TF32 where asked to.

    Tensor cores would cut float32 off instead, and numbers that are all cut towards 0 make every sum too small. A GPU's
    NaN has all bits set, and one more makes it 0: it stays as it is.
    """
    if ROUND:
        bits = x.to(tl.uint32, bitcast=True)
        nearest = ((bits + 0x1000) & 0xFFFFE000).to(tl.float32, bitcast=True)
        x = tl.where(x == x, nearest, x)
    return x
