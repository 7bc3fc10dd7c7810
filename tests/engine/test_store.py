"""One folder a trial: whole or not at all, never trained twice, readable as one tidy table."""

import errno
import itertools
import json
import os
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

import posattn
from posattn import PosattnError, engine, tasks
from posattn.engine import store, training
from posattn.train import Fleet, Trial
from posattn.train.random_streams import stream
from posattn.train.runnable import Outcome

from .runs import run, small_trial, weights_of

TRIALS = [small_trial(seed=seed, task=task, precision="float64") for seed, task in enumerate(["sum", "sort", "sum"])]


def read(path: Path) -> Any:
    return json.loads(path.read_bytes())


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> engine.Store:
    """The three trials, trained."""
    return run(TRIALS, tmp_path_factory.mktemp("runs"))


@pytest.fixture
def copy(finished, tmp_path) -> Path:
    """A store with the first trial in it, to be spoiled."""
    folder = tmp_path / TRIALS[0].id
    folder.mkdir()
    for path in finished.path(TRIALS[0]).iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    (tmp_path / "store.json").write_bytes((finished.folder / "store.json").read_bytes())
    return tmp_path


def test_a_trial_has_a_folder_with_its_json_its_metrics_and_its_weights(finished):
    assert sorted(os.listdir(finished.folder)) == sorted(["checkpoints", "store.json", *(t.id for t in TRIALS)])
    assert os.listdir(finished.checkpoints) == []
    for trial in TRIALS:
        folder = finished.folder / trial.id
        assert sorted(os.listdir(folder)) == ["metrics.json", "trial.json", "weights.safetensors"]
        assert Trial.from_json((folder / "trial.json").read_text()) == trial


def test_the_metrics_are_those_of_the_fleet(finished):
    fleet = Fleet(TRIALS, device="cpu")
    for _ in fleet.run():
        pass
    for replica, trial in enumerate(TRIALS):
        metrics = read(finished.path(trial) / "metrics.json")
        found = {row["set"]: (row["step"], row["loss"], row["metric"]) for row in metrics.pop("scores")}
        scores = fleet.scores()[replica]
        assert found == {
            name: (4, score.loss, None if name == "train" else score.metric) for name, score in scores.items()
        }
        assert metrics.pop("seconds") > 0
        assert metrics.pop("beside") == 1
        assert metrics == {
            "format": 2,
            "diverged_at": None,
            "device": "cpu",
            "fleet": 3,
            "version": posattn.__version__,
            "torch": str(torch.__version__),
        }
        torch.testing.assert_close(weights_of(finished, trial), fleet.weights(replica), rtol=0, atol=0)


def test_the_stored_weights_are_a_model_with_the_stored_loss(finished):
    for trial in TRIALS:
        model = posattn.load(finished.path(trial) / "weights.safetensors")
        assert model.architecture == trial.model
        stored = {row["set"]: row["loss"] for row in read(finished.path(trial) / "metrics.json")["scores"]}
        for name, options in ((one.name, one.options) for one in trial.test_sets):
            x, y = tasks.get(trial.task).sample(11, **options, generator=stream(trial.seed, f"test set {name}"))
            loss = (model(x.double()) - y.double()).square().mean().item()
            # Some hundred roundings in an answer, twice that in its square, ten times that where most of it cancels.
            assert stored[name] == pytest.approx(loss, rel=2**13 * 2.0**-52)


def test_the_frame_has_a_row_for_every_trial_and_set_and_says_all_about_both(finished):
    frame = engine.frame(finished.folder)
    assert isinstance(frame, pd.DataFrame)
    assert len(frame) == 9
    pairs = set(zip(frame["trial"], frame["set"], strict=True))
    assert pairs == {(trial.id, name) for trial in TRIALS for name in ("train", "near", "far")}
    assert {
        "trial", "task", "seed", "precision", "model.kind", "model.length", "model.bias", "optimiser.name",
        "optimiser.lr", "optimiser.steps", "data.samples", "data.batch", "data.options.length", "evaluation.samples",
        "set", "step", "loss", "metric", "diverged_at", "device", "fleet", "seconds", "version", "torch",
    } <= set(frame.columns)  # fmt: skip
    first = frame[frame["trial"] == TRIALS[1].id].iloc[0]
    assert (first["task"], first["seed"], first["model.hidden_dim"], first["step"]) == ("sort", 1, 7, 4)
    assert not frame.columns.duplicated().any()
    assert not frame.duplicated(["trial", "set", "step"]).any()


