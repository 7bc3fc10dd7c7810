"""How numeric inputs are drawn: iid numbers in a random sub-interval of [low, high]."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from posattn.checks import number, switch
from posattn.errors import require
from posattn.tasks.base import check_dtype


def sample_intervals(
    count: int,
    *,
    low: float,
    high: float,
    avoid: tuple[float, float] | None,
    generator: torch.Generator,
    dtype: torch.dtype = torch.float32,
) -> tuple[Float[Tensor, "count 1"], Float[Tensor, "count 1"]]:
    """Two uniform endpoints in [low, high], redrawn while both lie in `avoid`.

    The redraw rule is sampled without a loop. Let p be the share of [low, high] that `avoid` covers. Given that not
    both endpoints fall into it, the first lies outside with probability (1 − p)/(1 − p²) = 1/(1 + p), and then the
    second is free; else the first is inside and the second outside. Three uniforms a sample, whatever p is.
    """
    low, high = checked_range(low, high, dtype)
    first, second, coin = torch.rand(3, count, 1, generator=generator, device=generator.device, dtype=dtype)
    overlap = None if avoid is None else _overlap(low, high, avoid, dtype)
    a, b = _between(low, high, first), _between(low, high, second)
    if overlap is not None:
        start, end = overlap
        a_outside = coin < 1 / (1 + (end - start) / (high - low))
        a = torch.where(a_outside, _outside(first, low, high, start, end), _between(start, end, first))
        b = torch.where(a_outside, b, _outside(second, low, high, start, end))
    return torch.minimum(a, b), torch.maximum(a, b)


def checked_range(low: float, high: float, dtype: torch.dtype) -> tuple[float, float]:
    """Both ends, rounded to dtype."""
    low, high = number("low", low), number("high", high)
    asked = f"low={low}, high={high}"
    low, high = _rounded(low, dtype), _rounded(high, dtype)
    require(
        math.isfinite(low) and low < high and math.isfinite(_rounded(high - low, dtype)),
        f"{asked}: the range and its width must be finite in {dtype}, with low < high.",
    )
    return low, high


def sample_uniform(
    *size: int, low: float, high: float, generator: torch.Generator, dtype: torch.dtype
) -> Float[Tensor, "..."]:
    """iid uniforms in the whole of [low, high]."""
    check_dtype(dtype)
    low, high = checked_range(low, high, dtype)
    return _between(low, high, torch.rand(*size, generator=generator, device=generator.device, dtype=dtype))


def sample_numbers(
    count: int,
    nodes: int,
    *,
    low: float,
    high: float,
    avoid: tuple[float, float] | None,
    integers: bool,
    generator: torch.Generator,
    dtype: torch.dtype,
) -> Float[Tensor, "count nodes"]:
    """`nodes` iid uniforms in each sample's sub-interval, or iid integers in low … high − 1."""
    check_dtype(dtype)
    low, high = number("low", low), number("high", high)
    if switch("integers", integers):
        require(
            low < high and float(low).is_integer() and float(high).is_integer(),
            f"low={low}, high={high}: integers are drawn from low … high − 1, so both must be whole and low < high.",
        )
        require(
            avoid is None,
            f"avoid={avoid}: the redraw rule speaks of sub-intervals, and integers are drawn without one.",
        )
        size = (count, nodes)
        return torch.randint(int(low), int(high), size, generator=generator, device=generator.device).to(dtype)
    start, end = sample_intervals(count, low=low, high=high, avoid=avoid, generator=generator, dtype=dtype)
    # lerp measures from the nearer end, so that no rounding leads out of [start, end].
    u = torch.rand(count, nodes, generator=generator, device=generator.device, dtype=dtype)
    return torch.lerp(start, end, u)


def _rounded(value: float, dtype: torch.dtype) -> float:
    return torch.tensor(value, dtype=dtype).item()


def _overlap(low: float, high: float, avoid: tuple[float, float], dtype: torch.dtype) -> tuple[float, float] | None:
    """Where `avoid` starts and ends within [low, high], if it meets it."""
    require(
        isinstance(avoid, (tuple, list)) and len(avoid) == 2,
        f"avoid={avoid!r}: it must be a pair, the low end and the high end of what is avoided.",
    )
    avoid = number("the low end of avoid", avoid[0]), number("the high end of avoid", avoid[1])
    require(avoid[0] < avoid[1], f"avoid={avoid}: its low end must be below its high end.")
    start, end = max(low, _rounded(avoid[0], dtype)), min(high, _rounded(avoid[1], dtype))
    require(
        (start, end) != (low, high),
        f"avoid={avoid} covers the whole range [{low}, {high}], so nothing is left to draw. "
        "Widen the range or leave avoid out.",
    )
    return (start, end) if start <= end else None


def _between(low: float, high: float, u: Tensor) -> Tensor:
    return (low + (high - low) * u).clamp(low, high)


def _outside(u: Tensor, low: float, high: float, start: float, end: float) -> Tensor:
    """Uniform on [low, start) ∪ (end, high], from u uniform on [0, 1).

    Next to a large number a small step rounds away: the clamps keep even a part one float wide out of [start, end].
    """
    below, above = start - low, high - end
    edges, ways = torch.tensor([[start, end], [-math.inf, math.inf]], dtype=u.dtype)
    before, after = torch.nextafter(edges, ways).tolist()
    v = (below + above) * u
    left, right = (low + v).clamp(max=before), (end + (v - below)).clamp(min=after, max=high)
    return torch.where(u < below / (below + above), left, right)
