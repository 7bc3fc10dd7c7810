"""What a replica learns from: its own samples, each once an epoch, in an order of its own."""

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor

from posattn import tasks
from posattn.train import Trial
from posattn.train.fleet.data import FleetData, LengthData
from posattn.train.fleet.evaluate import FleetTests
from posattn.train.random_streams import stream

from .small import small_trial

CPU = torch.device("cpu")


def data_of(*trials: Trial) -> FleetData:
    return FleetData(list(trials), device=CPU, dtype=torch.float64)


def part_of(*trials: Trial) -> LengthData:
    return data_of(*trials).parts[0]


def epochs(part: LengthData, count: int, replica: int = 0) -> list[list[Tensor]]:
    """The inputs of each batch that a replica meets, by epoch."""
    each = part.counts[replica] // part.batch
    met = []
    for visit in range(count * each):
        part.prepare(visit)
        met.append(part.take(torch.tensor(visit)).inputs[0][replica].clone())
    return [met[start : start + each] for start in range(0, len(met), each)]


def rows(batches: list[Tensor]) -> list[tuple[float, ...]]:
    return [tuple(row) for row in torch.cat(batches).flatten(1).tolist()]


def test_every_sample_is_met_once_an_epoch():
    part = part_of(small_trial())
    samples = sorted(rows([part.tensors[0][0]]))
    assert len(set(samples)) == 24
    for epoch in epochs(part, 3):
        assert [len(batch) for batch in epoch] == [6] * 4
        assert sorted(rows(epoch)) == samples


def test_what_does_not_fill_a_batch_is_dropped_and_another_epoch_drops_others():
    part = part_of(small_trial(data={"samples": 27}))
    samples = set(rows([part.tensors[0][0]]))
    met = [rows(epoch) for epoch in epochs(part, 8)]
    assert all(len(set(epoch)) == len(epoch) == 24 and set(epoch) < samples for epoch in met)
    assert set.union(*map(set, met)) == samples


def test_shuffles_differ_between_epochs_and_between_seeds():
    assert len({tuple(rows(epoch)) for epoch in epochs(part_of(small_trial(seed=7)), 3)}) == 3
    part = part_of(*(small_trial(seed=seed) for seed in (7, 8, 7)))
    part.prepare(0)
    assert not torch.equal(part.order[0], part.order[1])
    assert torch.equal(part.order[0], part.order[2])


def test_samples_are_those_of_the_task_for_the_seed():
    trial = small_trial(task="sort", seed=9, data={"options": {"length": 5, "low": -1.0, "high": 3.0}})
    part = part_of(trial)
    x, y = tasks.get("sort").sample(24, length=5, low=-1.0, high=3.0, generator=stream(9, "data", 0))
    assert torch.equal(part.tensors[0][0], x.double())
    assert torch.equal(part.tensors[1][0], y.double())
    assert not torch.equal(part_of(dataclasses.replace(trial, seed=10)).tensors[0], part.tensors[0])


def test_fresh_data_is_drawn_anew_every_epoch():
    fixed, fresh = (epochs(part_of(small_trial(data={"fresh": f})), 4) for f in (False, True))
    assert len({row for epoch in fixed for row in rows(epoch)}) == 24
    assert len({row for epoch in fresh for row in rows(epoch)}) == 4 * 24
    for number, epoch in enumerate(fresh):
        x, _ = tasks.get("sum").sample(24, length=5, generator=stream(0, "data", number))
        assert torch.equal(torch.cat(epoch), x.double())


def test_take_is_indexing_by_hand_with_its_target_beside_it():
    trials = [
        small_trial(task=task, seed=k, data={"samples": n}) for k, (task, n) in enumerate([("sum", 13), ("sort", 30)])
    ]
    part = part_of(*trials)
    for visit in range(17):
        part.prepare(visit)
        batch = part.take(torch.tensor(visit))
        for replica, per_epoch in enumerate((2, 5)):
            place = visit % per_epoch * 6
            chosen = part.order[replica, place : place + 6].tolist()
            assert torch.equal(batch.inputs[0][replica], torch.stack([part.tensors[0][replica, c] for c in chosen]))
            target = tasks.get(trials[replica].task).target(batch.inputs[0][replica])
            torch.testing.assert_close(batch.target[replica], target, rtol=0, atol=1e-6)


