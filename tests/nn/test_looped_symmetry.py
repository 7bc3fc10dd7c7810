"""Symmetries of looped models hold for any weights: powers of two exactly, other scales and moves up to rounding."""

from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from posattn.nn import LoopedPositionalTransformer

UNIT = 2.0**-53


class Case(NamedTuple):
    """A schedule with all the symmetry it can have; what a step compares, and how many steps follow one another."""

    schedule: str
    translation: str
    length: int
    numbers: int  # in the difference that a step sees
    steps: int


CASES = {
    "scan": Case("scan", "shift", 8, 2, 3),
    "bitonic": Case("bitonic", "shift", 11, 2, 10),
    "shortest paths": Case("pairs", "potential", 9, 3, 3),
    "widest paths": Case("pairs", "shift", 9, 2, 6),
    "tables": Case("grid", "potential", 9, 4, 8),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
few = settings(deadline=None, max_examples=12)


def model(case: Case, seed: int, *symmetry: str) -> LoopedPositionalTransformer:
    generator = torch.Generator().manual_seed(seed)
    return LoopedPositionalTransformer(schedule=case.schedule, symmetry=symmetry, generator=generator).double()


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed + 100))


def inputs(case: Case, seed: int) -> Tensor:
    return draw(2, case.length, 3 if case.schedule == "grid" else 1, seed=seed)


def moves(case: Case, by: float, seed: int) -> tuple[Tensor, Tensor]:
    """What is added to an input, and what to its answer."""
    if case.translation == "shift":
        return torch.full((1, 1, 1), by, dtype=torch.float64), torch.full((1, 1, 1), by, dtype=torch.float64)
    if case.schedule == "pairs":
        u = by * draw(3, seed=seed + 1)
        moved = (u[:, None] - u).reshape(1, 9, 1)
        return moved, moved
    u, added = by * draw(3, 3, seed=seed + 1), torch.zeros(3, 3, 3, dtype=torch.float64)
    for i in range(3):
        for j in range(3):
            for place, (back, aside) in enumerate(((1, 1), (1, 0), (0, 1))):  # across, above, left
                if i >= back and j >= aside:
                    added[i, j, place] = u[i, j] - u[i - back, j - aside]
    added[0, 0, 0] = u[0, 0]
    return added.reshape(1, 9, 3), u.reshape(1, 9, 1)


def rounding(case: Case, made: LoopedPositionalTransformer, largest: float) -> float:
    """How far two evaluations by slopes can be apart whose exact results agree.

    A step is carrier + slope·d, with n numbers in d and up to two in the carrier. From numbers up to M it gives at most
    (2 + n·slope)·M = g·M, enlarges errors by at most g, and rounds n + 4 sums and products of at most g·M. So k steps
    from numbers up to M, each off by u·M, are off by at most g^k·(1 + k·(n + 4))·u·M, and so is the other evaluation.
    Sums along the border of a table grow and round less than steps.
    """
    grown = 2 + case.numbers * made.slopes().abs().max().item()
    return 2 * grown**case.steps * (1 + case.steps * (case.numbers + 4)) * UNIT * largest


@every_case
@few
@given(power=st.integers(-900, 900), seed=st.integers(0, 3), known=st.booleans(), by_slopes=st.booleans())
def test_a_power_of_two_passes_through_exactly(case: Case, power: int, seed: int, known: bool, by_slopes: bool) -> None:
    """With all of the symmetry and, where a step can do without, with scale alone; by slopes and by the MLP."""
    symmetry = ("scale", case.translation) if known or case.schedule == "grid" else ("scale",)
    made, x = model(case, seed, *symmetry), inputs(case, seed)
    with torch.set_grad_enabled(not by_slopes):
        found, wanted = made(torch.ldexp(x, torch.tensor(power))), torch.ldexp(made(x), torch.tensor(power))
    assert torch.equal(found, wanted)


@every_case
@few
@given(exponent=st.floats(-250, 250), seed=st.integers(0, 3))
@torch.no_grad()
def test_any_scale_passes_through_within_its_rounding(case: Case, exponent: float, seed: int) -> None:
    made, x, scale = model(case, seed, "scale", case.translation), inputs(case, seed), 10.0**exponent
    allowed = rounding(case, made, scale * x.abs().max().item()) + 2 * UNIT * scale * made(x).abs().max().item()
    torch.testing.assert_close(made(scale * x), scale * made(x), rtol=0, atol=allowed)


@every_case
@few
@given(
    by=st.one_of(st.floats(-1e12, 1e12), st.floats(-1e-9, 1e-9), st.sampled_from([1e-300, -1e100])),
    power=st.integers(-300, 300),
    seed=st.integers(0, 3),
)
@torch.no_grad()
def test_shifts_and_potentials_pass_through_within_their_rounding(case: Case, by: float, power: int, seed: int) -> None:
    """Of numbers near 1, and of huge and tiny ones."""
    made, scale = model(case, seed, "scale", case.translation), 2.0**power
    x, (added, answered) = scale * inputs(case, seed), moves(case, scale * by, seed)
    largest = x.abs().max().item() + 2 * added.abs().max().item() + answered.abs().max().item()
    allowed = rounding(case, made, largest)
    torch.testing.assert_close(made(x + added), made(x) + answered, rtol=0, atol=allowed)


@torch.no_grad()
@every_case
def test_the_bound_on_rounding_is_small_enough_to_mean_something(case: Case) -> None:
    """A model without the translation is off by far more, at a shift of 1,000."""
    made = model(case, 0, "scale", case.translation)
    added, answered = moves(case, 1000.0, 0)
    x = inputs(case, 0)
    allowed = rounding(case, made, x.abs().max().item() + 3 * added.abs().max().item())
    assert allowed < 1e-2
    assert (made(x + 1.01 * added) - made(x) - answered).abs().max() > 100 * allowed
