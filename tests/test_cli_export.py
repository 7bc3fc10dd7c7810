"""`posattn export` and `--log`: what leaves the command line for other tools."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import posattn
from command_line import runner
from posattn.compile import Compiled, compile, library
from posattn.nn import Model

SMALL = ["train", "sum", "--steps", "3", "--batch", "10", "--samples", "30", "--scale", "1", "--device", "cpu"]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    monkeypatch.chdir(tmp_path)
    return runner(monkeypatch, capsys)


def test_a_trained_model_is_exported_with_its_training_on_the_card_and_its_run_is_logged(run: Any) -> None:
    assert run(*SMALL, "--log", "run.jsonl", "--log", "tensorboard:board").code == 0
    (weights,) = Path("runs").glob("*/weights.safetensors")
    trial = weights.parent.name
    events = [json.loads(line) for line in Path("run.jsonl").read_text().splitlines()]
    assert [event["event"] for event in events] == ["begin", "scores", "loss", "end"]
    assert {event["trial"] for event in events} == {trial} == {path.name for path in Path("board").iterdir()}
    assert run("export", weights, "--to", "pretrained", "--out", "sum").code == 0
    card = Path("sum/README.md").read_text()
    assert f"Trained on task `sum` for 3 steps, seed 0; trial `{trial}`" in card
    scores = {row["set"]: row["loss"] for row in events[1]["scores"]}
    assert f"| c=1 | {scores['c=1']:.3g} |" in card
    x = torch.randn(2, 8, 1, generator=torch.Generator().manual_seed(0))
    assert torch.equal(Model.from_pretrained("sum")(x), posattn.load(weights)(x))


def test_a_compiled_program_is_exported_whole(run: Any) -> None:
    compile(library.get("sort", 4)).verify(samples=4).save("sort-4.safetensors")
    assert run("export", "sort-4.safetensors", "--to", "pretrained").code == 0
    assert Compiled.from_pretrained("sort-4").certificate is not None


@pytest.mark.usefixtures("as_users_run_it")
def test_an_onnx_file_lies_beside_the_model_and_the_command_says_how_well_it_agrees(run: Any) -> None:
    pytest.importorskip("onnxruntime")
    posattn.nn.FullyConnectedNetwork(length=5, dim=2, widths=(3,)).save("net.safetensors")
    ended = run("export", "net.safetensors")
    assert ended.code == 0
    assert "net.onnx: x (batch × 5 × 2), subset (batch × subset), key (batch) → (batch × 2)" in ended.out
    assert "onnxruntime agrees to" in ended.out
    assert Path("net.onnx").stat().st_size > 100
