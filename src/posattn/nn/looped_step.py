"""How a step of a looped model is evaluated: sums of what it reads, in pieces that fit in a cache, or by its slopes."""

from collections.abc import Sequence

import torch
from torch import Tensor

from posattn import checks
from posattn.errors import PosattnError
from posattn.nn.module import values_known
from posattn.nn.schedules import Schedule, Step
from posattn.nn.symmetry import Row


def check_input(wiring: Schedule, x: Tensor) -> None:
    """Shape, dtype and length always, and values where they are known."""
    if x.dim() != 3 or x.shape[2] != wiring.in_dim or x.shape[1] < 1:
        raise PosattnError(
            f"the input has shape {tuple(x.shape)}: the model takes (batch, length, {wiring.in_dim}), with at least "
            "one node."
        )
    if not x.is_floating_point():
        raise PosattnError(f"the input has dtype {x.dtype}, not floating point: use x.float().")
    wiring.check(x.shape[1])
    most = torch.finfo(x.dtype).max / 4
    if values_known(x) and not (x.abs() <= most).all():
        checks.finite("the input", x)
        raise PosattnError(
            f"the input holds {float(x.abs().max()):.3g}: sums and differences of such numbers overflow in {x.dtype}. "
            "Scale it down."
        )


def combined(values: Tensor, rows: Sequence[Row]) -> Tensor:
    """Fixed combinations of the numbers that a step reads: (batch, m, values, width) → (batch, m, rows, width)."""
    return torch.stack([total(values, row) for row in rows], dim=2)


def total(values: Tensor, row: Row) -> Tensor:
    """One fixed combination: (batch, m, values, width) → (batch, m, width).

    Sums with the factors ±1 are written out, so that nothing is rounded but the sums themselves.
    """
    terms = [
        values[:, :, place] if factor == 1 else values[:, :, place] * float(factor)
        for place, factor in sorted(enumerate(row), key=lambda entry: entry[1] < 0)
        if factor
    ]
    found = terms[0] if terms else torch.zeros_like(values[:, :, 0])
    for term in terms[1:]:
        found = found + term
    return found


def chunked(step: Step, numbers: int) -> Step:
    """The step over so many numbers at a time, where no gradient is needed."""

    def in_pieces(values: Tensor, kind: int, role: Tensor | int) -> Tensor:
        size = max(1, numbers // max(1, values.shape[0]))
        if torch.is_grad_enabled() or not values_known(values) or values.shape[1] <= size:
            return step(values, kind, role)
        found = torch.empty_like(values[:, :, 0])
        for start in range(0, values.shape[1], size):
            part = slice(start, start + size)
            found[:, part] = step(values[:, part], kind, role if isinstance(role, int) else role[part])
        return found

    return in_pieces


def way_to_the_other(slopes: Tensor) -> tuple[Tensor, Tensor]:
    """The slopes of a step, (roles, 2), as a nearer candidate and a small rest.

    With d = other − own, own + up·relu(d) + down·relu(−d) goes the share `up` of the way to the other candidate where
    d > 0, and the share −down where d < 0. Returned are whether the other candidate is the nearer one, and what is left
    of the way from the nearer one: at most half of it where the step stays between the two.
    """
    shares = slopes * slopes.new_tensor([1.0, -1.0])
    nearer = shares > 0.5
    return nearer, shares - nearer.to(shares.dtype)


def sloped_step(
    slopes: Tensor,
    kinds: Sequence[tuple[Sequence[Row], Row]],
    roles: Sequence[int],
    dtype: torch.dtype,
) -> Step:
    """carrier + up·relu(d) + down·relu(−d): the step of an MLP without biases that sees one number, d.

    `slopes`: (up, down) for every role of every kind of step; `kinds`: the invariant and the carrier of each.

    The sum would lose what a large carrier does not hold of a small answer: from an absent edge of weight 128 to a path
    of length 1, float32 has 17 of 24 bits left. So it starts from the nearer of the two candidates, carrier and
    carrier + d (`way_to_the_other`): a step that chooses one of them returns it as it is. d itself comes from what was
    read, not from the candidates, which may have lost it.
    """
    nearer, rest = way_to_the_other(slopes)
    rest = rest.to(dtype)
    rows = [
        (carrier, tuple(a + b for a, b in zip(carrier, invariant, strict=True)), invariant)
        for (invariant,), carrier in kinds
    ]

    def step(values: Tensor, kind: int, role: Tensor | int) -> Tensor:
        own, other, d = (total(values, row) for row in rows[kind])
        place = role + sum(roles[:kind])
        above, below = ((nearer[place, sign].unsqueeze(-1), rest[place, sign].unsqueeze(-1)) for sign in (0, 1))
        base = torch.where(torch.where(d < 0, below[0], above[0]), other, own)
        return torch.addcmul(base, torch.where(d < 0, below[1], above[1]), d)

    return step
