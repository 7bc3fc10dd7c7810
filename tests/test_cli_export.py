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
from posattn.nn.onnx import OnnxFile

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


@pytest.mark.usefixtures("as_users_run_it")
def test_an_onnx_file_of_a_compiled_program_agrees_bit_for_bit_and_the_command_says_so(run: Any) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    compile(library.get("cumsum", 2), dtype=torch.float64).verify(samples=4).save("cumsum.safetensors")
    ended = run("export", "cumsum.safetensors")
    assert ended.code == 0
    assert "cumsum.onnx: x (batch × 2 × 1) → (batch × 2 × 1)" in ended.out
    assert "onnxruntime agrees bit for bit: every sum that matters has at most two terms that are not 0." in ended.out
    x = 1000 * torch.rand(500, 2, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    (found,) = onnxruntime.InferenceSession("cumsum.onnx").run(None, {"x": x.numpy()})
    assert torch.equal(torch.from_numpy(found), x.cumsum(1))


def test_a_compiled_program_without_a_certificate_is_exported_as_any_model(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def written(model: Any, path: str, *, length: None) -> OnnxFile:
        return OnnxFile(
            path=path, inputs={"x": model(torch.ones(1, 2, 1)).shape}, output=(), error=0, bound=1, tried={}
        )

    monkeypatch.setattr(posattn.nn, "to_onnx", written)
    compile(library.get("broadcast", 2)).save("bare.safetensors")
    ended = run("export", "bare.safetensors")
    assert ended.code == 0
    assert "bare.onnx: x (1 × 2 × 1)" in ended.out
    assert "roundings allow 1." in ended.out