def test_scores_on_the_way_have_rows_of_their_own(tmp_path):
    trial = small_trial(optimiser={"steps": 10}, evaluation={"every": 3})
    run([trial], tmp_path)
    frame = engine.frame(tmp_path)
    assert sorted(zip(frame["set"], frame["step"], strict=True)) == sorted(
        (name, step) for name in ("train", "near", "far") for step in (0, 3, 6, 9, 10)
    )
    fleet = Fleet([trial], device="cpu")
    for step in itertools.chain([0], fleet.run()):
        if step in (0, 3, 6, 9, 10):
            loss = frame[(frame["set"] == "far") & (frame["step"] == step)]["loss"].item()
            assert loss == fleet.scores()[0]["far"].loss


def test_steps_that_divide_the_whole_give_no_row_twice(tmp_path):
    run([small_trial(evaluation={"every": 2})], tmp_path)
    assert sorted(engine.frame(tmp_path)["step"]) == [0] * 3 + [2] * 3 + [4] * 3


def test_a_finished_trial_is_never_trained_again(finished, monkeypatch):
    before = {path: path.read_bytes() for path in finished.folder.rglob("*") if path.is_file()}

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(training, "Fleet", never)
    run(TRIALS, finished.folder)
    assert {path: path.read_bytes() for path in finished.folder.rglob("*") if path.is_file()} == before
    with pytest.raises(AssertionError, match="trained again"):
        run([*TRIALS, small_trial(seed=99)], finished.folder)


def test_an_id_folder_that_holds_another_trial_is_an_error_before_any_training(copy, monkeypatch):
    (copy / TRIALS[0].id / "trial.json").write_text(TRIALS[1].to_json())
    monkeypatch.setattr(training, "Fleet", None)
    with pytest.raises(
        PosattnError, match=f"'{copy / TRIALS[0].id}' holds another trial than the one with this id: move"
    ):
        run(TRIALS, copy)
    with pytest.raises(PosattnError, match="holds another trial"):
        store.Store(copy).write(TRIALS[0], Outcome(scores=[]), store.Provenance(device="cpu", seconds=0.0))


def test_a_store_of_a_newer_version_is_left_alone(copy):
    (copy / "store.json").write_text('{"format": 3}')
    with pytest.raises(
        PosattnError, match=r"was written by a newer version of posattn \(format 3, this one has 2\): ins"
    ):
        run(TRIALS, copy)
    assert read(copy / "store.json") == {"format": 3}
    with pytest.raises(PosattnError, match="was written by a newer version"):
        engine.frame(copy)
    (copy / "store.json").write_text('{"format": 2}')
    (copy / TRIALS[0].id / "metrics.json").write_text('{"format": 3, "scores": []}')
    with pytest.raises(
        PosattnError, match=r"metrics.json' was written by a newer version .*install that version to read"
    ):
        engine.frame(copy)


@pytest.mark.parametrize(
    "content", [b"", b'{"format": 1, "scor', b'{"task": "\xff"}', b"[]", b'{"format": 1}', b"{}", b"null"]
)
@pytest.mark.parametrize("name", ["metrics.json", "trial.json"])
def test_a_damaged_file_is_named_with_the_way_out(name, content, copy):
    if name == "trial.json" and content.startswith(b"{") and content.endswith(b"}"):
        content = content[:-1]  # which entries a trial has is not looked at
    (copy / TRIALS[0].id / name).write_bytes(content)
    folder = re.escape(str(copy / TRIALS[0].id))
    with pytest.raises(
        PosattnError, match=f"'{folder}/{name}' cannot be read .*: remove the folder '{folder}' and run"
    ):
        engine.frame(copy)


