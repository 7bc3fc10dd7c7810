"""Learning rates over time are torch's, with a rate, an epoch and a plateau for each replica."""

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler, MultiStepLR, OneCycleLR, ReduceLROnPlateau

from posattn.train import Optimiser
from posattn.train.fleet.schedule import Schedule

RATES = [1e-3, 0.5, 2e-4]


def schedule_of(o: Optimiser, rates: Sequence[float] = RATES, batches: Sequence[int] = (1, 1, 1)) -> Schedule:
    return Schedule(o, torch.tensor(rates, dtype=torch.float64), torch.tensor(batches))


def rates_of(o: Optimiser, rates: Sequence[float] = RATES) -> list[list[float]]:
    """The rates at every step, as a fleet asks for them."""
    schedule = schedule_of(o, rates)
    return [schedule.rate(torch.tensor(step)).tolist() for step in range(o.steps)]


def torch_optimiser(lr: float) -> torch.optim.SGD:
    return torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=lr)


def rates_of_torch(optimiser: torch.optim.SGD, scheduler: LRScheduler, steps: int) -> list[float]:
    found = []
    for step in range(steps):
        found.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        if step + 1 < steps:
            scheduler.step()
    return found


#: A loss counts as better from 1e-4, relatively, below the best on: some lie on either side of that.
epoch_loss = st.floats(0.5, 1.5) | st.sampled_from([1.0, 0.99995, 0.9998, 0.99975, math.nan, math.inf])


@settings(deadline=None)
@given(
    losses=st.lists(st.lists(epoch_loss, min_size=3, max_size=3)),
    patience=st.integers(0, 3),
    factor=st.sampled_from([0.1, 0.5, 0.9]),
    floor=st.sampled_from([0.0, 1e-4, 3e-4]),
)
def test_the_plateau_is_that_of_torch_epoch_by_epoch(losses, patience, factor, floor):
    o = Optimiser(steps=10, schedule="plateau", patience=patience, factor=factor, floor=floor)
    mine = schedule_of(o)
    optimisers = [torch_optimiser(lr) for lr in RATES]
    theirs = [ReduceLROnPlateau(one, factor=factor, patience=patience, min_lr=floor, eps=0) for one in optimisers]
    for step, epoch in enumerate(losses):
        mine.observe(torch.tensor(step), torch.tensor(epoch, dtype=torch.float64))
        for scheduler, loss in zip(theirs, epoch, strict=True):
            scheduler.step(loss)
        expected = [one.param_groups[0]["lr"] for one in optimisers]
        assert mine.rate(torch.tensor(step + 1)).tolist() == pytest.approx(expected, rel=1e-12)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), batches=st.lists(st.integers(1, 5), min_size=3, max_size=3))
