"""Trials are sorted into fleets that fit the device, each trained once; the rows say how."""

import json
import threading
from typing import Any

import pytest
import torch

import posattn
from posattn import PosattnError, engine
from posattn.engine import local, training
from posattn.engine.interrupt import Stop
from posattn.engine.plan import Plan, plan
from posattn.engine.side_by_side import SideBySide
from posattn.nn import GPTArchitecture, Positional, Standard
from posattn.train import Checkpoints, Fleet, Trial
from posattn.train.fleet.memory import bytes_per_replica

from .runs import MODEL, Noting, run, small_trial, weights_of

CUDA = torch.device("cuda")


def with_memory(patch: pytest.MonkeyPatch, *, free: int, each: int) -> list[Trial]:
    """Pretend that a GPU has so many bytes free and that a replica takes so many; gives the trials asked about."""
    asked: list[Trial] = []
    patch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 2 * free))
    patch.setattr(local, "bytes_per_replica", lambda trial, device, together: asked.append(trial) or each)
    return asked


def planned(trials: list[Trial]) -> Plan:
    return plan(trials, local.LocalEngine(CUDA).capacity())


class Turns(SideBySide):
    """In place of fleets that take turns: says when they were to end."""

    def __init__(self, ending: Any = None) -> None:
        super().__init__(1, Stop())
        self.finished, self.ending = 0, ending

    def finish(self) -> None:
        self.finished += 1
        if self.ending is not None:
            self.ending()


def test_trials_are_grouped_by_shape_and_every_one_is_trained(tmp_path):
    shapes = [{}, {"model": Standard(length=5, embed_dim=6, hidden_dim=7, layers=1)}, {"optimiser": {"steps": 5}}]
    trials = [small_trial(seed=seed, **fields) for seed in range(2) for fields in shapes]
    noting = Noting()
    store = run(trials, tmp_path, reporter=noting)
    assert noting.started == [
        ("positional on sum × 2", 4, 0),
        ("standard on sum × 2", 4, 0),
        ("positional on sum × 2", 5, 0),
    ]
    assert all(store.finished(trial) for trial in trials)
    assert noting.said == []


def test_a_bar_names_all_tasks_of_a_fleet(tmp_path):
    noting = Noting()
    run([small_trial(task=task) for task in ("sum", "min", "sum")], tmp_path, reporter=noting)
    assert noting.started == [("positional on min, sum × 2", 4, 0)]
    assert noting.updates[-1][0] == 4
    assert len(noting.updates[-1][1]) == 2


def shaped() -> list[Trial]:
    """Two trials each of three shapes, of 4, 6 and 5 steps."""
    shapes = [{}, {"optimiser": {"steps": 6}}, {"optimiser": {"steps": 5}, "evaluation": {"every": 2}}]
    return [small_trial(seed=seed, **fields) for fields in shapes for seed in range(2)]


@pytest.mark.parametrize(
    ("most", "turns"),
    [
        (1, "4444" + "666666" + "55555"),
        (2, "4" + "46" * 3 + "65" * 3 + "55"),  # one takes a step before the next is planned
        (3, "4" + "46" + "465" * 2 + "65" * 3),
        (8, "4" + "46" + "465" * 2 + "65" * 3),
    ],
)
def test_fleets_side_by_side_end_as_they_would_one_after_another(tmp_path, monkeypatch, most, turns):
    alone = run(shaped(), tmp_path / "alone")
    advanced: list[int] = []
    advance = training.Training.advance

    def counted(one: training.Training) -> bool:
        advanced.append(one.fleet.steps)
        return advance(one)

    monkeypatch.setattr(training.Training, "advance", counted)
    monkeypatch.setitem(local.BESIDE, "cpu", most)
    noting = Noting()
    beside = run(shaped(), tmp_path / "beside", reporter=noting)
    assert "".join(map(str, advanced)) == turns
    assert sorted(noting.ended) == [0, 1, 2]
    for trial in shaped():
        scores = [json.loads((s.path(trial) / "metrics.json").read_text())["scores"] for s in (alone, beside)]
        assert scores[0] == scores[1]
        for name, tensor in weights_of(alone, trial).items():
            assert torch.equal(tensor, weights_of(beside, trial)[name])