@pytest.mark.parametrize(
    "scores",
    [
        None, 3, "x", {}, {"set": "far"}, [None], [3], ["x"], [[]], [{}], [{"set": "far"}], [{"set": 3, "step": 4}],
        [{"set": "far", "step": "4"}], [{"set": "far", "step": True}], [{"set": "far", "step": 4, "loss": "low"}],
        [{"set": "far", "step": 4, "loss": 0.5, "metric": []}],
    ],
)  # fmt: skip
def test_malformed_scores_are_named_with_the_way_out(scores, copy):
    path = copy / TRIALS[0].id / "metrics.json"
    path.write_text(json.dumps(read(path) | {"scores": scores}))
    folder = re.escape(str(copy / TRIALS[0].id))
    with pytest.raises(PosattnError, match=f"'{folder}/metrics.json' cannot be read .*: remove the folder '{folder}'"):
        engine.frame(copy)


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b"{}"])
def test_nobody_is_told_to_remove_all_results_for_a_damaged_marker(content, copy):
    (copy / "store.json").write_bytes(content)
    with pytest.raises(
        PosattnError, match=r"store.json' cannot be read .*: remove that file, it holds no results"
    ) as caught:
        run(TRIALS, copy)
    assert "folder" not in str(caught.value)


def test_a_file_is_no_store_and_neither_is_nothing(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PosattnError, match="file' is a file: results need a folder"):
        run(TRIALS, tmp_path / "file")
    with pytest.raises(
        PosattnError, match=r"cannot make the folder .*file/inside': Not a directory. Choose another place"
    ):
        run(TRIALS, tmp_path / "file" / "inside")
    with pytest.raises(PosattnError, match="missing' is not there: no results to read"):
        engine.frame(tmp_path / "missing")
    assert engine.frame(tmp_path).empty


def test_a_read_only_folder_is_an_error_before_any_training(tmp_path, monkeypatch):
    def refusing(*_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "open", refusing)
    monkeypatch.setattr(training, "Fleet", None)
    with pytest.raises(
        PosattnError, match=r"cannot write .*store.json': Read-only file system\. Nothing there was changed"
    ):
        run(TRIALS, tmp_path)


#: Files of a run in order: the store's marker, what the fleet is, its list, three checkpoints, three for each trial.
WRITES = 3 + 3 + 9


@pytest.mark.parametrize("failing", [2, 3, 4, 6, 7, 9, 10, 13, WRITES])
def test_a_full_disk_loses_nothing_that_was_written(failing, finished, tmp_path, monkeypatch):
    steps = [small_trial(seed=seed, optimiser={"steps": 3}) for seed in range(3)]
    calls, flush = [], os.fsync

    def full(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) >= failing:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flush(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(
            PosattnError, match=r"No space left on device\. Nothing there was changed; check the folder"
        ):
            run(steps, tmp_path, checkpoint_every=1e-9)
    assert len(calls) == failing
    done = [trial for trial in steps if (tmp_path / trial.id / "metrics.json").exists()]
    assert len(done) == max(0, failing - 7) // 3
    frame = engine.frame(tmp_path)
    assert len(frame) == 3 * len(done)
    for trial in done:
        posattn.load(tmp_path / trial.id / "weights.safetensors")
    before = {path: path.read_bytes() for trial in done for path in (tmp_path / trial.id).iterdir()}
    again = run(steps, tmp_path, checkpoint_every=1e-9)
    assert all(path.read_bytes() == content for path, content in before.items())
    assert len(again.rows()) == 9
    assert not [path for path in tmp_path.rglob(".*") if path.is_file()]  # no half-written file is left behind


def test_listing_reads_files_and_puts_no_trial_together(tmp_path, monkeypatch):
    trials = [small_trial(seed=seed) for seed in range(3)]
    store = run(trials, tmp_path)

    def put_together(text):
        raise AssertionError("a store of 10,000 trials would take ten seconds to list")

    monkeypatch.setattr("posattn.train.identity.read", put_together)
    assert {one.trial for one in engine.listing(store)} == {trial.id for trial in trials}
