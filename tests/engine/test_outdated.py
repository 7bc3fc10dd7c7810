"""A user's task that has changed: its finished results are not served, unless that is asked for."""

import json
import operator
from pathlib import Path
from typing import Any

import pytest
import torch

from posattn import PosattnError, tasks
from posattn.engine import Store
from posattn.engine.interrupt import Interrupted
from posattn.engine.side_by_side import SideBySide
from posattn.tasks import NumericTask
from posattn.train import Trial
from posattn.train.task_hash import source_hash

from .runs import Noting, run, small_trial


def doubled(x: torch.Tensor) -> torch.Tensor:
    return 2 * x


def tripled(x: torch.Tensor) -> torch.Tensor:
    return 3 * x


@pytest.fixture
def register(monkeypatch):
    def registered(function: Any, **options: Any) -> None:
        monkeypatch.setitem(tasks.REGISTRY, "mine", NumericTask(name="mine", summary="", function=function, **options))

    return registered


def losses(store: Store, trial: Trial) -> list[float]:
    return [row["loss"] for row in store.rows({trial.id})]


def test_a_task_that_has_changed_is_trained_again_and_keep_keeps_the_result(register, tmp_path):
    register(doubled)
    trial = small_trial(task="mine")
    first = losses(run([trial], tmp_path), trial)
    before = (tmp_path / trial.id / "metrics.json").read_bytes()
    assert json.loads(before)["task_source"] == source_hash(tasks.get("mine"))

    noting = Noting()
    run([trial], tmp_path, reporter=noting)
    assert (noting.started, noting.said) == ([], [])

    register(tripled)
    same = small_trial(task="mine")
    assert same.id == trial.id
    noting = Noting()
    run([same], tmp_path, reporter=noting, keep=True)
    assert noting.started == []
    assert (tmp_path / trial.id / "metrics.json").read_bytes() == before

    store = run([same], tmp_path, reporter=noting)
    assert noting.said == [
        "task 'mine' has changed since 1 of its trials was finished: it is trained again and replaced. "
        "--keep (keep=True) uses what is there."
    ]
    assert len(noting.started) == 1
    assert losses(store, same) != first
    alone = run([same], tmp_path / "alone")
    assert losses(store, same) == losses(alone, same)
    noting = Noting()
    run([same], tmp_path, reporter=noting)
    assert noting.started == []


def interrupt(trials: list[Trial], folder: Path, monkeypatch: Any) -> None:
    """Run two steps."""
    turn = SideBySide._turn

    def stopping(turns: Any) -> None:
        turns.stopping.asked = 2 if turns.active[0].fleet.step == 1 else None
        turn(turns)

    with monkeypatch.context() as patch:
        patch.setattr(SideBySide, "_turn", stopping)
        with pytest.raises(Interrupted, match="stopped at step 2 of 4"):
            run(trials, folder)


def test_an_interrupted_fleet_of_a_task_that_has_changed_starts_anew(register, tmp_path, monkeypatch):
    register(doubled)
    trials = [small_trial(task="mine", seed=seed) for seed in (0, 1)]
    interrupt(trials, tmp_path / "a", monkeypatch)
    interrupt(trials, tmp_path / "same", monkeypatch)
    noting = Noting()
    run(trials, tmp_path / "same", reporter=noting)
    assert noting.said == ["going on from step 2 of 4."]

    register(tripled)
    noting = Noting()
    store = run(trials, tmp_path / "a", reporter=noting)
    assert noting.said == [
        "task 'mine' has changed since a fleet of 2 was interrupted: it starts anew. "
        "--keep (keep=True) goes on with it."
    ]
    assert [done for _, _, done in noting.started] == [0]
    alone = run(trials, tmp_path / "alone")
    assert [losses(store, trial) for trial in trials] == [losses(alone, trial) for trial in trials]
    assert [path for path in (tmp_path / "a" / "checkpoints").rglob("*") if path.is_file()] == []


def test_keep_goes_on_with_an_interrupted_fleet_and_its_result_counts_as_the_older_tasks(
    register, tmp_path, monkeypatch
):
    register(doubled)
    trial = small_trial(task="mine")
    interrupt([trial], tmp_path, monkeypatch)
    before = source_hash(tasks.get("mine"))
    register(tripled)
    noting = Noting()
    store = run([trial], tmp_path, reporter=noting, keep=True)
    assert noting.said == ["going on from step 2 of 4."]
    assert json.loads((tmp_path / trial.id / "metrics.json").read_text())["task_source"] == before
    assert store.outdated(trial)


def test_a_task_that_cannot_be_looked_into_is_trained_again_each_time(register, tmp_path):
    register(operator.methodcaller("neg"))
    trial = small_trial(task="mine")
    run([trial], tmp_path)
    noting = Noting()
    run([trial], tmp_path, reporter=noting)
    assert len(noting.started) == 1
    noting = Noting()
    run([trial], tmp_path, reporter=noting, keep=True)
    assert noting.started == []


def test_another_version_of_a_task_is_another_trial(register, tmp_path):
    register(doubled)
    first = small_trial(task="mine")
    register(tripled, version=2)
    second = small_trial(task="mine")
    assert first.id != second.id
    assert json.loads(second.to_json())["task_version"] == 2
    assert "task_version" not in json.loads(first.to_json())
    assert [Trial.from_json(trial.to_json()).id for trial in (first, second)] == [first.id, second.id]
    with pytest.raises(PosattnError, match="version 1 of task 'mine', and version 2 is registered: register that one"):
        run([first], tmp_path)


def test_version_one_is_left_out_of_the_id(register):
    register(doubled)
    first = small_trial(task="mine")
    register(doubled, version=1)
    assert small_trial(task="mine").id == first.id


def test_tasks_of_the_package_have_no_source_and_those_of_a_user_have_one():
    assert all(source_hash(tasks.get(name)) is None for name in tasks.OURS)
    names = ["doubled", "tripled"]
    hashes = {source_hash(NumericTask(name="a", summary="", function=globals()[name])) for name in names}
    assert len(hashes) == 2
    assert None not in hashes


def test_without_source_the_code_stands_for_it():
    def typed(text: str) -> Any:
        scope: dict[str, Any] = {}
        exec(compile(f"def function(x):\n    return {text}", "<stdin>", "exec"), scope)
        return source_hash(NumericTask(name="a", summary="", function=scope["function"]))

    assert typed("2 * x") == typed("2 * x") != typed("3 * x")
    assert typed("[y for y in x]") == typed("[y for y in x]") != typed("[-y for y in x]")
