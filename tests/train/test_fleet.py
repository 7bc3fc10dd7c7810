"""Replica k of a fleet gives the result of trial k alone, whoever its companions are."""

import dataclasses
import math
import threading
from typing import Any

import pytest
import torch

from offsets import offset
from posattn.nn import GPTArchitecture, Hybrid, MixedPositional, MixedStandard, Positional, RandomPlaces, Standard
from posattn.nn.fast import positional
from posattn.train import Fleet, Trial
from posattn.train.fleet import cpu, fleet

from .small import SHARP, SUMMANDS, difference, identical, score_difference, shaken, small_trial, trained

#: Everything that may differ in a fleet does. A plateau of little patience gives each replica a rate of its own.
TASKS = [("sum", {}), ("min", {}), ("median", {}), ("sort", {}), ("max-subarray", {}), ("sum", {"cumulative": False})]
PLATEAU = {"steps": 100, "schedule": "plateau", "patience": 1, "factor": 0.8}
SEVEN = [
    small_trial(
        task=task,
        task_options=options,
        seed=seed,
        model=Positional(length=5, embed_dim=6, hidden_dim=7, layers=1, bias=seed % 3 != 1),
        data={"samples": 13 + 6 * seed, "options": {"length": 5, "low": -1.0 - seed}},
        optimiser=PLATEAU | {"lr": 3e-3 * (1 + seed)},
    )
    for seed, (task, options) in enumerate([*TASKS, TASKS[0]])
]


@pytest.fixture(scope="module")
def alone() -> list[Fleet]:
    """Each of the seven, trained by itself."""
    return [trained([trial]) for trial in SEVEN]


@pytest.fixture(scope="module")
def seven_shaken() -> Fleet:
    return shaken(SEVEN)


def assert_equal_alone(together: Fleet, alone: list[Fleet], moved: Fleet) -> None:
    """They agree but for roundings, which travel as far as those travel that `moved` was shaken with."""
    for single in alone:
        replica, other = together.trials.index(single.trials[0]), moved.trials.index(single.trials[0])
        limit = SUMMANDS * difference(together.weights(replica), moved.weights(other))
        assert difference(together.weights(replica), single.weights(0)) <= limit < SHARP
        scores = together.scores()[replica]
        largest = max(abs(value) for score in scores.values() for value in score if math.isfinite(value))
        unit = torch.finfo(torch.float64).eps
        limit = SUMMANDS * (score_difference(scores, moved.scores()[other]) + unit * largest)
        assert score_difference(scores, single.scores()[0]) <= limit < SHARP * largest


@pytest.mark.xdist_group("seven")
def test_the_seven_learn_and_the_plateau_takes_their_rates_apart(alone):
    for trial, single in zip(SEVEN, alone, strict=True):
        first = trained([trial], until=trial.data.batches)  # one epoch
        assert single.scores()[0]["train"].loss < 0.8 * first.scores()[0]["train"].loss
    lowered = {(single.schedule.state["rate"] / single.schedule.rates).item() for single in alone}
    assert min(lowered) < 0.5
    assert len(lowered) >= 4


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_every_parameter_of_every_chunk_lies_as_aligned_as_a_tensor_of_its_own(precision, monkeypatch):
    monkeypatch.setattr(fleet, "chunk_size", lambda *_: 2)
    made = Fleet([dataclasses.replace(trial, precision=precision) for trial in SEVEN], device="cpu")
    learned = [chunk[name] for chunk in made.parameters.chunks for name in made.parameters.shapes]
    assert len(made.parameters.chunks) == 4
    assert {offset(tensor) for tensor in learned} == {0}


@pytest.mark.xdist_group("seven")
@pytest.mark.parametrize("chunk", [7, 2])
def test_a_trial_alone_and_in_a_fleet_of_seven_agree(chunk, alone, seven_shaken, monkeypatch):
    monkeypatch.setattr(fleet, "chunk_size", lambda *_: chunk)
    together = trained(SEVEN)
    assert together.parameters.spans == {7: [(0, 7)], 2: [(0, 2), (2, 4), (4, 6), (6, 7)]}[chunk]
    assert_equal_alone(together, alone, seven_shaken)


@pytest.mark.xdist_group("seven")
def test_the_order_of_the_trials_does_not_matter(alone, seven_shaken):
    assert_equal_alone(trained([SEVEN[k] for k in (3, 6, 0, 5, 2, 4, 1)]), alone, seven_shaken)


