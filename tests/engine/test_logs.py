"""Logs of a run: every event once, whatever is interrupted, and no log can harm the training."""

import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest

from posattn import PosattnError, engine, studies
from posattn.engine import JsonLines, Log, Logs, log_to, training
from posattn.studies.core import results
from posattn.train import Fleet

from .runs import Noting, run, small_trial, weights_of
from .test_engine import OneByOne


class Hearing(Log):
    """Keeps every event."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def begin(self, trial: Any, step: int) -> None:
        self.events.append(("begin", trial.id, step))

    def loss(self, trial: Any, step: int, loss: float) -> None:
        self.events.append(("loss", trial.id, step, loss))

    def scores(self, trial: Any, step: int, rows: list[dict[str, Any]]) -> None:
        self.events.append(("scores", trial.id, step, rows))

    def end(self, trial: Any, diverged_at: int | None) -> None:
        self.events.append(("end", trial.id, diverged_at))

    def close(self) -> None:
        self.events.append(("close",))

    def of(self, name: str) -> list[tuple[Any, ...]]:
        return [event[1:] for event in self.events if event[0] == name]


def lines(path: Path) -> list[dict[str, Any]]:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return [json.loads(line, parse_constant=refuse) for line in path.read_text().splitlines()]


@pytest.fixture
def every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses are looked at after every step."""
    monkeypatch.setattr(training, "REPORT_EVERY", 0.0)


@pytest.mark.usefixtures("every_step")
def test_every_trial_is_heard_of_from_its_begin_to_its_end(tmp_path: Path) -> None:
    trials, heard = [small_trial(seed=seed, evaluation={"every": 2}) for seed in range(2)], Hearing()
    store = run(trials, tmp_path, log=[heard])
    ids = [trial.id for trial in trials]
    assert heard.of("begin") == [(trial, 0) for trial in ids]
    assert sorted(heard.of("end")) == sorted((trial, None) for trial in ids)
    assert heard.events[-1] == ("close",)
    for trial in ids:
        kept = [(row["step"], row["set"], row["loss"], row["metric"]) for row in store.rows({trial})]
        said = [(step, *row.values()) for name, step, rows in heard.of("scores") if name == trial for row in rows]
        assert said == kept
        assert {step for step, *_ in said} == {0, 2, 4}
    fleet, expected = Fleet(trials, device="cpu"), []
    for step in fleet.run():
        expected += [(trial, step, loss) for trial, loss in zip(ids, fleet.loss.tolist(), strict=True)]
    assert heard.of("loss") == expected


@pytest.mark.usefixtures("every_step")
def test_a_file_has_a_line_for_every_event_with_the_trials_description(tmp_path: Path) -> None:
    trial, path = small_trial(), tmp_path / "run.jsonl"
    run([trial], tmp_path / "runs", log=[JsonLines(path)])
    found = lines(path)
    assert [event["event"] for event in found] == ["begin", *["loss"] * 3, "scores", "loss", "end"]
    assert {event["trial"] for event in found} == {trial.id}
    assert found[0]["description"] == json.loads(trial.to_json())
    assert [event["step"] for event in found if event["event"] == "loss"] == [1, 2, 3, 4]
    assert [row["set"] for row in found[4]["scores"]] == ["train", "near", "far"]


