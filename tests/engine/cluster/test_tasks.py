"""Worker, task and writer without Ray in between: what is sent, kept, kept once, and kept in spite of a full disk."""

import errno
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from posattn import PosattnError, engine, files, plugins
from posattn.engine import EarlyStop, Store
from posattn.engine.cluster import job as jobs
from posattn.engine.cluster import writer as writing
from posattn.engine.cluster.job import Job
from posattn.engine.cluster.tasks import LOSSES, Task
from posattn.engine.cluster.worker import work
from posattn.engine.cluster.writer import Writer
from posattn.nn import Positional
from posattn.train import Data, Evaluation, Optimiser, Trial

GIVEN: dict[str, Any] = {"device": "cpu", "threads": 1, "checkpoint_every": 1e-6, "together": True}


class Told(engine.Reporter):
    def __init__(self) -> None:
        self.said: list[str] = []
        self.open: list[int] = []

    def start(self, title: str, steps: int, done: int) -> int:
        self.open.append(done)
        return done

    def update(self, number: int, step: int, losses: list[float]) -> None: ...

    def end(self, number: int) -> None:
        self.open.remove(number)

    def say(self, message: str) -> None:
        self.said.append(message)

    def __exit__(self, *_: Any) -> None: ...


def trials(count: int = 2, steps: int = 6, **fields: Any) -> list[Trial]:
    return [
        Trial(
            **{"task": "sum", "model": Positional(length=5, embed_dim=6, hidden_dim=7, layers=2)} | fields,
            data=Data(samples=24, batch=6, options={"length": 5}),
            optimiser=Optimiser(steps=steps, lr=1e-2),
            evaluation=Evaluation(samples=11, sets={"near": {}, "far": {"low": -6.0}}, every=2),
            seed=seed,
        )
        for seed in range(count)
    ]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    found = Store(tmp_path / "store")
    found.prepare()
    return found


@pytest.fixture
def told() -> Told:
    return Told()


def task(some: list[Trial], store: Store, told: Told, **more: Any) -> Task:
    return Task(Job.of(some, **GIVEN | more).to_json(), some, Writer(store, (), told), told)


def pieces(one: Task) -> Generator[tuple[str, dict[str, bytes]]]:
    yield from work(one.job, one.checkpoints())


def carry_out(one: Task) -> None:
    for text, sent in pieces(one):
        one.take(text, sent)


def contents(store: Store) -> dict[str, Any]:
    """All results, without the time that they took and the machine; files of weights have no order of their own."""
    found: dict[str, Any] = {}
    for path in sorted(store.folder.glob("*/*")):
        if path.name == "metrics.json":
            held = json.loads(path.read_bytes())
            found[f"{path.parent.name}/{path.name}"] = {**held, "seconds": 0, "host": ""}
        elif path.name == "weights.safetensors":
            held = safetensors.torch.load_file(path)
            found[f"{path.parent.name}/{path.name}"] = {name: held[name].tolist() for name in sorted(held)}
        elif path.parent.name != "checkpoints":
            found[f"{path.parent.name}/{path.name}"] = path.read_bytes()
    return found


@pytest.fixture
def expected(tmp_path: Path) -> dict[str, Any]:
    return contents(engine.run(trials(), out=tmp_path / "local", device="cpu", reporter=Told()))


def test_a_job_leaves_the_files_of_a_local_run(store: Store, told: Told, expected: dict[str, Any]) -> None:
    one = task(trials(), store, told)
    one.writer.announce(trials())
    carry_out(one)
    assert one.done
    assert told.open == []
    assert contents(store) == expected
    assert not list(store.checkpoints.glob("*"))


def test_a_lost_task_goes_on_from_the_last_checkpoint_that_was_sent(
    store: Store, told: Told, expected: dict[str, Any]
) -> None:
    one = task(trials(), store, told)
    stream = pieces(one)
    while not list(store.checkpoints.glob("*/*.safetensors")):
        one.take(*next(stream))
    stream.close()
    one.lost("the node is dead.")
    assert told.open == []
    again = list(pieces(one))
    for piece in again:
        one.take(*piece)
    assert any("going on from step" in line for line in told.said)
    assert contents(store) == expected


def test_a_fleet_that_runs_twice_adds_no_second_row_and_changes_none(store: Store, told: Told) -> None:
    one = task(trials(), store, told)
    for text, sent in pieces(one):
        one.take(text, sent)
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in store.folder.glob("*/*")}
    carry_out(one)
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in store.folder.glob("*/*")} == before


