"""A plan is a pure function of trials and capacity: every trial once, like with like, no fleet too large to fit."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posattn import PosattnError
from posattn.engine import Capacity, Plan, plan
from posattn.engine.plan import fleet_sizes
from posattn.nn import Standard
from posattn.studies.selection.closed_form import Floor
from posattn.train import Trial, shape_key
from posattn.train.language.trial import LanguageTrial
from posattn.train.runnable import Runnable

from .runs import small_trial

SHAPES: list[dict[str, Any]] = [
    {},
    {"optimiser": {"steps": 5}},
    {"model": Standard(length=5, embed_dim=6, hidden_dim=7, layers=1)},
    {"precision": "float64"},
]


@cache
def pool() -> list[Runnable]:
    """Trials of four shapes, and some that run by themselves."""
    trained = [small_trial(seed=seed, **shape) for seed in range(4) for shape in SHAPES]
    computed = [Floor(width=width, T=8, q=2, d=2) for width in (1, 2)]
    return [*trained, *computed, LanguageTrial(task="mixed-min", samples=3, test_samples=2)]


chosen = st.lists(st.integers(0, len(pool()) - 1), unique=True).map(lambda places: [pool()[at] for at in places])


def ids(trials: Sequence[Runnable]) -> list[str]:
    return [trial.id for trial in trials]


def fleets(found: Plan) -> list[list[str]]:
    return [ids(fleet.trials) for fleet in found.fleets]


@settings(deadline=None, max_examples=60)
@given(trials=chosen, memory=st.integers(3, 40), each=st.integers(1, 3), beside=st.integers(1, 8))
def test_every_trial_is_planned_once_with_its_like_and_within_the_capacity(trials, memory, each, beside):
    found = plan(trials, Capacity(device="cuda", memory=memory, replica_bytes=each, beside=beside))
    assert found == plan(trials, Capacity(device="cuda", memory=memory, replica_bytes=each, beside=beside))
    assert sorted([name for fleet in fleets(found) for name in fleet] + ids(found.alone)) == sorted(ids(trials))
    assert ids(found.alone) == ids([trial for trial in trials if not trial.batched])
    assert found.beside == beside
    for fleet in found.fleets:
        assert len({shape_key(trial) for trial in fleet.trials}) == 1
        assert len(fleet.trials) * each <= memory
        assert fleet.bytes == (len(fleet.trials) * each if fleet.replica_bytes else 0)
    unlimited = plan(trials, Capacity(beside=beside))
    keys = [shape_key(fleet.trials[0]) for fleet in unlimited.fleets]
    assert len(set(keys)) == len(keys)  # one fleet per shape, in the order in which the shapes came in
    assert [name for fleet in fleets(unlimited) for name in fleet] == [
        name for fleet in fleets(found) for name in fleet
    ]
    assert bool(found.notes) == (len(found.fleets) > len(unlimited.fleets))


@settings(deadline=None, max_examples=30)
@given(trials=chosen, taken=st.integers(1, 4))
def test_interrupted_fleets_come_first_and_whole(trials, taken):
    begun = [[small_trial(seed=seed) for seed in range(taken)], [small_trial(seed=9, precision="float64")]]
    found = plan(trials, Capacity(memory=100, replica_bytes=1), interrupted=begun)
    assert fleets(found)[:2] == [ids(group) for group in begun]
    placed = {name for group in begun for name in ids(group)}
    rest = [name for fleet in fleets(found)[2:] for name in fleet] + ids(found.alone)
    assert sorted(rest) == sorted(set(ids(trials)) - placed)


def test_planning_touches_no_device_and_asks_once_per_fleet(monkeypatch):
    def never(*_: Any) -> None:
        raise AssertionError("CUDA was touched")

    for name in ("mem_get_info", "empty_cache", "synchronize", "current_device"):
        monkeypatch.setattr(torch.cuda, name, never)
    asked: list[int] = []

    def measured(trials: Sequence[Trial]) -> int:
        asked.append(len(trials))
        return 4

    found = plan(pool()[:9], Capacity(device="cuda", memory=8, replica_bytes=measured))
    assert asked == [3, 2, 2, 2]
    assert [len(fleet.trials) for fleet in found.fleets] == [2, 1, 2, 2, 2]


def test_the_key_of_a_trial_is_worked_out_once(monkeypatch):
    trials = [small_trial(seed=seed, optimiser={"lr": 0.0123}) for seed in range(3)]
    found: list[str] = []
    family = type(trials[0].model).family
    monkeypatch.setattr(type(trials[0].model), "family", lambda model: found.append("") or family(model))
    for _ in range(2):
        plan(trials, Capacity())
    assert len(found) == 3


def test_a_replica_that_does_not_fit_is_said_with_a_fix():
    with pytest.raises(PosattnError, match="use a smaller batch, or another device"):
        plan([small_trial(seed=seed) for seed in range(2)], Capacity(memory=3, replica_bytes=4))


@given(count=st.integers(0, 400), each=st.integers(1, 50), free=st.integers(0, 300))
def test_fleets_are_few_and_of_almost_equal_size_and_fit(count, each, free):
    if free < each:
        with pytest.raises(PosattnError, match="use a smaller batch, or another device"):
            fleet_sizes(count, each=each, free=free)
        return
    sizes = fleet_sizes(count, each=each, free=free)
    assert sum(sizes) == count
    assert all(1 <= size <= free // each for size in sizes)
    assert count == 0 or max(sizes) - min(sizes) <= 1
    assert (len(sizes) - 1) * (free // each) < count or count == 0  # one fewer would not hold them all