def test_bars_tell_the_depths_of_a_gpt_apart(tmp_path):
    noting = Noting()
    models = [GPTArchitecture(embed_dim=6, layers=layers, positional=layers == 2) for layers in (1, 2)]
    trials = [
        small_trial(task="khop", model=model, data={"options": {}}, evaluation={"sets": {"near": {}}})
        for model in models
    ]
    run(trials, tmp_path, reporter=noting)
    titles = [title for title, _, _ in noting.started]
    assert titles == ["standard gpt, 1 layer, on khop × 1", "positional gpt, 2 layers, on khop × 1"]


def test_equal_trials_are_trained_once(tmp_path):
    twice = [small_trial(optimiser={"lr": lr}, seed=seed) for seed in (0, 1) for lr in (1, 1.0)]
    noting = Noting()
    run(twice, tmp_path, reporter=noting)
    assert [title for title, _, _ in noting.started] == ["positional on sum × 2"]
    assert len(engine.frame(tmp_path)) == 2 * 3


def test_no_trials_are_no_work(tmp_path):
    noting = Noting()
    assert run([], tmp_path, reporter=noting).rows() == []
    assert noting.started == []


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan")])
def test_checkpoints_need_time_between_them(seconds, tmp_path):
    with pytest.raises(PosattnError, match=f"checkpoint_every={seconds}: seconds between checkpoints, above 0"):
        run([small_trial()], tmp_path, checkpoint_every=seconds)


def test_a_mistake_in_any_trial_is_found_before_the_first_is_trained(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "Fleet", None)
    with pytest.raises(PosattnError, match="did you mean 'length'"):
        run([small_trial(), small_trial(data={"options": {"lengh": 5}})], tmp_path)


def test_the_rows_say_how_a_trial_was_trained(tmp_path):
    trials = [small_trial(seed=seed, precision=precision) for precision in ("float32", "bf16") for seed in range(3)]
    frame = engine.frame(run(trials[:-1], tmp_path).folder)
    assert set(frame["device"]) == {"cpu"}
    assert set(frame["torch"]) == {str(torch.__version__)}
    assert set(frame["version"]) == {posattn.__version__}
    assert {precision: set(rows["fleet"]) for precision, rows in frame.groupby("precision")} == {
        "float32": {3},
        "bf16": {2},
    }
    assert min(frame["seconds"]) > 0
    assert set(frame["diverged_at"]) == {None}


def test_a_replica_that_diverged_says_so_and_json_stays_json(tmp_path):
    trials = [small_trial(optimiser={"lr": lr, "steps": 9}) for lr in (1e-3, 1e30)]
    store = run(trials, tmp_path)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    metrics = [json.loads((store.path(trial) / "metrics.json").read_text(), parse_constant=refuse) for trial in trials]
    assert metrics[0]["diverged_at"] is None
    assert metrics[1]["diverged_at"] == 1
    assert all(row["loss"] is None for row in metrics[1]["scores"])
    frame = engine.frame(tmp_path).set_index("trial")
    assert (frame.loc[trials[1].id, "diverged_at"] == 1).all()
    assert frame.loc[trials[0].id, "diverged_at"].isna().all()
    assert frame.loc[trials[0].id, "loss"].notna().all()
    assert all(torch.isfinite(tensor).all() for tensor in weights_of(store, trials[1]).values())


def test_a_fleet_that_would_not_fit_the_gpu_is_planned_in_parts(monkeypatch):
    trials = [small_trial(seed=seed) for seed in range(10)]
    with_memory(monkeypatch, free=10 * 2**30, each=2 * 2**30)  # of 10 GiB, 70 % are planned with
    found = planned(trials)
    assert [len(fleet.trials) for fleet in found.fleets] == [3, 3, 2, 2]
    assert [trial for fleet in found.fleets for trial in fleet.trials] == trials
    assert found.notes == ("10 replicas need 20.0 GiB and 7.0 GiB are free: training them as 4 fleets of up to 3.",)


