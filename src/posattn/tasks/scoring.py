"""How answers are scored unless a task says otherwise, for any number of leading (replica) axes.

Numbers by their squared error, and by the share of samples that are right within a tolerance; classes by cross-entropy,
and by the share that is right.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posattn import checks
from posattn.errors import require

#: A sample counts as solved when every output is within this much of the target, relative plus absolute.
ACCURACY_TOLERANCE = 0.1


def squared_error(prediction: Float[Tensor, "..."], target: Float[Tensor, "..."], *, axes: int) -> Float[Tensor, "..."]:
    """Mean squared error over the last `axes` axes, which are the samples and what each of them holds."""
    return (prediction - target).square().mean(dim=_last(axes))


def known_squared_error(
    prediction: Float[Tensor, "..."], target: Float[Tensor, "..."], *, axes: int
) -> Float[Tensor, "..."]:
    """The same without targets that are NaN."""
    known = ~target.isnan()
    error = torch.where(known, prediction - target, 0.0)  # a prediction that is NaN stays one
    return error.square().sum(dim=_last(axes)) / known.sum(dim=_last(axes))


def relative_rms(
    prediction: Float[Tensor, "..."], target: Float[Tensor, "..."], *, axes: int = 3
) -> Float[Tensor, "..."]:
    """RMS of the error over RMS of the target, both over the last `axes` axes, in float64.

    >>> target = torch.tensor([[[3.0], [4.0]]])
    >>> round(relative_rms(target * 1.5, target).item(), 6)
    0.5
    """
    require(
        prediction.shape == target.shape and target.dim() >= axes,
        f"the prediction has shape {tuple(prediction.shape)} and the target {tuple(target.shape)}: both must have the "
        f"same, of at least {axes} axes.",
    )
    exact = target.double()
    error = (prediction.double() - exact).square().mean(dim=_last(axes))
    return (error / exact.square().mean(dim=_last(axes))).sqrt()


def solved(prediction: Float[Tensor, "..."], target: Float[Tensor, "..."], *, axes: int) -> Float[Tensor, "..."]:
    """The share of samples whose numbers are all within rtol = atol = 0.1 of the target."""
    near = (prediction - target).abs() <= ACCURACY_TOLERANCE * (1 + target.abs())
    return near.flatten(-axes, -1).unflatten(-1, (target.shape[-axes], -1)).all(-1).to(prediction.dtype).mean(-1)


def cross_entropy(logits: Float[Tensor, "..."], target: Int[Tensor, "..."], *, axes: int) -> Float[Tensor, "..."]:
    """Mean over the last `axes` axes of the target; the logits' last axis has one for each class."""
    of_target = logits.log_softmax(-1).gather(-1, target.long().unsqueeze(-1)).squeeze(-1)
    return -of_target.mean(dim=_last(axes))


def share_right(logits: Float[Tensor, "..."], target: Int[Tensor, "..."], *, axes: int) -> Float[Tensor, "..."]:
    """The share of classes for which the largest logit is the right one."""
    return (logits.argmax(-1) == target).to(logits.dtype).mean(dim=_last(axes))


def check_scored(name: str, prediction: Tensor, target: Tensor, *, axes: int) -> None:
    """Prediction and target must agree in shape: what broadcasts would be scored against the wrong numbers."""
    checks.tensor(f"task '{name}': the prediction", prediction)
    checks.tensor(f"task '{name}': the target", target)
    require(
        prediction.is_floating_point() and target.is_floating_point(),
        f"task '{name}': the prediction is {prediction.dtype} and the target {target.dtype}: both are floating point.",
    )
    require(
        prediction.shape == target.shape and target.dim() >= axes,
        f"task '{name}': the prediction has shape {tuple(prediction.shape)} and the target {tuple(target.shape)}: both "
        f"must have the same, of at least {axes} axes.",
    )


def check_classified(name: str, prediction: Tensor, target: Tensor, *, axes: int) -> None:
    """The same for classes: the prediction has one axis more, of logits."""
    checks.tensor(f"task '{name}': the prediction", prediction)
    checks.tensor(f"task '{name}': the target", target)
    require(
        prediction.is_floating_point() and not target.is_complex(),
        f"task '{name}': the prediction is {prediction.dtype} and the target {target.dtype}: logits are floating "
        "point, classes whole numbers.",
    )
    require(
        prediction.shape[:-1] == target.shape and target.dim() >= axes,
        f"task '{name}': the prediction has shape {tuple(prediction.shape)} and the target {tuple(target.shape)}: the "
        "prediction must have one axis more, with a logit for every class.",
    )


def _last(axes: int) -> tuple[int, ...]:
    return tuple(range(-axes, 0))
