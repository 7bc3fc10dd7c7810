"""The last digits of a looped model, by Levenberg and Marquardt's method in float64.

Adam stops at some ε that its step size and float32 set. The step has a few numbers to get right and exact answers
exist, so Newton-like steps end where rounding does. With residuals r(θ) = answers − targets and their Jacobian J,

    θ ← θ − (Jᵀ·J + λI)⁻¹·Jᵀ·r = θ − Jᵀ·(J·Jᵀ + λI)⁻¹·r        by whichever matrix is smaller,

and λ falls tenfold after a step that lowers Σr², and grows tenfold, with the step undone, after one that does not.
Many weights lead to one step; λ keeps θ near where it was among them.
"""

import copy
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import functional_call, jacrev

from posattn.checks import finite, instance, tensor, whole
from posattn.errors import PosattnError, require
from posattn.nn import LoopedPositionalTransformer

#: λ relative to the largest diagonal entry: the first, the least, and the one at which the error has stopped falling.
FIRST, LEAST, MOST = 1e-3, 1e-14, 1e3
#: Rows of the Jacobian that are computed at once.
CHUNK = 64


def polish(
    model: LoopedPositionalTransformer, sample: tuple[Tensor, Tensor], *, steps: int = 60
) -> LoopedPositionalTransformer:
    """The model in float64, with weights that fit a sample until the error stops falling, or for so many steps.

    `sample`: inputs (batch, length, in_dim) and what `model(x, every=True)` should answer to them, with NaN for
    answers that count for nothing. Compute both in float64: the model gets no more digits than its targets have. A
    dozen inputs of length 8 are enough. The model that was passed stays as it is.
    """
    instance("model", model, LoopedPositionalTransformer, fix="pass a looped model, as posattn.load(file) gives it")
    steps = whole("steps", steps, least=1)
    polished = copy.deepcopy(model).double()
    names = [name for name, _ in polished.named_parameters()]
    shapes = [parameter.shape for parameter in polished.parameters()]
    off = _residuals(polished, sample, names, shapes)
    weights = torch.cat([parameter.detach().flatten() for parameter in polished.parameters()])
    best, error, damping = weights, float(off(weights).square().sum()), FIRST
    for _ in range(steps):
        slope, residual = _jacobian(off, best), off(best).detach()
        while damping <= MOST:
            tried = best - _step(slope, residual, damping)
            found = float(off(tried).detach().square().sum())
            if found < error:
                break
            damping *= 10
        else:
            break
        best, error, damping = tried, found, max(damping / 10, LEAST)
    parts = best.split([shape.numel() for shape in shapes])
    polished.load_state_dict({n: part.view(s) for n, part, s in zip(names, parts, shapes, strict=True)})
    return polished


def _residuals(
    model: LoopedPositionalTransformer, sample: tuple[Tensor, Tensor], names: list[str], shapes: list[torch.Size]
) -> Callable[[Tensor], Tensor]:
    """Answers minus targets where there are some, as a function of all weights in a row."""
    if not isinstance(sample, tuple) or len(sample) != 2:
        raise PosattnError(f"the sample is a {type(sample).__name__}: give inputs and targets, as (x, model_answers).")
    device = model.logits.device
    x, target = (tensor(name, one).to(device, torch.float64) for name, one in zip(("x", "target"), sample, strict=True))
    finite("x", x)
    require(x.numel() > 0, f"x has shape {tuple(x.shape)}: there is no input to fit. Give a dozen.")
    with torch.no_grad():
        shape = model(x, every=True).shape
    require(
        target.shape == shape,
        f"the targets have shape {tuple(target.shape)}, and the answers after all iterations {tuple(shape)}: give a "
        "target for each, NaN where there is none.",
    )
    scored = ~target.isnan()
    require(bool(scored.any()), "all targets are NaN: there is nothing to fit.")
    wanted = finite("target", target[scored])

    def off(weights: Tensor) -> Tensor:
        parts = weights.split([shape.numel() for shape in shapes])
        held = {name: part.view(shape) for name, part, shape in zip(names, parts, shapes, strict=True)}
        return functional_call(model, held, (x,), {"every": True})[scored] - wanted

    return off


def _jacobian(off: Callable[[Tensor], Tensor], weights: Tensor) -> Float[Tensor, "residuals weights"]:
    found = jacrev(off, chunk_size=CHUNK)(weights)
    assert isinstance(found, Tensor)
    return found.detach()


def _step(slope: Float[Tensor, "residuals weights"], residual: Tensor, damping: float) -> Tensor:
    """(JᵀJ + λI)⁻¹ Jᵀr, by the smaller of the two matrices."""
    wide = slope.shape[0] < slope.shape[1]
    matrix = slope @ slope.T if wide else slope.T @ slope
    by = damping * matrix.diagonal().max().clamp(min=1e-300)
    damped = matrix + by * torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    given = residual if wide else slope.T @ residual
    found = torch.linalg.solve(damped, given)
    return slope.T @ found if wide else found