@pytest.mark.parametrize(("then_free", "sizes"), [(100, [10]), (20, [5, 5])])  # 70 % are planned with
def test_room_is_made_before_a_fleet_is_split_and_only_then(monkeypatch, then_free, sizes):
    trials, engine_, noting = [small_trial(seed=seed) for seed in range(10)], local.LocalEngine(CUDA), Noting()
    with_memory(monkeypatch, free=100, each=2)
    (whole,) = planned(trials).fleets
    with_memory(monkeypatch, free=20, each=2)  # others train beside it by now
    turns = Turns(lambda: with_memory(monkeypatch, free=then_free, each=2))
    assert [len(fleet.trials) for fleet in engine_._fitting(whole, turns, noting)] == sizes
    assert turns.finished == 1
    assert len(noting.said) == (len(sizes) > 1)
    with_memory(monkeypatch, free=29, each=2)
    turns = Turns()
    assert engine_._fitting(whole, turns, noting) == (whole,)
    assert turns.finished == 0


def test_a_fleet_that_fits_is_left_whole_and_one_replica_is_not_even_measured(monkeypatch):
    trials = [small_trial(seed=seed) for seed in range(7)]
    asked = with_memory(monkeypatch, free=100, each=10)
    assert [len(fleet.trials) for fleet in planned(trials).fleets] == [7]
    assert len(asked) == 1
    assert [len(fleet.trials) for fleet in planned(trials[:1]).fleets] == [1]
    assert len(asked) == 1


#: What PyTorch says where a GPU's memory is full, and where the machine's own is.
FULL = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"),
    RuntimeError(
        "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 800000000000 bytes."
    ),
]


@pytest.mark.parametrize("error", FULL, ids=["GPU", "CPU"])
def test_a_full_device_is_named_and_what_was_finished_is_kept(tmp_path, monkeypatch, error):
    trials = [small_trial(), small_trial(optimiser={"steps": 5})]
    step = Fleet._step

    def full(fleet: Fleet, part: int) -> None:
        if fleet.steps == 5 and fleet.step == 2:
            raise error
        step(fleet, part)

    monkeypatch.setattr(Fleet, "_step", full)
    with pytest.raises(PosattnError, match=r"memory of device 'cpu' is full( \(745.1 GiB .*\))?: use a smaller batch"):
        run(trials, tmp_path)
    monkeypatch.undo()
    noting = Noting()
    run(trials, tmp_path, reporter=noting)
    assert [steps for _, steps, _ in noting.started] == [5]


def full_while_others_train(patch: pytest.MonkeyPatch, what: str, steps: int) -> list[str]:
    """Have one fleet's method, that of the fleet with so many steps, fail as long as another fleet trains.

    Gives what happened, in order.
    """
    seen: list[str] = []
    method, begin, end = getattr(Fleet, what), training.Training.__init__, training.Training._end
    busy: set[int] = set()

    def failing(fleet: Fleet, *given: Any, **options: Any) -> Any:
        trials = given[0] if what == "__init__" else fleet.trials
        if trials[0].optimiser.steps == steps and busy - {steps}:
            seen.append("full")
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return method(fleet, *given, **options)

    def beginning(one: training.Training, *given: Any, **options: Any) -> None:
        begin(one, *given, **options)
        busy.add(one.fleet.steps)

    def ending(one: training.Training) -> None:
        end(one)
        busy.discard(one.fleet.steps)
        seen.append(f"{one.fleet.steps} ended")

    patch.setattr(Fleet, what, failing)
    patch.setattr(training.Training, "__init__", beginning)
    patch.setattr(training.Training, "_end", ending)
    patch.setitem(local.BESIDE, "cpu", 3)
    return seen


