"""`--set FIELD=VALUE` of `posattn train` and `posattn run`: what is trained, printed, refused and reported."""

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import runner
from posattn.train.changes import apply
from posattn.train.numeric_trials import numeric_trials

TRAIN = ["train", "sum", "--length", "4", "--samples", "8", "--batch", "4", "--scale", "1", "--device", "cpu"]
STUDY = ["run", "ood-scale", "--task", "sum", "--model", "positional", "--preset", "smoke", "--seeds", "1"]
STUDY += ["--device", "cpu"]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    return runner(monkeypatch, capsys)


def last(text: str) -> dict[str, Any]:
    return json.loads(text.splitlines()[-1])


def test_train_changes_the_trials_that_it_describes(run: Any, tmp_path: Path) -> None:
    sets = ["--set", "optimiser.steps=3", "--set", "model.layers=1", "--set", "optimiser.schedule=constant"]
    result = last(run(*TRAIN, *sets, "--seeds", 2, "--out", tmp_path, "--json").out)
    changes = {"model.layers": 1, "optimiser.schedule": "constant", "optimiser.steps": 3}
    assert result["changes"] == changes
    usual = numeric_trials("sum", "positional", length=4, seeds=2, steps=2000, samples=8, batch=4, lr=1e-3, scales=(1,),
                           precision="float32")  # fmt: skip
    assert {row["trial"] for row in result["rows"]} == {apply(trial, changes).id for trial in usual}
    assert {(row["seed"], row["set"]) for row in result["rows"]} == {
        (s, name) for s in (0, 1) for name in ("train", "c=1")
    }
    printed = run(*TRAIN, *sets, "--seeds", 2, "--out", tmp_path).out
    assert "changed: model.layers=1, optimiser.schedule=constant, optimiser.steps=3\n" in printed


def test_train_without_a_change_says_so_in_json_and_prints_nothing_of_it(run: Any, tmp_path: Path) -> None:
    command = [*TRAIN, "--steps", "1", "--out", tmp_path]
    assert last(run(*command, "--json").out)["changes"] == {}
    assert "changed" not in run(*command).out


@pytest.mark.parametrize(
    ("option", "change", "field"),
    [
        ("--steps=5", "optimiser.steps=3", "optimiser.steps"),
        ("--steps=2000", "optimiser.steps=3", "optimiser.steps"),  # the default, but given
        ("--lr=0.1", "optimiser.lr=0.2", "optimiser.lr"),
        ("--precision=float64", "precision=float32", "precision"),
        ("--samples=8", "data.samples=8", "data.samples"),
        ("--batch=4", "data.batch=4", "data.batch"),
        ("--length=4", "data.options.length=3", "data.options.length"),
        ("--length=4", 'data.options={"length": 3}', "data.options.length"),
        ("--scale=2", 'evaluation.sets={"far": {}}', "evaluation.sets"),
    ],
)
def test_an_option_and_a_change_of_the_same_field_contradict_each_other(
    run: Any, tmp_path: Path, option: str, change: str, field: str
) -> None:
    ended = run("train", "sum", option, "--set", change, "--out", tmp_path)
    given, path = option.partition("=")[0], change.partition("=")[0]
    assert ended == (2, "", f"posattn: {given} and --set {path} both give {field}: give one of them.\n")
    assert not any(tmp_path.iterdir())


def test_run_with_a_change_has_its_own_report_and_the_usual_one_stays(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posattn.report.write", lambda found, out: Path(out, found.record.name))  # the files take time
    changed, name = [*STUDY, "--set", "optimiser.lr=3e-3", "--out", tmp_path], "ood-scale+optimiser.lr=0.003"
    usual = last(run(*STUDY, "--out", tmp_path, "--json").out)
    result = last(run(*changed, "--json").out)
    assert (usual["changes"], result["changes"]) == ({}, {"optimiser.lr": 0.003})
    assert (usual["report"], result["report"]) == (f"{tmp_path}/ood-scale", f"{tmp_path}/{name}")
    assert [row["ours"] for row in usual["rows"]] != [row["ours"] for row in result["rows"]]
    note = "- Changed: optimiser.lr=0.003 (study: 0.001).\n"
    of_the_study, of_the_change = run("report", "ood-scale", "--out", tmp_path), run("report", name, "--out", tmp_path)
    assert (note in of_the_study.out, note in of_the_change.out) == (False, True)
    assert run(*changed).out == of_the_change.out
    assert run("report", tmp_path).out == of_the_study.out + of_the_change.out


@pytest.mark.parametrize("command", ["train", "run"])
def test_help_teaches_by_example(run: Any, command: str) -> None:
    text = " ".join(run(command, "--help").out.split())
    assert "--set" in text
    assert "optimiser.lr=1e-3" in text
