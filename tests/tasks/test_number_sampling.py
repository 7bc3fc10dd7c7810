"""Sub-intervals are drawn as if in the redraw loop, and the numbers lie in them."""

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from posattn.errors import PosattnError
from posattn.tasks.number_sampling import sample_intervals, sample_numbers, sample_uniform

LOW, HIGH = -6.0, 6.0
AVOIDS = {
    "middle": (-2.0, 2.0),
    "over the low end": (-9.0, 1.0),
    "over the high end": (1.0, 9.0),
    "all but a twelfth": (-5.0, 6.0),
    "elsewhere": (7.0, 9.0),
    "touching": (6.0, 9.0),
}
COUNT = 200_000


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def redrawn(avoid: tuple[float, float], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The rule as the paper words it: draw two endpoints, draw both again while both lie in `avoid`."""
    rng = np.random.default_rng(seed)
    ends = rng.uniform(LOW, HIGH, (COUNT, 2))
    while (again := ((ends >= avoid[0]) & (ends <= avoid[1])).all(axis=1)).any():
        ends[again] = rng.uniform(LOW, HIGH, (int(again.sum()), 2))
    return ends.min(axis=1), ends.max(axis=1)


def chi_square_bound(freedom: int) -> float:
    """Laurent and Massart: a χ² variable exceeds k + 2√(kt) + 2t with probability at most e⁻ᵗ; here t = 9, 1e-4."""
    return freedom + 2 * math.sqrt(9 * freedom) + 18


@pytest.mark.parametrize("avoid", AVOIDS.values(), ids=AVOIDS.keys())
def test_rule_without_loop_has_the_distribution_of_redrawing(avoid: tuple[float, float]) -> None:
    start, end = sample_intervals(COUNT, low=LOW, high=HIGH, avoid=avoid, generator=seeded())
    # Edges of the cells at the avoided part's ends too, else a shift of mass across them could hide in one cell.
    edges = np.unique([*np.linspace(LOW, HIGH, 16), *np.clip(avoid, LOW, HIGH)])
    ours, _, _ = np.histogram2d(start[:, 0].numpy(), end[:, 0].numpy(), bins=(edges, edges))
    theirs, _, _ = np.histogram2d(*redrawn(avoid, seed=1), bins=(edges, edges))
    total = ours + theirs
    assert ours.sum() == theirs.sum() == COUNT
    cells = total >= 10
    statistic = ((ours - theirs)[cells] ** 2 / total[cells]).sum()
    assert statistic < chi_square_bound(int(cells.sum()) - 1)
    assert total[~cells].sum() < 10 * (~cells).sum()


@pytest.mark.parametrize("avoid", [(-2.0, 2.0), (-9.0, 1.0), (-5.9, 6.0)])
def test_share_with_one_endpoint_in_avoid_is_2p_over_1_plus_p(avoid: tuple[float, float]) -> None:
    p = (min(HIGH, avoid[1]) - max(LOW, avoid[0])) / (HIGH - LOW)
    expected = 2 * p * (1 - p) / (1 - p * p)
    ends = torch.cat(sample_intervals(COUNT, low=LOW, high=HIGH, avoid=avoid, generator=seeded(2)), dim=1)
    one_inside = ((ends >= avoid[0]) & (ends <= avoid[1])).sum(1) == 1
    deviation = math.sqrt(expected * (1 - expected) / COUNT)
    assert abs(one_inside.double().mean().item() - expected) < 4 * deviation


@settings(deadline=None, max_examples=150)
@given(data=st.data(), dtype=st.sampled_from([torch.float32, torch.float64]), seed=st.integers(0, 10**6))
def test_no_interval_lies_inside_avoid_or_leaves_the_range(data: st.DataObject, dtype: torch.dtype, seed: int) -> None:
    small, large = 2.0**-100, 2.0**100
    # Values of float32, so that both dtypes can hold them.
    number = st.one_of(*[st.floats(-size, size, width=32) for size in (8.0, small, large)])
    low, high = sorted(data.draw(st.lists(number, min_size=2, max_size=2, unique=True)))
    bottom, top = sorted(data.draw(st.lists(number, min_size=2, max_size=2, unique=True)))
    if bottom <= low and high <= top:  # leave one float over
        kind = np.float32 if dtype == torch.float32 else np.float64
        top = float(np.nextafter(kind(high), kind(low)))
        assume(bottom < top)
    start, end = sample_intervals(199, low=low, high=high, avoid=(bottom, top), generator=seeded(seed), dtype=dtype)
    assert not bool(((start >= bottom) & (end <= top)).any())
    assert bool(((start >= low) & (start <= end) & (end <= high)).all())


def test_draw_takes_three_uniforms_a_sample_however_little_is_left() -> None:
    generator, counted = seeded(), seeded()
    sample_intervals(997, low=-1e6, high=1e6, avoid=(-1e6, 999_999.9), generator=generator)
    torch.rand(3, 997, 1, generator=counted)
    assert torch.equal(generator.get_state(), counted.get_state())


@pytest.mark.parametrize("side", ["below", "above"])
def test_part_one_float_wide_is_still_found(side: str) -> None:
    # Half of low + step · u rounds to the avoided side; without care half the draws would end up inside.
    low, high = -10.0, 10.0
    step = float(np.spacing(np.float32(10)))
    avoid = (low + step, high) if side == "below" else (low, high - step)
    start, end = sample_intervals(4999, low=low, high=high, avoid=avoid, generator=seeded())
    assert bool((start == low).all()) if side == "below" else bool((end == high).all())


def test_numbers_are_uniform_in_the_interval_drawn_for_them() -> None:
    count, nodes, bins = 7, 100_003, 50
    settings_ = {"low": LOW, "high": HIGH, "avoid": (-2.0, 2.0), "dtype": torch.float64}
    start, end = sample_intervals(count, **settings_, generator=seeded(3))
    x = sample_numbers(count, nodes, **settings_, integers=False, generator=seeded(3))
    share = (x - start) / (end - start)
    assert share.min() >= 0
    assert share.max() <= 1
    for row in share:
        found = torch.histc(row, bins=bins, min=0, max=1)
        statistic = ((found - nodes / bins) ** 2 / (nodes / bins)).sum()
        assert statistic < chi_square_bound(bins - 1)


@settings(deadline=None, max_examples=100)
@given(
    ends=st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=2, max_size=2, unique=True),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    seed=st.integers(0, 10**6),
)
def test_numbers_stay_in_the_range(ends: list[float], dtype: torch.dtype, seed: int) -> None:
    low, high = sorted(ends)
    x = sample_numbers(101, 7, low=low, high=high, avoid=None, integers=False, generator=seeded(seed), dtype=dtype)
    assert x.dtype == dtype
    assert x.shape == (101, 7)
    assert bool(((x >= low) & (x <= high)).all())


def test_float64_numbers_use_the_digits_that_float32_lacks() -> None:
    x = sample_numbers(11, 7, low=-2.0, high=2.0, avoid=None, integers=False, generator=seeded(), dtype=torch.float64)
    assert bool((x != x.float().double()).any(dim=1).all())


def test_integers_are_every_whole_number_from_low_to_high_less_one() -> None:
    x = sample_numbers(101, 13, low=-3.0, high=4.0, avoid=None, integers=True, generator=seeded(), dtype=torch.float32)
    assert x.dtype == torch.float32
    assert set(x.flatten().tolist()) == {-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"low": 2.0, "high": 2.0}, ["low=2.0, high=2.0", "low < high"]),
        ({"low": 3.0}, ["low=3.0, high=2.0", "low < high"]),
        ({"low": -math.inf}, ["low=-inf", "must be finite"]),
        ({"high": math.nan}, ["high=nan", "must be finite"]),
        ({"high": 1e39}, ["high=1e+39", "finite in torch.float32"]),
        ({"low": -3e38, "high": 3e38}, ["low=-3e+38, high=3e+38", "its width must be finite"]),
        ({"low": 1.0, "high": 1.0 + 1e-12}, ["high=1.000000000001", "in torch.float32, with low < high"]),
        ({"avoid": (-2.0, 2.0)}, ["avoid=(-2.0, 2.0)", "covers the whole range [-2.0, 2.0]", "Widen the range"]),
        ({"avoid": (-math.inf, math.inf)}, ["avoid=(-inf, inf)", "nothing is left to draw"]),
        ({"avoid": (-2.0, 2.0 - 1e-12)}, ["covers the whole range", "Widen the range"]),
        ({"avoid": (1.0, -1.0)}, ["avoid=(1.0, -1.0)", "low end must be below its high end"]),
        ({"avoid": (1.0, 1.0)}, ["avoid=(1.0, 1.0)", "low end must be below its high end"]),
        ({"dtype": torch.int64}, ["dtype=torch.int64", "floating point", "Use torch.float32"]),
        ({"integers": True, "low": 0.5}, ["low=0.5", "both must be whole"]),
        ({"integers": True, "low": 2.0}, ["low=2.0, high=2.0", "low < high"]),
        ({"integers": True, "high": math.inf}, ["high=inf", "both must be whole"]),
        ({"integers": True, "avoid": (0.0, 1.0)}, ["avoid=(0.0, 1.0)", "integers are drawn without one"]),
    ],
)
def test_range_that_cannot_be_drawn_from_is_refused(change: dict, said: list[str]) -> None:
    asked = {"low": -2.0, "high": 2.0, "avoid": None, "integers": False, "dtype": torch.float32} | change
    with pytest.raises(PosattnError) as refused:
        sample_numbers(3, 5, **asked, generator=seeded())
    for words in said:
        assert words in str(refused.value)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_uniform_numbers_fill_the_whole_range_evenly(dtype: torch.dtype) -> None:
    x = sample_uniform(100, 11, 13, low=LOW, high=HIGH, generator=seeded(), dtype=dtype)
    assert x.shape == (100, 11, 13)
    assert x.dtype == dtype
    found = np.histogram(x.numpy(), bins=12, range=(LOW, HIGH))[0]
    assert found.sum() == x.numel()
    assert ((found - x.numel() / 12) ** 2 / (x.numel() / 12)).sum() < chi_square_bound(11)


def test_uniform_numbers_of_an_empty_range_are_refused() -> None:
    with pytest.raises(PosattnError, match=r"low=2\.0, high=2\.0: .*low < high"):
        sample_uniform(3, low=2.0, high=2.0, generator=seeded(), dtype=torch.float32)
