"""What a homogeneous model's error at unit scale says about every other scale.

The positional Transformer without biases has f(c·x) = c·f(x), and so do the tasks sum, min, max, median, sort and
max-subarray. On inputs scaled by c its squared error is exactly c² times what it was. The tests of the papers redraw an
input while its sub-interval lies inside the training range; seen at unit scale, those are the inputs whose sub-interval
does not lie inside ±high/c. An interval lies inside with probability 1/c², so the error is at most c²/(1 − 1/c²) =
c⁴/(c² − 1) times the unit error.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

import torch

from posattn import checks, tasks
from posattn.errors import require
from posattn.nn import Model, PositionalTransformer

#: Tasks that scale with their input.
TASKS = ("sum", "min", "max", "median", "sort", "max-subarray")


@dataclass(frozen=True)
class Interval:
    """An estimate and its confidence interval."""

    value: float
    low: float
    high: float

    def times(self, factor: float) -> "Interval":
        return Interval(factor * self.value, factor * self.low, factor * self.high)


@dataclass(frozen=True)
class Prediction:
    """The error at scale c, predicted from errors at unit scale."""

    scale: float
    scaled: Interval  # inputs c·x, x from the training range: exactly c² times the unit error
    redrawn: Interval  # inputs redrawn by the papers' rule
    redrawn_at_most: float  # c⁴/(c² − 1) times the unit error's upper end


def redraw_factor(scale: float) -> float:
    """c⁴/(c² − 1): how much larger than the unit error the error at scale c can be under the redraw rule."""
    scale = checks.real("c", scale)
    require(scale > 1, f"c={scale}: the redraw rule is for scales above 1.")
    return scale**4 / (scale**2 - 1)


def predict(
    model: PositionalTransformer,
    task: str,
    *,
    scale: float,
    generator: torch.Generator,
    samples: int = 10_000,
    high: float = 2.0,
    confidence: float = 0.99,
) -> Prediction:
    """The error on [−c·high, c·high] from inputs in [−high, high] alone."""
    _check(model, task, scale, samples, high, confidence)
    sizes = model.architecture
    require(
        not sizes.bias and sizes.constants is None,
        "the model is not homogeneous (it has biases or constants): its error at another scale does not follow from "
        "its error at this one. Build it with bias=False.",
    )
    unit = _errors(model, task, samples, generator, low=-high, high=high)
    inner = high / scale
    outside = _errors(model, task, samples, generator, low=-high, high=high, avoid=(-inner, inner))
    mean = interval(unit, confidence)
    return Prediction(
        scale,
        mean.times(scale**2),
        interval(outside, confidence).times(scale**2),
        redraw_factor(scale) * mean.high,
    )


def measure(
    model: PositionalTransformer,
    task: str,
    *,
    scale: float,
    generator: torch.Generator,
    samples: int = 10_000,
    high: float = 2.0,
    confidence: float = 0.99,
) -> Interval:
    """The error on [−c·high, c·high] by the redraw rule, measured there."""
    _check(model, task, scale, samples, high, confidence)
    options = {"low": -scale * high, "high": scale * high, "avoid": (-high, high)}
    return interval(_errors(model, task, samples, generator, **options), confidence)


def _check(model: Model, task: str, scale: float, samples: int, high: float, confidence: float) -> None:
    checks.instance("model", model, PositionalTransformer, fix="errors at other scales follow for positional models")
    redraw_factor(scale)
    checks.choice("task that scales with its input", task, TASKS)
    require(checks.whole("samples", samples) >= 2, f"samples={samples}: a confidence interval needs at least two.")
    require(checks.real("high", high) > 0, f"high={high}: inputs lie in ±high, above 0.")
    _check_confidence(confidence)


def _check_confidence(confidence: float) -> None:
    require(0 < checks.real("confidence", confidence) < 1, f"confidence={confidence}: it must lie in (0, 1).")


@torch.no_grad()
def _errors(
    model: PositionalTransformer, task: str, samples: int, generator: torch.Generator, **options: object
) -> torch.Tensor:
    """Every sample's mean squared error."""
    length = model.architecture.length
    x, y = tasks.get(task).sample(samples, length=length, generator=generator, **options)
    held = next(model.parameters())
    return (model(x.to(held)) - y.to(held)).double().square().mean(dim=(1, 2))


def interval(values: torch.Tensor, confidence: float) -> Interval:
    """The mean, with a confidence interval by the central limit theorem."""
    _check_confidence(confidence)
    checks.tensor("values", values)
    require(
        values.dim() == 1 and len(values) >= 2 and values.is_floating_point(),
        f"values of shape {tuple(values.shape)}, {values.dtype}: give two numbers or more, floating point.",
    )
    checks.finite("values", values)
    mean = float(values.mean())
    half = NormalDist().inv_cdf((1 + confidence) / 2) * float(values.std()) / math.sqrt(len(values))
    return Interval(mean, max(0.0, mean - half), mean + half)