def test_chunks_hold_as_many_numbers_as_they_may_and_share_the_cores(monkeypatch):
    numbers = SEVEN[0].data.batch * 6 * 7  # batch × nodes × hidden_dim
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    for limit, replicas, expected in [
        (3 * numbers, 7, 3),
        (3 * numbers - 1, 7, 2),
        (1, 7, 1),
        (10**9, 7, 4),
        (10**9, 1, 1),
    ]:
        monkeypatch.setattr(cpu, "CHUNK_NUMBERS", limit)
        assert cpu.chunk_size(SEVEN[0], replicas, torch.zeros) == expected  # any function will do
    whole = positional.factored(Positional())
    assert [cpu.chunk_size(SEVEN[0], replicas, whole) for replicas in (1, 2, 7)] == [1, 1, 4]


def test_chunks_count_the_nodes_of_samples_where_a_model_knows_far_more_places(monkeypatch):
    lengths, model = (1, 3), RandomPlaces(length=1000, embed_dim=6, hidden_dim=7, layers=1, encoding="sinusoidal")
    data = {"batch": 11, "lengths": lengths, "options": {"places": 1000}}
    trial = small_trial(task="sum", model=model, data=data)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    monkeypatch.setattr(cpu, "CHUNK_NUMBERS", 11 * 3 * 7 * 4)  # batch × nodes × hidden_dim × replicas
    assert cpu.chunk_size(trial, 5, torch.zeros) == 4


@pytest.fixture
def two_threads() -> None:
    """As on a machine with two cores; tests otherwise keep to one."""
    torch.set_num_threads(2)


def in_chunks_of_two(patch: pytest.MonkeyPatch) -> Fleet:
    patch.setattr(fleet, "chunk_size", lambda *_: 2)
    return trained([small_trial(seed=seed) for seed in range(5)])


def test_threads_change_no_bit_of_the_weights_and_leave_the_process_as_it_was(monkeypatch):
    """Chunks are the same and each is one thread's, so every sum has one order."""
    torch.set_num_threads(1)
    serial = in_chunks_of_two(monkeypatch)
    torch.set_num_threads(2)
    threaded = in_chunks_of_two(monkeypatch)
    assert serial.workers.pool is None
    assert threaded.workers.pool is not None
    assert torch.equal(serial.parameters.values, threaded.parameters.values)
    assert torch.get_num_threads() == 2
    scores = serial.scores()[4]  # both with two threads, of equal weights
    assert score_difference(scores, threaded.scores()[4]) == 0


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("before", [False, True])
def test_tiny_numbers_count_as_nothing_while_a_fleet_trains_and_not_after(monkeypatch, threads, before):
    seen = []
    differentiate = Fleet._differentiate

    def watching(self: Fleet, batch: Any, chunk: int) -> None:
        seen.append((threading.current_thread() is threading.main_thread(), cpu.flushes_tiny_numbers()))
        differentiate(self, batch, chunk)

    monkeypatch.setattr(Fleet, "_differentiate", watching)
    torch.set_num_threads(threads)
    torch.set_flush_denormal(before)
    try:
        made = in_chunks_of_two(monkeypatch)
        assert cpu.flushes_tiny_numbers() is before
        forward = made.passes.predict

        def scoring(*given: Any) -> torch.Tensor:
            seen.append((threads == 1, cpu.flushes_tiny_numbers()))
            return forward(*given)

        monkeypatch.setattr(made.passes, "predict", scoring)
        made.scores()
        assert cpu.flushes_tiny_numbers() is before
    finally:
        torch.set_flush_denormal(False)
    assert set(seen) == {(threads == 1, True)}


def test_an_error_in_a_thread_is_raised(two_threads, monkeypatch):
    broken = Fleet([small_trial(seed=seed) for seed in range(2)], device="cpu")

    def failing(*_: Any) -> torch.Tensor:
        raise RuntimeError("no loss")

    monkeypatch.setattr(broken.passes, "loss", failing)
    with pytest.raises(RuntimeError, match="no loss"):
        next(broken.run())
    assert torch.get_num_threads() == 2


def assert_agree(trials: list[Trial], monkeypatch: pytest.MonkeyPatch) -> None:
    """Three trials, each alone, and as a fleet of which the first two share a chunk."""
    singles = [trained([trial]) for trial in trials]
    monkeypatch.setattr(fleet, "chunk_size", lambda *_: 2)
    together = trained(trials)
    assert together.parameters.spans == [(0, 2), (2, 3)]
    assert_equal_alone(together, singles, shaken(trials))


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("lengths", [(), (2, 3, 5)])
def test_they_agree_with_variable_lengths_and_with_fresh_data(lengths, fresh, monkeypatch):
    options = {} if lengths else {"length": 5}
    trials = [
        small_trial(
            task=task,
            seed=seed,
            bias=bool(seed),
            data={"samples": samples, "options": options, "lengths": lengths, "fresh": fresh},
            optimiser=PLATEAU | {"steps": 24, "lr": 1e-2 / (1 + seed)},
        )
        for seed, (task, samples) in enumerate([("sum", 63), ("sort", 20), ("min", 41)])
    ]
    assert_agree(trials, monkeypatch)