def test_a_result_that_makes_way_is_replaced_once(store: Store, told: Told) -> None:
    some = trials(1)
    one = task(some, store, told)
    for text, sent in pieces(one):
        one.take(text, sent)
    metrics = store.path(some[0]) / "metrics.json"
    content = {"trial.json": b"{}", "metrics.json": json.dumps({"new": 1}).encode()}
    content["trial.json"] = (store.path(some[0]) / "trial.json").read_bytes()
    writer = Writer(store, {some[0].id}, told)
    writer.result(some[0], content, "here")
    assert json.loads(metrics.read_bytes()) == {"new": 1, "host": "here"}
    writer.result(some[0], {**content, "metrics.json": b'{"new": 2}'}, "here")
    assert json.loads(metrics.read_bytes())["new"] == 1


def test_results_wait_in_memory_for_space(
    store: Store, told: Told, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    one = task(trials(), store, told)
    made = list(pieces(one))
    with monkeypatch.context() as patch:
        patch.setattr(files, "_replace", full)
        patch.setattr(writing, "WAIT", 0.0)
        for piece in made[:-1]:
            one.take(*piece)
        assert one.checkpoints()  # from memory
        one.take(*made[-1])
        assert not one.writer.flush()
        assert len(one.writer.waiting) == 2
        assert contents(store) == {}
        assert sum("Results wait in memory" in line for line in told.said) == 1
    assert one.writer.flush()
    assert contents(store) == expected
    assert told.said[-1] == "there is space again: all results are written."


def test_another_reason_not_to_write_is_an_error(store: Store, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    one = task(trials(1), store, told)
    ((_, sent),) = [piece for piece in pieces(one) if any(name.endswith("metrics.json") for name in piece[1])]
    monkeypatch.setattr(files, "_replace", refused)
    with pytest.raises(PosattnError, match="Permission denied"):
        one.take("[]", sent)


def test_a_task_that_is_lost_again_and_again_is_given_up(store: Store, told: Told) -> None:
    one = task(trials(1), store, told)
    for _ in range(LOSSES - 1):
        one.lost("dead.")
    with pytest.raises(PosattnError, match=rf"was lost {LOSSES} times in a row.*What was finished is kept"):
        one.lost("dead.")


def test_fleets_stop_early_there_as_here(store: Store, told: Told) -> None:
    some = trials()
    rule = EarlyStop("near", {some[0].id: {2: -1.0}, "others": {2: 5.0}})
    one = task(some, store, told, early_stop=jobs.early_stop_fields(rule, some))
    carry_out(one)
    assert set(one.left_out) == {trial.id for trial in some}
    assert contents(store) == {}


def test_another_version_on_a_node_is_said(store: Store, told: Told) -> None:
    one = task(trials(1), store, told, version="0.0.1")
    with pytest.raises(PosattnError, match=r"posattn .* is installed there, and 0\.0\.1 here: install the same"):
        carry_out(one)


def test_users_files_travel_as_text(store: Store, told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from posattn import tasks

    mine = tmp_path / "cluster_task.py"
    mine.write_text(
        "import torch\nfrom posattn import tasks\n\n\ndef double(x):\n    return 2 * x\n\n\n"
        "tasks.register(tasks.NumericTask('cluster-double', 'twice', double))\n"
    )
    plugins.load(mine)
    some = trials(1, task="cluster-double")
    sent_files, names = jobs.plugins(), jobs.modules(some)
    (name,) = [name for name, text in sent_files.items() if text == mine.read_text()]
    assert not any(name.startswith(plugins.PREFIX) for name in names)
    hashed = some[0].task_source
    del tasks.REGISTRY["cluster-double"]  # as on a node, which has never seen it
    monkeypatch.delitem(__import__("sys").modules, name)
    one = task(some, store, told, modules=names, plugins=sent_files)
    try:
        for text, sent in pieces(one):
            one.take(text, sent)
        assert hashed is not None
        assert {row["task_source"] for row in store.rows()} == {hashed.hash}
    finally:
        tasks.REGISTRY.pop("cluster-double", None)
    assert torch.isfinite(torch.tensor([row["loss"] for row in store.rows() if row["set"] == "near"])).all()


def test_a_task_of_a_script_is_refused_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    from posattn import tasks

    def double(x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    double.__module__ = "__main__"
    tasks.register(tasks.NumericTask("script-double", "twice", double))
    try:
        with pytest.raises(PosattnError, match=r"defined in the script that runs.*--plugin mine\.py"):
            jobs.modules(trials(1, task="script-double"))
    finally:
        del tasks.REGISTRY["script-double"]
