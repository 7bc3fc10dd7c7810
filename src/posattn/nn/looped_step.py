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
    """Fixed combinations of the numbers that a step reads: (batch, m, values, width) → (batch, m, rows, width).

    Sums with the factors ±1 are written out, so that nothing is rounded but the sums themselves.
    """
    found = []
    for row in rows:
        terms = [
            values[:, :, place] if factor == 1 else values[:, :, place] * float(factor)
            for place, factor in sorted(enumerate(row), key=lambda entry: entry[1] < 0)
            if factor
        ]
        total = terms[0] if terms else torch.zeros_like(values[:, :, 0])
        for term in terms[1:]:
            total = total + term
        found.append(total)
    return torch.stack(found, dim=2)


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


def sloped_step(slopes: Tensor, kinds: Sequence[tuple[Sequence[Row], Row]], roles: Sequence[int]) -> Step:
    """carrier + up·relu(d) + down·relu(−d): the step of an MLP without biases that sees one number, d.

    `slopes`: (up, down) for every role of every kind of step; `kinds`: the invariant and the carrier of each.
    """

    def step(values: Tensor, kind: int, role: Tensor | int) -> Tensor:
        invariants, carrier = kinds[kind]
        seen = combined(values, invariants).squeeze(2)
        up, down = slopes[role + sum(roles[:kind])].unbind(-1)
        moved = seen.relu() * up[..., None] + (-seen).relu() * down[..., None]
        return combined(values, (carrier,)).squeeze(2) + moved

    return step