@pytest.mark.parametrize(
    ("what", "steps", "order"),
    [
        ("__init__", 5, ["full", "4 ended", "6 ended", "5 ended"]),
        ("_step", 5, ["full", "4 ended", "6 ended", "5 ended"]),  # its first
        ("_step", 4, ["full", "6 ended", "full", "5 ended", "4 ended"]),  # one in between, twice
        ("scores", 5, ["full", "4 ended", "6 ended", "5 ended"]),  # those before the first step
        ("scores", 4, ["full", "6 ended", "5 ended", "4 ended"]),  # the last ones
    ],
)
def test_a_fleet_that_has_no_room_waits_for_the_others(tmp_path, monkeypatch, what, steps, order):
    run(shaped(), tmp_path / "alone")
    seen = full_while_others_train(monkeypatch, what, steps)
    noting = Noting()
    store = run(shaped(), tmp_path / "beside", reporter=noting)
    assert seen == order
    assert sorted(noting.ended) == [0, 1, 2]
    monkeypatch.undo()
    for trial in shaped():
        for name, tensor in weights_of(engine.Store(tmp_path / "alone"), trial).items():
            assert torch.equal(tensor, weights_of(store, trial)[name])
        histories = [
            json.loads((tmp_path / where / trial.id / "metrics.json").read_text())["scores"]
            for where in ("alone", "beside")
        ]
        assert histories[0] == histories[1]


def test_a_gpu_too_full_to_measure_one_replica_is_named(monkeypatch):
    with_memory(monkeypatch, free=100, each=10)

    def full(trial: Trial, device: torch.device, *, together: bool) -> int:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(local, "bytes_per_replica", full)
    with pytest.raises(PosattnError, match="memory of device 'cuda' is full: use a smaller batch"):
        planned([small_trial(seed=seed) for seed in range(2)])


def test_a_run_on_the_cpu_leaves_a_gpu_alone(tmp_path, monkeypatch):
    def never(*_: Any) -> None:
        raise AssertionError("CUDA was touched")

    for name in ("stream", "Stream", "current_device", "synchronize", "empty_cache"):
        monkeypatch.setattr(torch.cuda, name, never)
    run([small_trial()], tmp_path)


def test_the_metrics_say_how_many_fleets_trained_at_once(tmp_path, monkeypatch):
    monkeypatch.setitem(local.BESIDE, "cpu", 2)
    store = run(shaped(), tmp_path)
    held = [json.loads((store.path(trial) / "metrics.json").read_text())["beside"] for trial in shaped()]
    assert held == [2] * 6
    assert set(run([small_trial(seed=9)], tmp_path).rows({small_trial(seed=9).id})[0].items()) >= {("beside", 1)}


def test_memory_is_planned_for_the_replica_with_most_data(monkeypatch):
    trials = [small_trial(data={"samples": samples}) for samples in (24, 99, 36)]
    asked = with_memory(monkeypatch, free=100, each=10)
    planned(trials)
    assert asked == [trials[1]]


def test_a_replicas_memory_is_the_peak_over_batches_of_every_length_and_the_scores(monkeypatch):
    used, done = [100], []
    step, scores = Fleet._step, Fleet.scores
    for name in ("synchronize", "reset_peak_memory_stats"):
        monkeypatch.setattr(torch.cuda, name, lambda device: None)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 100)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: used[0])
    monkeypatch.setattr(
        Fleet, "_step", lambda fleet, part: (done.append(part), used.append(used.pop() + 30), step(fleet, part))
    )
    monkeypatch.setattr(Fleet, "scores", lambda fleet: (done.append("scores"), scores(fleet)))
    assert bytes_per_replica(small_trial(data={"lengths": (2, 3, 5), "options": {}}), torch.device("cpu")) == 90
    assert done == [0, 1, 2, "scores"]


def begun(trials: list[Trial], folder: engine.Store, steps: int) -> None:
    """Leave the checkpoints that an interrupted run of these trials leaves."""
    checkpoints = Checkpoints(folder.checkpoints, Fleet(trials, device="cpu"))
    checkpoints.begin()
    for _ in checkpoints.fleet.run(steps):
        pass
    checkpoints.write({"history": [[] for _ in trials], "seconds": 0.0})


