"""An engine is whatever carries out a plan: studies, the store and reports work with another one as with ours."""

import time
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from posattn import PosattnError, engine, report, studies
from posattn.engine import Capacity, Plan, Provenance, Reporter, Store
from posattn.report import table
from posattn.studies.core import results
from posattn.train import execute

from .runs import Noting, small_trial


@dataclass
class OneByOne:
    """An engine of ten lines: every trial by itself, the last one first."""

    done: list[str] = field(default_factory=list)

    def capacity(self) -> Capacity:
        return Capacity()

    def run(self, plan: Plan, store: Store, reporter: Reporter) -> dict[str, str]:
        for trial in reversed([*(one for fleet in plan.fleets for one in fleet.trials), *plan.alone]):
            began = time.monotonic()
            outcome = execute(trial, device=torch.device("cpu"), report=lambda step, losses: None)
            store.write(trial, outcome, Provenance(device="toy", seconds=time.monotonic() - began))
            self.done.append(trial.id)
        return {}


def test_a_study_runs_on_another_engine_and_its_figures_are_those_of_ours(tmp_path, monkeypatch):
    monkeypatch.setattr("posattn.engine.training.Fleet", None)  # ours trains nothing here
    toy = OneByOne()
    asked: dict[str, Any] = {"preset": "smoke", "tasks": ("sum",), "seeds": 1, "device": "cpu", "reporter": Noting()}
    theirs = results.run(studies.get("ood-scale"), out=tmp_path / "toy", engine=toy, **asked)
    assert theirs.devices == ("toy",)
    assert len(toy.done) == 4
    assert report.write(theirs, tmp_path / "toy").is_file()
    results.run(studies.get("ood-scale"), out=tmp_path / "toy", engine=toy, **asked)
    assert len(toy.done) == 4  # what is finished is not run again
    monkeypatch.undo()
    ours = results.run(studies.get("ood-scale"), out=tmp_path / "ours", **asked)
    for one, other in zip(table.rows(ours), table.rows(theirs), strict=True):
        assert (one["model"], one["test set"]) == (other["model"], other["test set"])
        assert one["ours"] == pytest.approx(other["ours"], rel=1e-4)  # another fleet adds up in another order


def test_scores_along_the_way_are_those_of_a_fleet(tmp_path):
    trial = small_trial(optimiser={"steps": 5}, evaluation={"every": 2}, precision="float64")
    ours = engine.run([trial], out=tmp_path / "ours", device="cpu", reporter=Noting())
    theirs = engine.run([trial], out=tmp_path / "toy", reporter=Noting(), engine=OneByOne())
    kept = [[(row["set"], row["step"]) for row in store.rows()] for store in (ours, theirs)]
    assert kept[0] == kept[1]
    for row, other in zip(ours.rows(), theirs.rows(), strict=True):
        assert (row["loss"] is None) == (other["loss"] is None)  # there is no training loss before the first step
        assert row["loss"] is None or row["loss"] == pytest.approx(other["loss"], rel=1e-9)
    files = [sorted(path.name for path in store.path(trial).iterdir()) for store in (ours, theirs)]
    assert files[0] == files[1] == ["metrics.json", "trial.json", "weights.safetensors"]


@pytest.mark.usefixtures("as_users_run_it")
def test_what_is_no_engine_is_refused_before_anything_is_written(tmp_path):
    wrong: Any = object()
    with pytest.raises(PosattnError, match=r"engine is an object.*methods of posattn\.engine\.Engine"):
        engine.run([], out=tmp_path, engine=wrong)
    assert not list(tmp_path.iterdir())


def test_an_engine_that_says_nothing_of_tasks_keeps_what_they_were(tmp_path, monkeypatch):
    trial = small_trial()
    outcome = execute(trial, device=torch.device("cpu"), report=lambda step, losses: None)
    Store(tmp_path / "ours").write(trial, outcome, Provenance(device="toy", seconds=0.0))
    assert all("task_source" not in row for row in Store(tmp_path / "ours").rows())
    monkeypatch.setattr("posattn.train.trial.source_hash", lambda task: "cafe")  # as if the task were a user's
    Store(tmp_path / "users").write(trial, outcome, Provenance(device="toy", seconds=0.0))
    assert {row["task_source"] for row in Store(tmp_path / "users").rows()} == {"cafe"}
    monkeypatch.setattr("posattn.train.trial.source_hash", lambda task: "beef")
    assert Store(tmp_path / "users").outdated(trial)
