"""Stores of older versions: read as they are, moved once, and nothing is lost on the way."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from posattn import PosattnError, studies, tasks
from posattn.engine import Store, store
from posattn.engine import migrate as older
from posattn.report import table
from posattn.studies.core import results
from posattn.tasks import NumericTask
from posattn.train import Trial, identity

from .runs import Noting, run, small_trial

ROOT = Path(__file__).parents[2]
OLDER = json.loads((ROOT / "tests" / "train" / "schema1.json").read_text())
#: Kept beside the checkout, here and wherever the tests run for good.
SHARED = ROOT.parent / "shared" / "results"
SCORE = {"set": "validation", "step": 0, "loss": 0.25, "metric": None}
ABOUT = {"diverged_at": None, "device": "cpu", "fleet": 1, "seconds": 0.0, "version": "0.1.0", "torch": "2"}

assert studies.REGISTRY  # so that their kinds of trials can be read


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def keep(folder: Path, name: str, trial: dict[str, Any], loss: float = 0.25) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "trial.json").write_text(json.dumps(trial, sort_keys=True, separators=(",", ":")))
    (folder / name / "weights.safetensors").write_bytes(name.encode())
    (folder / name / "metrics.json").write_text(json.dumps({"format": 1, "scores": [SCORE | {"loss": loss}]} | ABOUT))


@pytest.fixture
def old(tmp_path) -> Path:
    """A store of format 1 with a trial of every kind."""
    folder = tmp_path / "runs"
    for held in OLDER:
        keep(folder, held["was"], held["trial"])
    (folder / "store.json").write_text('{"format": 1}')
    return folder


def test_an_older_store_is_read_under_the_ids_of_now_and_left_as_it_is(old):
    before, store = snapshot(old), Store(old)
    assert {row["trial"] for row in store.rows()} == {held["is"] for held in OLDER}
    for held in OLDER:
        trial = identity.read(json.dumps(held["trial"]))
        assert store.path(trial) == old / held["was"]
        assert store.finished(trial)
        assert [row["loss"] for row in store.rows({trial.id})] == [0.25]
    assert snapshot(old) == before


def test_a_store_is_moved_once(old):
    notes = Store(old).prepare()
    assert notes == [f"'{old}': {len(OLDER)} results moved to the ids of this version."]
    moved = snapshot(old)
    assert json.loads(moved["store.json"]) == {"format": 2}
    assert {path.name for path in old.iterdir()} == {held["is"] for held in OLDER} | {"store.json"}
    for held in OLDER:
        assert moved[f"{held['is']}/weights.safetensors"] == held["was"].encode()
        assert json.loads(moved[f"{held['is']}/metrics.json"])["scores"] == [SCORE]
        trial = identity.read(moved[f"{held['is']}/trial.json"])
        assert trial == identity.read(json.dumps(held["trial"]))
        assert json.loads(moved[f"{held['is']}/trial.json"])["schema"] == 2
    assert Store(old).prepare() == []
    assert snapshot(old) == moved


class Killed(BaseException):
    """As a signal would end the process."""


@pytest.mark.parametrize("after", [0, 1, 2, 2 * len(OLDER)])
def test_a_move_that_is_cut_short_goes_on_where_it_stopped(after, old, tmp_path, monkeypatch):
    whole = tmp_path / "whole"
    whole.mkdir()
    for name, content in snapshot(old).items():
        (whole / name).parent.mkdir(exist_ok=True)
        (whole / name).write_bytes(content)
    Store(whole).prepare()
    calls = 0

    def counted(work: Any) -> Any:
        def call(*args: Any) -> Any:
            nonlocal calls
            if calls == after:
                raise Killed
            calls += 1
            return work(*args)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", counted(Path.rename))
        patch.setattr(older, "write_whole", counted(older.write_whole))
        patch.setattr(store, "write_json", counted(store.write_json))
        with pytest.raises(Killed):
            Store(old).prepare()
    assert json.loads((old / "store.json").read_text()) == {"format": 1}
    assert {row["trial"] for row in Store(old).rows()} == {held["is"] for held in OLDER}
    Store(old).prepare()
    assert snapshot(old) == snapshot(whole)


def test_a_trial_of_a_task_that_is_not_registered_stays_until_it_is(old, monkeypatch):
    described = json.loads(small_trial().to_json())
    del described["schema"]
    keep(old, "0123456789abcdef", described | {"task": "largest"})
    Store(old).prepare()
    assert json.loads((old / "store.json").read_text()) == {"format": 2, "left": ["0123456789abcdef"]}
    assert (old / "0123456789abcdef" / "metrics.json").is_file()
    largest = NumericTask(name="largest", summary="", function=tasks.get("max").function)
    monkeypatch.setitem(tasks.REGISTRY, "largest", largest)
    trial = small_trial(task="largest")
    assert Store(old).finished(trial)
    Store(old).prepare()
    assert json.loads((old / "store.json").read_text()) == {"format": 2}
    assert (old / trial.id / "weights.safetensors").read_bytes() == b"0123456789abcdef"


def test_of_two_spellings_of_one_trial_the_other_stays_where_it_is(tmp_path):
    short, long = (
        json.loads(small_trial(evaluation={"sets": {"near": near}}).to_json())
        for near in ({"length": 5}, {"length": 5, "low": -2})
    )
    for described in (short, long):
        described["data"]["options"] = {"length": 5, "low": -2}
        del described["schema"]
    keep(tmp_path, "aaaaaaaaaaaaaaaa", short, loss=1.0)
    keep(tmp_path, "bbbbbbbbbbbbbbbb", long, loss=2.0)
    trial = Trial.from_json(json.dumps(long))
    assert trial.id == Trial.from_json(json.dumps(short)).id
    Store(tmp_path).prepare()
    assert [row["loss"] for row in Store(tmp_path).rows({trial.id})] == [1.0]
    assert (tmp_path / "bbbbbbbbbbbbbbbb" / "weights.safetensors").read_bytes() == b"b" * 16
    Store(tmp_path).prepare()
    assert (tmp_path / "bbbbbbbbbbbbbbbb" / "metrics.json").is_file()


def test_checkpoints_of_an_older_version_are_dropped_with_a_word(old):
    fleet = old / "checkpoints" / "feedfeedfeedfeed"
    fleet.mkdir(parents=True)
    (fleet / "trials.json").write_text('["aa", "bb"]')
    (fleet / "000000000004.safetensors").write_bytes(b"")
    noting = Noting()
    run([small_trial()], old, reporter=noting)
    assert f"'{old}': 1 interrupted fleets of an older version cannot go on and start again." in noting.said
    assert not fleet.exists()


def test_a_folder_that_cannot_be_renamed_is_named(old, monkeypatch):
    def refusing(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", refusing)
    with pytest.raises(PosattnError, match=r"cannot rename .*: Permission denied.*make the folder writable"):
        Store(old).prepare()


ARCHIVES = {"rotary": 33, "small-standard": 176, "encodings": 165}


@pytest.mark.parametrize("name", ARCHIVES)
def test_results_of_an_older_version_are_shown_as_it_printed_them(name, tmp_path):
    """The table of every archive beside its store, as the version that trained it wrote both."""
    with tarfile.open(SHARED / f"{name}.tgz") as held:
        held.extractall(tmp_path, filter="data")
    printed = {
        tuple(cell.strip() for cell in line.split("  ") if cell.strip())
        for line in (SHARED / f"{name}.txt").read_text().splitlines()
    }
    folder = tmp_path / "runs"
    assert json.loads((folder / "store.json").read_text()) == {"format": 1}
    rows = table.cells(results.results(name, folder))
    assert len(rows) == ARCHIVES[name]
    assert set(rows) <= printed
    if name == "rotary":  # the smallest
        Store(folder).prepare()
        assert json.loads((folder / "store.json").read_text()) == {"format": 2}
        assert table.cells(results.results(name, folder)) == rows