KHOP: dict[str, Any] = {
    "task_options": {"characters": 9},
    "data": {"samples": 13, "options": {}},
    "optimiser": {"steps": 8, "name": "adamw", "lr": 5e-4, "betas": (0.9, 0.95), "weight_decay": 0.1, "clip": 1.0},
    "evaluation": {"sets": {"same letters": {}, "other letters": {"held_out": True}}},
}
#: Batches of two numbers each go layer by layer, longer ones by tables.
PLACED: dict[str, Any] = {
    "data": {"samples": 51, "batch": 17, "lengths": (2, 3, 5), "options": {"places": 7}},
    "evaluation": {"sets": {"long": {"places": 7, "length": 7}}},
}
MIXED: dict[str, Any] = {
    "data": {"samples": 13, "options": {"high": 5.0}},
    "optimiser": {"steps": 6, "schedule": "one-cycle"},
    "evaluation": {"sets": {"far": {"high": 10.0, "held_out": True}}},
}
OTHERS: dict[str, tuple[list[str], Any, dict[str, Any]]] = {
    "standard": (["sum", "sort"], Standard(length=5, embed_dim=6, hidden_dim=7, layers=2), {}),
    "rotary": (["min", "max"], Standard(length=5, embed_dim=8, hidden_dim=7, layers=1, rotary=True), {}),
    "hybrid": (["sum", "max"], Hybrid(length=5, embed_dim=6, hidden_dim=7, layers=2), {}),
    "random encoding": (
        ["sum", "max"],
        Positional(length=5, embed_dim=6, layers=1, encoding="stochastic", encoding_dim=3),
        {},
    ),
    "random places": (
        ["sum", "sort"],
        RandomPlaces(length=7, embed_dim=6, hidden_dim=6, layers=2, encoding="sinusoidal", encoding_dim=4, bias=False),
        PLACED,
    ),
    "gpt": (["khop", "khop"], GPTArchitecture(length=10, embed_dim=6, layers=2), KHOP),
    "positional gpt": (["khop", "khop"], GPTArchitecture(length=10, embed_dim=6, layers=2, positional=True), KHOP),
    "mixed positional": (["mixed-min", "mixed-sum"], MixedPositional(embed_dim=6, hidden_dim=7, layers=1), MIXED),
    "mixed standard": (["mixed-min", "mixed-multitask"], MixedStandard(embed_dim=6, hidden_dim=7, layers=1), MIXED),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_they_agree_for_every_kind_of_model(kind, monkeypatch):
    names, model, fields = OTHERS[kind]
    trials = [small_trial(task=name, model=model, seed=seed, **fields) for seed, name in enumerate([*names, names[0]])]
    assert_agree(trials, monkeypatch)


def test_half_precision_stays_near_single():
    """Gradients of some ten products, each rounded by 2⁻⁸: a tenth of what was learned, were all of it to add up."""
    start, single, half = (
        trained([small_trial(precision=precision, optimiser={"name": "sgd"})], until=steps)
        for precision, steps in (("float32", 0), ("float32", 12), ("bf16", 12))
    )
    learned = (single.parameters.values - start.parameters.values).norm()
    assert 0 < (half.parameters.values - single.parameters.values).norm() < 0.1 * learned
    assert all(tensor.dtype == torch.float32 for tensor in half.weights(0).values())


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_products_of_fewer_bits_that_the_process_allows_do_not_reach_a_fleet(precision, monkeypatch):
    """As `torch.set_float32_matmul_precision("medium")` allows them, which some processors then take."""
    mkldnn: Any = torch.backends.mkldnn
    places = [mkldnn.matmul, mkldnn.conv, mkldnn.rnn]
    before, seen = [place.fp32_precision for place in places], []
    made = Fleet([small_trial(precision=precision)], device="cpu")
    for name in ("gradient", "predict"):
        own = getattr(made.passes, name)
        monkeypatch.setattr(
            made.passes, name, lambda *args, own=own: (seen.append([x.fp32_precision for x in places]), own(*args))[1]
        )
    try:
        for place in places:
            place.fp32_precision = "bf16"
        next(iter(made.run()))
        made.scores()
        assert len(seen) >= 2
        assert seen == [["ieee"] * 3] * len(seen)
        assert [place.fp32_precision for place in places] == ["bf16"] * 3
    finally:
        for place, held in zip(places, before, strict=True):
            place.fp32_precision = held


def test_a_run_in_pieces_is_the_run_in_one():
    whole, pieces = trained([small_trial()]), Fleet([small_trial()], device="cpu")
    assert [list(pieces.run(until)) for until in (0, 3, 3, 11, None, None)] == [
        [], [1, 2, 3], [], list(range(4, 12)), list(range(12, 21)), []
    ]  # fmt: skip
    assert identical(whole.weights(0), pieces.weights(0))