@pytest.mark.usefixtures("every_step")
def test_an_interrupted_run_goes_on_in_the_same_file_and_no_step_stands_there_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after step 6 of 8, with a checkpoint of step 4: steps 5 and 6 are taken again."""
    trial, path = small_trial(optimiser={"steps": 8}, evaluation={"every": 1}), tmp_path / "run.jsonl"
    advance = training.Training.advance

    def killed(self: training.Training) -> bool:
        more = advance(self)
        if self.fleet.step == 4:
            self.save()
        if self.fleet.step == 6:
            raise SystemExit
        return more

    monkeypatch.setattr(training.Training, "advance", killed)
    with pytest.raises(SystemExit):
        run([trial], tmp_path / "runs", log=[JsonLines(path)])
    path.write_text(path.read_text() + '{"event": "loss", "tri')  # cut short in the middle of a line
    monkeypatch.undo()
    monkeypatch.setattr(training, "REPORT_EVERY", 0.0)
    run([trial], tmp_path / "runs", log=[JsonLines(path)])
    found = []
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            assert line == '{"event": "loss", "tri'
    assert [event["step"] for event in found if event["event"] == "begin"] == [0, 4]
    assert [event["step"] for event in found if event["event"] == "loss"] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [event["step"] for event in found if event["event"] == "scores"] == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    alone = tmp_path / "alone.jsonl"
    run([trial], tmp_path / "alone", log=[JsonLines(alone)])
    losses = [[event["loss"] for event in some if event["event"] == "loss"] for some in (found, lines(alone))]
    assert losses[0] == losses[1]


def test_a_trial_that_starts_over_is_written_again(tmp_path: Path) -> None:
    trial, path = small_trial(), tmp_path / "run.jsonl"
    for folder in ("one", "two"):
        run([trial], tmp_path / folder, log=[JsonLines(path)])
    assert [event["event"] for event in lines(path)] == ["begin", "scores", "loss", "end"] * 2


def test_losses_that_are_not_finite_are_null(tmp_path: Path) -> None:
    log, trial = JsonLines(tmp_path / "run.jsonl"), small_trial()
    log.begin(trial, 0)
    log.loss(trial, 1, math.nan)
    log.loss(trial, 2, math.inf)
    log.close()
    assert [event["loss"] for event in lines(tmp_path / "run.jsonl")[1:]] == [None, None]


def test_a_log_that_fails_is_said_once_and_the_training_goes_on(tmp_path: Path) -> None:
    class Full(Log):
        def begin(self, trial: Any, step: int) -> None:
            raise OSError(28, "No space left on device")

        def end(self, trial: Any, diverged_at: int | None) -> None:
            self.begin(trial, 0)

    reporter, heard, trial = Noting(), Hearing(), small_trial()
    store = run([trial], tmp_path / "logged", log=[Full(), heard], reporter=reporter)
    assert [said for said in reporter.said if "Full failed" in said] == [
        "Full failed (OSError: [Errno 28] No space left on device): it logs nothing more."
    ]
    assert heard.of("end") == [(trial.id, None)]
    plain = run([trial], tmp_path / "plain")
    for name, tensor in weights_of(plain, trial).items():
        assert tensor.equal(weights_of(store, trial)[name])


def test_a_finished_trial_is_not_logged_again(tmp_path: Path) -> None:
    heard = Hearing()
    for _ in range(2):
        run([small_trial()], tmp_path, log=[heard])
    assert len(heard.of("begin")) == len(heard.of("end")) == 1


def test_an_engine_that_tells_logs_nothing_has_its_results_logged(tmp_path: Path) -> None:
    trial, heard = small_trial(evaluation={"every": 2}), Hearing()
    store = run([trial], tmp_path, log=[heard], engine=OneByOne())
    assert heard.of("begin") == [(trial.id, 0)]
    assert heard.of("end") == [(trial.id, None)]
    said = [(step, row["set"], row["loss"]) for _, step, rows in heard.of("scores") for row in rows]
    assert said == [(row["step"], row["set"], row["loss"]) for row in store.rows()]


def test_a_study_logs_its_trials_those_that_run_by_themselves_included(tmp_path: Path) -> None:
    heard = Hearing()
    asked: dict[str, Any] = {"preset": "smoke", "device": "cpu", "reporter": Noting(), "log": [heard]}
    results.run(studies.get("sts-bound"), out=tmp_path, **asked)
    stored = {row["trial"] for row in engine.Store(tmp_path).rows()}
    assert {trial for trial, _ in heard.of("begin")} == {trial for trial, _ in heard.of("end")} == stored
    assert {trial for trial, _, _ in heard.of("scores")} == stored
    each = [event[0] for event in heard.events if event[0] != "scores"]
    assert each == [*["begin", "end"] * len(stored), "close"]  # one after the other, as they are finished


# ---- by name


def test_a_log_of_a_users_own_has_a_name_on_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(engine.LOGS, "mine", lambda target: Hearing() if target == "a:b" else None)
    assert isinstance(log_to("mine:a:b"), Hearing)


def test_an_unknown_log_is_an_error_that_names_the_known_ones_and_the_way_to_another(tmp_path: Path) -> None:
    with pytest.raises(PosattnError, match=r"'wandb'.*jsonl, tensorboard\..*posattn\.engine\.Log .*LOGS"):
        log_to("wandb:x")
    with pytest.raises(PosattnError, match="target is missing"):
        log_to("tensorboard:")
    with pytest.raises(PosattnError, match="is a folder"):
        log_to(str(tmp_path))
    with pytest.raises(PosattnError, match="there is no folder"):
        log_to(str(tmp_path / "nowhere" / "run.jsonl"))


def test_several_logs_hear_the_same() -> None:
    one, other = Hearing(), Hearing()
    together = Logs([one, other])
    together.begin([small_trial()], 3)
    together.losses([small_trial()], 4, [0.5])
    assert one.events == other.events != []


# ---- TensorBoard


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard itself reads of a run."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(folder))
    read.Reload()
    return {tag: [(event.step, event.value) for event in read.Scalars(tag)] for tag in read.Tags()["scalars"]}


@pytest.mark.usefixtures("every_step")
def test_tensorboard_shows_a_run_for_each_trial(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    trials, heard = [small_trial(seed=seed) for seed in range(2)], Hearing()
    store = run(trials, tmp_path / "runs", log=[engine.TensorBoard(tmp_path / "tb"), heard])
    assert {path.name for path in (tmp_path / "tb").iterdir()} == {trial.id for trial in trials}
    for trial in trials:
        shown = scalars(tmp_path / "tb" / trial.id)
        expected = [(step, loss) for name, step, loss in heard.of("loss") if name == trial.id]
        assert shown["loss"] == [(step, pytest.approx(loss)) for step, loss in expected]
        for row in store.rows({trial.id}):
            for kind in ("loss", "metric"):
                if row[kind] is not None:
                    assert shown[f"{row['set']}/{kind}"] == [(4, pytest.approx(row[kind]))]


def test_tensorboard_hides_what_is_taken_again(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    trial = small_trial()
    for step, values in ((0, {1: 5.0, 2: 4.0, 3: 3.0}), (1, {2: 4.5, 3: 3.5})):
        log = engine.TensorBoard(tmp_path)
        log.begin(trial, step)
        for at, loss in values.items():
            log.loss(trial, at, loss)
        log.close()
    assert scalars(tmp_path / trial.id)["loss"] == [(1, 5.0), (2, 4.5), (3, 3.5)]


def test_without_the_extra_tensorboard_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(PosattnError, match=r"pip install 'posattn\[tensorboard\]'"):
        log_to(f"tensorboard:{tmp_path}")