def test_an_epoch_is_as_long_as_the_replicas_own_data_and_its_mean_counts(seed, batches):
    draws = torch.rand(60, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    o = Optimiser(steps=60, schedule="plateau", patience=1, factor=0.5, floor=0.0)
    mine = schedule_of(o, batches=batches)
    optimisers = [torch_optimiser(lr) for lr in RATES]
    theirs = [ReduceLROnPlateau(one, factor=0.5, patience=1, eps=0) for one in optimisers]
    last = [math.nan] * 3
    for step in range(60):
        mine.observe(torch.tensor(step), draws[step])
        for replica, length in enumerate(batches):
            if (step + 1) % length == 0:
                last[replica] = math.fsum(draws[step + 1 - length : step + 1, replica].tolist()) / length
                theirs[replica].step(last[replica])
        expected = [one.param_groups[0]["lr"] for one in optimisers]
        assert mine.rate(torch.tensor(step + 1)).tolist() == pytest.approx(expected, rel=1e-12)
        assert mine.state["last_epoch_loss"].tolist() == pytest.approx(last, rel=1e-12, nan_ok=True)
    assert mine.rate(torch.tensor(60)).max() < 0.5


@given(st.integers(1, 30), st.floats(0, 0.999), st.floats(0.01, 0.99))
def test_a_drop_is_one_milestone_of_torch(steps, share, factor):
    o = Optimiser(steps=steps, schedule="drop", decay_from=share, factor=factor)
    mine = rates_of(o)
    for replica, lr in enumerate(RATES):
        theirs = torch_optimiser(lr)
        first = math.ceil(share * steps)
        expected = rates_of_torch(theirs, MultiStepLR(theirs, [first] if first else [], gamma=factor), steps)
        expected = expected if first else [rate * factor for rate in expected]
        assert [rates[replica] for rates in mine] == pytest.approx(expected, rel=1e-12)


def test_a_loss_that_is_better_by_too_little_is_not_better():
    mine = schedule_of(Optimiser(steps=10, schedule="plateau", patience=1, factor=0.5))
    for step, shares in enumerate([(1, 1, 1), (1 - 5e-5, 1 - 2e-4, 0.9), (1 - 9e-5, 1 - 4e-4, 0.9)]):
        mine.observe(torch.tensor(step), torch.tensor(shares, dtype=torch.float64))
    assert mine.rate(torch.tensor(3)).tolist() == [RATES[0] / 2, RATES[1], RATES[2]]


def test_a_floor_above_the_rate_never_raises_it():
    mine = schedule_of(Optimiser(steps=10, schedule="plateau", patience=0, floor=0.1))
    for step in range(6):
        mine.observe(torch.tensor(step), torch.ones(3, dtype=torch.float64))
    assert mine.rate(torch.tensor(6)).tolist() == pytest.approx([1e-3, 0.5 * 0.9**5, 2e-4], rel=1e-12)


def test_an_epoch_with_nan_ends_with_it():
    """One step's NaN spoils one epoch's mean, not those after it."""
    mine = schedule_of(Optimiser(steps=10), batches=(2, 2, 2))
    for step, loss in enumerate([1.0, math.nan, 3.0, 5.0]):
        mine.observe(torch.tensor(step), torch.full((3,), loss, dtype=torch.float64))
    assert mine.state["last_epoch_loss"].tolist() == [4.0] * 3


@pytest.mark.parametrize("steps", [1, 2, 10, 101])
def test_the_cosine_is_that_of_torch(steps):
    found = rates_of(Optimiser(steps=steps, schedule="cosine"))
    for replica, lr in enumerate(RATES):
        optimiser = torch_optimiser(lr)
        expected = rates_of_torch(optimiser, CosineAnnealingLR(optimiser, steps), steps)
        assert [rates[replica] for rates in found] == pytest.approx(expected, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 5, 10, 101])
def test_one_cycle_is_that_of_torch(steps):
    found = rates_of(Optimiser(steps=steps, schedule="one-cycle"))
    for replica, lr in enumerate(RATES):
        optimiser = torch_optimiser(lr)
        scheduler = OneCycleLR(optimiser, lr, total_steps=steps, cycle_momentum=False)
        expected = rates_of_torch(optimiser, scheduler, steps)
        assert [rates[replica] for rates in found] == pytest.approx(expected, rel=1e-9, abs=1e-15)
    if steps == 101:
        assert max(rates[1] for rates in found) == pytest.approx(0.5, rel=1e-3)
        assert found[0][1] == pytest.approx(0.5 / 25)
        assert found[-1][1] == pytest.approx(0.5 / 250_000)


@pytest.mark.parametrize("decay_from", [0.0, 0.25, 0.8])
@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_decay_begins_where_it_should_and_leads_to_zero(schedule, decay_from):
    o = Optimiser(steps=40, schedule=schedule, decay_from=decay_from)
    for step, rates in enumerate(rates_of(o)):
        late = max(0.0, (step - 40 * decay_from) / (40 - 40 * decay_from))
        share = 1 - late if schedule == "linear" else (1 + math.cos(math.pi * late)) / 2
        assert rates == pytest.approx([lr * share for lr in RATES], rel=1e-12)
    assert schedule_of(o).rate(torch.tensor(40)).tolist() == pytest.approx([0, 0, 0], abs=1e-15)


@pytest.mark.parametrize("schedule", ["constant", "plateau", "linear", "cosine", "one-cycle"])
def test_warm_up_rises_in_equal_steps_on_top_of_any_schedule(schedule):
    plain, warm = (rates_of(Optimiser(steps=30, schedule=schedule, warmup=warmup)) for warmup in (0, 8))
    for step in range(30):
        assert warm[step] == pytest.approx([lr * min(1.0, (step + 1) / 8) for lr in plain[step]], rel=1e-12)


def test_a_constant_rate_is_constant_whatever_the_loss_does():
    mine = schedule_of(Optimiser(steps=100, patience=0))
    for step in range(20):
        mine.observe(torch.tensor(step), torch.ones(3, dtype=torch.float64))
        assert mine.rate(torch.tensor(step)).tolist() == RATES
