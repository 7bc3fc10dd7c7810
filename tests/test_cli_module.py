"""`posattn train --model package.module:factory`: a module of a user's, from the folder that the command runs in."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import runner
from posattn.nn import AnyModule
from posattn.train import Trial
from posattn.train.task_trials import task_trials

MODULE = """
from torch import nn


def mlp(width=3, norm=False):
    middle = nn.BatchNorm1d(4) if norm else nn.Identity()
    return nn.Sequential(nn.Linear(1, width), nn.Tanh(), middle, nn.Linear(width, 1))
"""
TRAIN = ["train", "sum", "--length", 4, "--samples", 8, "--batch", 4, "--scale", 1, "--device", "cpu", "--steps", 2]
TRAIN += ["--model", "mine_here:mlp", "--seeds", 3]


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], as_users_run_it: None
) -> Iterator[Any]:
    (tmp_path / "mine_here.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = list(sys.path)
    yield runner(monkeypatch, capsys)
    assert sys.path == before
    sys.modules.pop("mine_here", None)


def test_a_module_trains_with_its_options_set_and_is_listed(run: Any) -> None:
    result = json.loads(run(*TRAIN, "--set", "model.width=5", "--json").out.splitlines()[-1])
    assert result["changes"] == {"model.width": 5}
    folders = sorted({row["trial"] for row in result["rows"]})
    trials = [Trial.from_json(Path("runs", name, "trial.json").read_text()) for name in folders]
    assert {trial.model for trial in trials} == {AnyModule("mine_here:mlp", width=5)}
    assert {trial.seed for trial in trials} == {0, 1, 2}
    assert "mlp on sum, 3 seeds" in run(*TRAIN, "--set", "model.width=5").out
    assert "mine_here:mlp on sum, seed 2" in run("runs").out


def test_what_cannot_be_mapped_says_so_and_trains_with_the_fleet_off(run: Any) -> None:
    refused = run(*TRAIN, "--set", "model.norm=true")
    assert refused.code == 2
    assert refused.err.count("\n") == 1
    assert "batch norm changes its running means" in refused.err
    assert "--fleet off" in refused.err
    assert run(*TRAIN, "--set", "model.norm=true", "--fleet", "off").code == 0


def test_any_task_of_ours_takes_a_module(run: Any) -> None:
    trials = task_trials("khop", "mine_here:mlp", seeds=1, steps=1, lr=1e-3, precision="float32")
    assert trials[0].model == AnyModule("mine_here:mlp")
    wrong = run("train", "khop", "--model", "mine_here:mlp", "--device", "cpu", "--samples", 4, "--batch", 2)
    assert wrong.code == 2
    assert "mlp fails on inputs of shape" in wrong.err
    assert wrong.err.count("\n") == 1