def test_inputs_of_several_tensors_stay_together():
    part = part_of(small_trial(task="mixed-sum", data={"options": {}}, seed=4))
    part.prepare(0)
    characters, numbers = part.take(torch.tensor(2)).inputs
    assert characters.dtype == torch.int64
    assert numbers.dtype == torch.float64
    inputs = tasks.MixedInputs(characters[0], numbers[0].float())
    torch.testing.assert_close(tasks.get("mixed-sum").target(inputs).double(), part.take(torch.tensor(2)).target[0])


@pytest.mark.parametrize("fields", [{}, {"fresh": True}, {"lengths": (2, 3), "options": {}}], ids=str)
def test_companions_change_nothing_of_a_replicas_data(fields):
    trial = small_trial(seed=3, data=fields)
    others = [small_trial(task="sort", seed=s, data=fields | {"samples": n}) for s, n in ((1, 60), (3, 31))]
    alone, together = data_of(trial), data_of(others[0], trial, others[1])
    for step in range(40):
        met = []
        for data in (alone, together):
            number, visit = data.turn(step), data.given(step)[data.turn(step)]
            data.parts[number].prepare(visit)
            met.append((number, data.parts[number].take(torch.tensor(visit))))
        assert met[0][0] == met[1][0]
        assert torch.equal(met[0][1].inputs[0][0], met[1][1].inputs[0][1])
        assert torch.equal(met[0][1].target[0], met[1][1].target[1])


LENGTHS = (2, 3, 5, 4)


def with_lengths(samples: int, **fields: Any) -> Trial:
    return small_trial(data={"samples": samples, "batch": 6, "lengths": LENGTHS, "options": {}}, **fields)


def test_lengths_have_equal_shares():
    trial = with_lengths(103)
    data = data_of(trial)
    assert (trial.data.share, trial.data.batches) == (25, 16)
    assert [part.tensors[0].shape for part in data.parts] == [(1, 25, length, 1) for length in LENGTHS]
    for start in range(0, 160, trial.data.batches):
        turns = [data.turn(step) for step in range(start, start + trial.data.batches)]
        assert [turns.count(part) for part in range(4)] == [4] * 4


def test_the_length_of_a_batch_is_a_function_of_the_step_alone():
    fleets = [[with_lengths(48)], [with_lengths(99, seed=5, task="min")], [with_lengths(48), with_lengths(480, seed=1)]]
    turns = [[data.turn(step) for step in range(200)] for data in (data_of(*trials) for trials in fleets)]
    assert turns[0] == turns[1] == turns[2]
    cycles = {tuple(turns[0][start : start + 4]) for start in range(0, 200, 4)}
    assert len(cycles) > 10  # of 24 orders


@pytest.mark.parametrize("trial", [small_trial(), with_lengths(48), with_lengths(60)])
def test_what_was_given_before_a_step_is_what_a_replay_gives(trial):
    data, count = data_of(trial), [0] * max(1, len(trial.data.lengths))
    for step in range(50):
        assert data.given(step) == count
        count[data.turn(step)] += 1
    assert data_of(trial).given(37) == data.given(37)


def test_each_length_meets_each_of_its_samples_once_an_epoch():
    trial = with_lengths(48)  # 12 a length: two batches each
    data = data_of(trial)
    for epoch in range(3):
        met: list[list[tuple[float, ...]]] = [[] for _ in LENGTHS]
        for step in range(8 * epoch, 8 * epoch + 8):
            number, visit = data.turn(step), data.given(step)[data.turn(step)]
            data.parts[number].prepare(visit)
            met[number] += rows([data.parts[number].take(torch.tensor(visit)).inputs[0][0]])
        assert [sorted(found) for found in met] == [sorted(rows([part.tensors[0][0]])) for part in data.parts]


def test_lengths_and_purposes_draw_from_streams_of_their_own():
    data, sets = data_of(with_lengths(48)), FleetTests([small_trial()], device=CPU, dtype=torch.float64)
    firsts = [part.tensors[0][0, 0, 0].item() for part in data.parts]
    firsts += [part_of(small_trial()).tensors[0][0, 0, 0].item()]
    firsts += [tensors[0][0, start, 0].item() for _, tensors in sets.groups for start in (0, 11)]
    assert len(set(firsts)) == len(firsts) == 7


def test_a_stream_is_named_by_seed_purpose_and_index():
    names = [(1, "data", 0), (1, "data", 1), (2, "data", 0), (1, "shuffle", 0), (11, "data", 0), (1, "1/data", 0)]
    seeds = [stream(*name).initial_seed() for name in names]
    assert len(set(seeds)) == len(names)
    assert stream(1, "data", 1).initial_seed() == seeds[1]
    assert all(0 <= seed < 2**63 for seed in seeds)
