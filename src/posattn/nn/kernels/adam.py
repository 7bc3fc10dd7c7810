"""One step of Adam or AdamW for all replicas as one Triton kernel: every number is read and written once."""

import triton
import triton.language as tl
from jaxtyping import Bool, Float
from torch import Tensor

#: Numbers that a program takes.
BLOCK = 1024


@triton.jit
def _adam(
    values_pointer, grad_pointer, first_pointer, second_pointer, rate_pointer, alive_pointer, decayed_pointer,
    shrunk_pointer, total, new1, beta2, new2, eps, decay,
    DECAY: tl.constexpr, DECOUPLED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    replica = tl.program_id(1).to(tl.int64)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside, at = i < total, replica * total + i
    alive = tl.load(alive_pointer + replica) != 0
    rate = tl.where(alive, tl.load(rate_pointer + replica), 0.0)
    # A dead replica's gradient may be NaN, and NaN times 0 is NaN: it is replaced, not scaled.
    grad = tl.where(alive, tl.load(grad_pointer + at, mask=inside, other=0.0), 0.0)
    values = tl.load(values_pointer + at, mask=inside, other=0.0)
    if DECAY:
        decayed = tl.load(decayed_pointer + i, mask=inside, other=0.0)
        if DECOUPLED:
            values -= values * decayed * (rate * decay)
        else:
            grad += values * decayed * decay
    first = tl.load(first_pointer + at, mask=inside, other=0.0)
    first += (grad - first) * new1
    second = tl.load(second_pointer + at, mask=inside, other=0.0) * beta2 + grad * grad * new2
    tl.store(first_pointer + at, first, mask=inside)
    tl.store(second_pointer + at, second, mask=inside)
    scale, shrunk = rate / tl.load(shrunk_pointer), tl.load(shrunk_pointer + 1)
    values -= first * scale / (tl.sqrt_rn(second / shrunk) + eps)
    tl.store(values_pointer + at, values, mask=inside)


def adam_(
    values: Float[Tensor, "replicas total"],
    grad: Float[Tensor, "replicas total"],
    first: Float[Tensor, "replicas total"],
    second: Float[Tensor, "replicas total"],
    *,
    rate: Float[Tensor, " replicas"],
    alive: Bool[Tensor, " replicas"],
    shrunk: Float[Tensor, "2"],
    betas: tuple[float, float],
    eps: float,
    decayed: Float[Tensor, " total"] | None,
    decay: float,
    decoupled: bool,
) -> None:
    """Change values and both moments; a replica that is not alive keeps its values.

    `shrunk` is 1 − β₁ᵗ and 1 − β₂ᵗ. `decayed` is 1 where the weight decay applies, which is `decoupled` in AdamW.
    """
    replicas, total = values.shape
    beta1, beta2 = betas
    _adam[(triton.cdiv(total, BLOCK), replicas)](
        values, grad, first, second, rate, alive, values if decayed is None else decayed, shrunk,
        total, 1 - beta1, beta2, 1 - beta2, eps, decay, DECAY=decayed is not None, DECOUPLED=decoupled, BLOCK=BLOCK,
    )  # fmt: skip