def test_an_interrupted_fleet_goes_on_whole_beside_trials_that_were_added(tmp_path):
    trials = [small_trial(seed=seed) for seed in range(5)]
    store = engine.Store(tmp_path)
    begun(trials[1:3], store, 3)
    noting = Noting()
    run(trials, tmp_path, reporter=noting)
    assert [(title[-1], done) for title, _, done in noting.started] == [("2", 3), ("3", 0)]
    assert noting.said == ["going on from step 3 of 4."]
    assert all(store.finished(trial) for trial in trials)
    assert list(store.checkpoints.iterdir()) == []


def test_results_that_were_there_before_an_interruption_are_kept(tmp_path):
    trials = [small_trial(seed=seed) for seed in range(3)]
    store = run(trials[:1], tmp_path)
    before = (store.path(trials[0]) / "metrics.json").read_bytes()
    begun(trials, store, 2)
    noting = Noting()
    run(trials, tmp_path, reporter=noting)
    assert [(title[-1], done) for title, _, done in noting.started] == [("3", 2)]
    assert (store.path(trials[0]) / "metrics.json").read_bytes() == before
    assert [json.loads((store.path(trial) / "metrics.json").read_text())["fleet"] for trial in trials] == [1, 3, 3]


def test_a_fleet_is_not_taken_up_for_part_of_its_trials_nor_a_trial_for_two_fleets(tmp_path):
    trials = [small_trial(seed=seed) for seed in range(4)]
    store = engine.Store(tmp_path)
    begun(trials[:3], store, 2)
    begun(trials[:2], store, 1)
    noting = Noting()
    run(trials[1:3], tmp_path, reporter=noting)  # neither was begun for these two alone
    assert [(title[-1], done) for title, _, done in noting.started] == [("2", 0)]
    noting = Noting()
    run(trials, tmp_path, reporter=noting)
    assert [(title[-1], done) for title, _, done in noting.started] == [("3", 2), ("1", 0)]


def test_checkpoints_of_a_fleet_that_ended_are_cleared_away(tmp_path):
    trials = [small_trial(seed=seed) for seed in range(2)]
    store = run(trials, tmp_path)
    begun(trials, store, 4)
    noting = Noting()
    run(trials, tmp_path, reporter=noting)
    assert noting.started == []
    assert list(store.checkpoints.iterdir()) == []


def test_a_damaged_checkpoint_is_said_and_the_one_before_it_used(tmp_path):
    trials = [small_trial(seed=seed) for seed in range(2)]
    store = engine.Store(tmp_path)
    begun(trials, store, 2)
    begun(trials, store, 3)
    newest = max(store.checkpoints.glob("*/*.safetensors"))
    newest.write_bytes(newest.read_bytes()[:-9])
    noting = Noting()
    run(trials, tmp_path, reporter=noting)
    assert noting.said[0].startswith(f"checkpoint '{newest}' cannot be used (")
    assert noting.said[1:] == ["going on from step 2 of 4."]


def test_a_run_outside_the_main_thread_ends_as_any_other(tmp_path):
    thread = threading.Thread(target=run, args=([small_trial()], tmp_path))
    thread.start()
    thread.join()
    assert len(engine.frame(tmp_path)) == 3


def test_models_with_and_without_biases_are_one_fleet_and_keep_their_own_weights(tmp_path):
    trials = [small_trial(model=Positional(**{**vars(MODEL), "bias": bias})) for bias in (True, False)]
    store = run(trials, tmp_path)
    names = [weights_of(store, trial).keys() for trial in trials]
    assert names[1] < names[0]
    assert {name for name in names[0] if name.endswith("_bias")} - names[1] == {
        "encoder_bias", "value_bias", "output_bias", "mlp_in_bias", "mlp_out_bias", "decoder_bias",
    }  # fmt: skip
    assert [json.loads((store.path(trial) / "metrics.json").read_text())["fleet"] for trial in trials] == [2, 2]
