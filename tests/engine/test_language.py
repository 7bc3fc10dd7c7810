"""A language model's trial in the store: kept once with its scores and without its weights, or not at all."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import posattn
from posattn import PosattnError, engine
from posattn.train.language import fine_tune as language
from posattn.train.language.trial import LanguageTrial
from posattn.train.runnable import Unreachable

from .runs import Noting, run, small_trial

NEAR = {"low": 0.0, "high": 5.0}
FAR = {"low": 0.0, "high": 50.0, "held_out": True}


def reading(model: object = "tiny", **fields: Any) -> LanguageTrial:
    return LanguageTrial(
        **{"task": "mixed-min", "model": str(model), "samples": 5, "test_samples": 3, "batch": 2, "epochs": 1}
        | {"options": NEAR, "sets": {"near": NEAR, "far": FAR}}
        | fields
    )


def scores(*_: Any, report: Any, **__: Any) -> list[dict[str, Any]]:
    """What a fine-tuned model might score, without one."""
    report(1, 2.5)
    report(3, 0.5)
    counts = {"step": 3, "unparseable": 1, "answers": 3}
    return [
        {"set": "near", "loss": 0.25, "metric": 0.5} | counts,
        {"set": "far", "loss": None, "metric": None} | counts,
    ]


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language, "fine_tune", scores)


def fine_tuned(trial: LanguageTrial, folder: Path, reporter: engine.Reporter | None = None) -> engine.Store:
    return engine.run([trial], out=folder, device="cpu", reporter=reporter or Noting())


def test_a_model_is_fine_tuned_and_its_scores_kept(tiny_gpt2, tmp_path):
    trial, noted = reading(tiny_gpt2), Noting()
    store = fine_tuned(trial, tmp_path, noted)
    folder = tmp_path / trial.id
    assert sorted(os.listdir(folder)) == ["metrics.json", "trial.json"]  # no weights
    assert (folder / "trial.json").read_text() == trial.to_json()
    metrics = json.loads((folder / "metrics.json").read_text())
    assert [(row["set"], row["step"], row["answers"]) for row in metrics["scores"]] == [("near", 3, 3), ("far", 3, 3)]
    assert (metrics["device"], metrics["fleet"], metrics["diverged_at"]) == ("cpu", 1, None)
    assert metrics["version"] == posattn.__version__
    assert metrics["seconds"] > 0
    assert noted.started == [(f"{tiny_gpt2} on mixed-min", 3, 0)]
    assert [step for step, _ in noted.updates] == [1, 2, 3]
    assert all(len(losses) == 1 for _, losses in noted.updates)
    assert store.finished(trial)


@pytest.mark.usefixtures("made_up")
def test_what_is_finished_is_never_fine_tuned_again(tmp_path, monkeypatch):
    fine_tuned(reading(), tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    monkeypatch.setattr(language, "fine_tune", None)
    noted = Noting()
    fine_tuned(reading(), tmp_path, noted)
    assert not noted.started
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    with pytest.raises(TypeError):
        fine_tuned(reading(seed=1), tmp_path)


@pytest.mark.usefixtures("made_up")
def test_the_frame_holds_language_models_beside_the_others(tmp_path):
    run([small_trial()], tmp_path)
    fine_tuned(reading(), tmp_path)
    frame = engine.frame(tmp_path)
    rows = frame[frame["trial"] == reading().id].set_index("set")
    assert list(rows.index) == ["near", "far"]
    assert set(rows["model"]) == {"tiny"}
    assert rows.loc["near", "loss"] == 0.25
    assert rows["loss"].isna().tolist() == [False, True]
    assert (rows["unparseable"].tolist(), rows["answers"].tolist()) == ([1, 1], [3, 3])
    assert set(rows["optimiser.steps"]) == set(rows["step"]) == {3}
    others = frame[frame["trial"] == small_trial().id]
    assert len(others) == 3
    assert set(others["model.kind"]) == {"positional"}


def test_rows_of_some_trials_are_read_without_a_look_at_the_others(tmp_path):
    store = run([small_trial(), small_trial(seed=1)], tmp_path)
    (tmp_path / small_trial().id / "metrics.json").write_text("{")
    assert {row["seed"] for row in store.rows({small_trial(seed=1).id})} == {1}
    with pytest.raises(PosattnError, match="cannot be read"):
        store.rows()
    assert store.rows(()) == []


def test_a_model_out_of_reach_is_said_once_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    noted = Noting()
    with pytest.raises(Unreachable, match="model 'tiny' needs transformers"):
        fine_tuned(reading(), tmp_path, noted)
    (said,) = noted.said
    assert said.startswith("model 'tiny' needs transformers (")
    assert said.endswith("pip install 'posattn[gpt2]'. The study goes on without it.")
    assert not noted.updates
    assert noted.ended == [0]
    assert os.listdir(tmp_path) == ["store.json"]


def test_any_other_mistake_is_passed_on_and_leaves_nothing(tiny_gpt2, tmp_path):
    noted = Noting()
    with pytest.raises(PosattnError, match=r"numbers are written with 6 characters"):
        fine_tuned(reading(tiny_gpt2, options={"low": 0.0, "high": 5000.0}), tmp_path, noted)
    assert not noted.said
    assert os.listdir(tmp_path) == ["store.json"]


def test_ctrl_c_says_what_is_lost_and_how_to_go_on(tmp_path, monkeypatch):
    def stopped(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(language, "fine_tune", stopped)
    with pytest.raises(engine.Interrupted, match=r"fine-tuning tiny on mixed-min, which begins anew .*same command"):
        fine_tuned(reading(), tmp_path)
    assert os.listdir(tmp_path) == ["store.json"]


@pytest.mark.usefixtures("made_up")
def test_a_folder_that_holds_another_trial_is_left_alone(tmp_path):
    fine_tuned(reading(), tmp_path)
    (tmp_path / reading().id / "trial.json").write_text(reading(seed=1).to_json())
    with pytest.raises(PosattnError, match="holds another trial than the one with this id"):
        fine_tuned(reading(), tmp_path)
