"""Killed at any moment and started again, a run ends bit for bit where the uninterrupted one ends."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from posattn import engine
from posattn.engine import Interrupted, local
from posattn.train import Trial
from posattn.train.numeric_trials import numeric_trials

from . import killed
from .runs import Noting, run, small_trial

#: As many threads as here: bits are compared.
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads())}


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> tuple[Path, Any, str]:
    """The folder of `killed.py`, how often it killed, and what its runs said."""
    folder = tmp_path_factory.mktemp("killed")
    command = [sys.executable, killed.__file__, str(folder)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout), done.stderr


def assert_equal(found: Path, expected: Path, trials: list[Trial]) -> None:
    for trial in trials:
        mine, theirs = found / trial.id, expected / trial.id
        assert (mine / "trial.json").read_bytes() == (theirs / "trial.json").read_bytes()
        weights, whole = (safetensors.torch.load_file(place / "weights.safetensors") for place in (mine, theirs))
        assert weights.keys() == whole.keys()
        assert all(torch.equal(weights[name], whole[name]) for name in whole)
        metrics = [json.loads((place / "metrics.json").read_bytes()) for place in (mine, theirs)]
        assert all(entry.pop("seconds") > 0 and entry.pop("beside") >= 1 for entry in metrics)
        assert metrics[0] == metrics[1]
    assert [path for path in (found / "checkpoints").rglob("*") if path.is_file()] == []


@pytest.mark.xdist_group("killed")
def test_killed_at_random_moments_it_ends_where_the_other_ends(runs):
    folder, counts, said = runs
    assert counts["random"] >= 2
    assert said.count(" of 150.") >= 2  # times that it went on from a checkpoint
    assert_equal(folder / "random", folder / "whole", killed.LONG)
    steps = {row["step"] for row in engine.Store(folder / "random").rows()}
    assert steps == {0, 30, 60, 90, 120, 150}


@pytest.mark.xdist_group("killed")
def test_killed_at_any_change_of_the_disk_it_ends_where_the_other_ends(runs):
    """Between the flush and the rename of a checkpoint, between two results of a fleet, within the clean-up."""
    folder, counts, _ = runs
    assert counts["writes"] > 30
    for number in range(1, counts["writes"] + 1):
        assert_equal(folder / "writes" / str(number), folder / "short", killed.SHORT)


def test_ctrl_c_writes_a_checkpoint_says_how_to_go_on_and_exits_130(tmp_path):
    options = {"length": 2, "seeds": 2, "steps": 300, "samples": 40, "batch": 20}
    command = [
        sys.executable,
        "-m",
        "posattn",
        "train",
        "sum",
        "--json",
        "--device",
        "cpu",
        "--out",
        str(tmp_path / "a"),
    ]
    command += [part for name, value in options.items() for part in (f"--{name}", str(value))]
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert json.loads(first.stdout.readline())["event"] == "start"
        first.send_signal(signal.SIGINT)
        _, said = first.communicate(timeout=60)
    assert first.returncode == 130
    assert said.startswith("posattn: stopped at step ")
    assert said.endswith(" of 300. Run the same command again to go on from there.\n")
    step = int(said.split()[4])
    assert 0 < step < 300
    assert [path.name for path in (tmp_path / "a").glob("checkpoints/*/*.safetensors")] == [f"{step:012d}.safetensors"]
    again = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    events = [json.loads(line) for line in again.stdout.splitlines()]
    assert events[0] == {"event": "message", "message": f"going on from step {step} of 300."}
    assert events[1]["step"] == step
    assert {row["set"] for row in events[-1]["rows"]} == {"train", "c=1", "c=2", "c=3", "c=5", "c=10"}
    trials = numeric_trials(
        "sum", "positional", lr=1e-3, scales=(1, 2, 3, 5, 10), precision="float32", **options
    )  # what the command stands for
    run(trials, tmp_path / "whole")
    assert_equal(tmp_path / "a", tmp_path / "whole", trials)


def test_sigterm_writes_a_checkpoint_says_how_to_go_on_and_exits_143(tmp_path):
    command = [sys.executable, "-m", "posattn", "train", "sum", "--json", "--device", "cpu", "--out", str(tmp_path)]
    command += ["--length", "2", "--steps", "1000000", "--samples", "40", "--batch", "20"]
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert json.loads(first.stdout.readline())["event"] == "start"
        first.send_signal(signal.SIGTERM)
        _, said = first.communicate(timeout=60)
    assert first.returncode == 143
    assert said.startswith("posattn: stopped at step ")
    assert said.endswith(" of 1000000. Run the same command again to go on from there.\n")
    step = int(said.split()[4])
    assert [path.name for path in tmp_path.glob("checkpoints/*/*.safetensors")] == [f"{step:012d}.safetensors"]


class Pressing(Noting):
    """Presses Ctrl-C, `times` times, when a fleet starts; or sends another signal."""

    def __init__(self, times: int, number: int = signal.SIGINT) -> None:
        super().__init__()
        self.times, self.number = times, number

    def start(self, title: str, steps: int, done: int) -> int:
        number = super().start(title, steps, done)
        for _ in range(self.times):
            signal.raise_signal(self.number)
        return number


class PressingLater(Noting):
    """Presses Ctrl-C when the third fleet starts."""

    def start(self, title: str, steps: int, done: int) -> int:
        number = super().start(title, steps, done)
        if number == 2:
            signal.raise_signal(signal.SIGINT)
        return number


def test_ctrl_c_saves_every_fleet_that_is_on_its_way(tmp_path, monkeypatch):
    monkeypatch.setitem(local.BESIDE, "cpu", 3)
    trials = [small_trial(seed=seed, optimiser={"steps": steps}) for steps in (4, 5, 6, 7) for seed in range(2)]
    with pytest.raises(Interrupted, match="stopped at step 3 of 4, and 2 more fleets beside it"):
        run(trials, tmp_path / "a", reporter=PressingLater())
    noting = Noting()
    run(trials, tmp_path / "a", reporter=noting)
    assert sorted((steps, done) for _, steps, done in noting.started) == [(4, 3), (5, 2), (6, 1), (7, 0)]
    run(trials, tmp_path / "whole")
    assert_equal(tmp_path / "a", tmp_path / "whole", trials)


def test_ctrl_c_ends_the_step_first_and_a_later_one_does_not_wait(tmp_path, monkeypatch):
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(Interrupted, match="stopped at step 1 of 4"):
        run([small_trial()], tmp_path, reporter=Pressing(1))
    assert signal.getsignal(signal.SIGINT) is before
    monkeypatch.setattr("posattn.engine.interrupt.REPEAT_SECONDS", -1.0)  # any other one comes later than that
    with pytest.raises(Interrupted, match="stopped at once") as caught:  # by the first signal's code
        run([small_trial()], tmp_path, reporter=Pressing(2))
    assert caught.value.exit_code == 130
    assert signal.getsignal(signal.SIGINT) is before
    assert len(list(tmp_path.glob("checkpoints/*/*.safetensors"))) == 1


@pytest.mark.parametrize("numbers", [(signal.SIGTERM, signal.SIGTERM), (signal.SIGTERM, signal.SIGINT)])
def test_a_signal_that_is_repeated_at_once_costs_no_checkpoint(tmp_path, numbers):
    """Of two within milliseconds, as batch systems send them, the first gives the exit code."""

    class Sending(Noting):
        def start(self, title: str, steps: int, done: int) -> int:
            for number in numbers:
                signal.raise_signal(number)
            return super().start(title, steps, done)

    with pytest.raises(Interrupted, match="stopped at step 1 of 4") as caught:
        run([small_trial()], tmp_path, reporter=Sending())
    assert caught.value.exit_code == 143
    assert len(list(tmp_path.glob("checkpoints/*/*.safetensors"))) == 1


def test_sigterm_ends_the_step_first_and_what_listened_before_listens_again(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Interrupted, match="stopped at step 1 of 4") as caught:
        run([small_trial()], tmp_path, reporter=Pressing(1, signal.SIGTERM))
    assert caught.value.exit_code == 143
    assert signal.getsignal(signal.SIGTERM) is before
    assert len(list(tmp_path.glob("checkpoints/*/*.safetensors"))) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_either_signal_is_heard_after_a_compiler_has_taken_it(tmp_path, number):
    """Triton's does so below Python, where nobody sees it: from then on Ctrl-C would end the process unsaved."""
    program = """
import ctypes, os, signal, sys
from posattn import engine
from posattn.train import Fleet
from tests.engine.runs import run, small_trial

step = Fleet._step

def compiling(fleet, part):
    step(fleet, part)
    if fleet.step == 0:
        ctypes.CDLL(None).signal(int(sys.argv[2]), None)  # the default, which ends the process
    if fleet.step == 2:
        os.kill(os.getpid(), int(sys.argv[2]))

Fleet._step = compiling
try:
    run([small_trial(optimiser={"steps": 9})], sys.argv[1])
except engine.Interrupted as stopped:
    print(stopped)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program, tmp_path, str(int(number))],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("stopped at step 3 of 9.")
    assert len(list(tmp_path.glob("checkpoints/*/*.safetensors"))) == 1


def test_ctrl_c_in_the_last_step_of_the_last_fleet_stops_nothing(tmp_path):
    run([small_trial(optimiser={"steps": 1})], tmp_path, reporter=Pressing(1))
    assert len(engine.frame(tmp_path)) == 3
