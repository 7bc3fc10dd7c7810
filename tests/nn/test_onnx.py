"""Models as ONNX files: onnxruntime computes what the model computes, and a file that does not is never written."""

import sys
from pathlib import Path
from typing import Any

import jaxtyping
import numpy as np
import pytest
import torch

import posattn.nn
from posattn import PosattnError
from posattn.compile import compile, library
from posattn.nn import onnx as onnx_file
from posattn.nn import to_onnx
from posattn.nn.example_inputs import inputs_of

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.usefixtures("as_users_run_it")

SIZES: dict[str, Any] = {"length": 5, "embed_dim": 6, "layers": 1, "hidden_dim": 7}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "positional": ("PositionalTransformer", SIZES | {"encoding": "sinusoidal", "constants": "binary"}),
    "positional-placed": ("RandomPlacesTransformer", SIZES),
    "standard": ("StandardTransformer", SIZES | {"encoding": "parabolic", "rotary": True}),
    "hybrid": ("HybridTransformer", SIZES),
    "mixed-standard": ("MixedStandardTransformer", SIZES | {"characters": 3, "vocabulary": 11}),
    "mixed-gated": ("MixedGatedModel", {"compared": ((((0, 2),),), (((1, 2),),)), "characters": 3, "hidden_dim": 4}),
    "hop-tables": ("HopTablesModel", {"letters": 3, "hops": 2, "heads": 2, "hidden_dim": 4}),
    "gpt": ("GPT", {"vocabulary": 7, "length": 5, "embed_dim": 6, "heads": 2, "layers": 1}),
    "selector": ("SelectorTransformer", {"length": 6, "dim": 2, "encoding": "one-hot", "deviation": 0.5}),
    "connected": ("FullyConnectedNetwork", {"length": 5, "dim": 2, "widths": (4, 3)}),
}
#: Kinds that are tried in float64: their scale of attention is not a power of two, which float32 would hold.
DOUBLE = ("hybrid",)


def made(name: str) -> posattn.nn.Model:
    kind, options = MODELS[name]
    model = getattr(posattn.nn, kind)(**options, generator=torch.Generator().manual_seed(3))
    return model.double() if name in DOUBLE else model


def ran(path: Path, inputs: tuple[torch.Tensor, ...]) -> np.ndarray:
    basic = onnxruntime.SessionOptions()
    basic.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    session = onnxruntime.InferenceSession(path, basic, providers=["CPUExecutionProvider"])
    return session.run(None, {entry.name: x.numpy() for entry, x in zip(session.get_inputs(), inputs, strict=True)})[0]


@pytest.mark.parametrize("name", MODELS)
def test_a_file_computes_what_its_model_computes_at_every_size(name: str, tmp_path: Path) -> None:
    model, path = made(name), tmp_path / "model.onnx"
    found, taken = to_onnx(model, path), inputs_of(model)
    assert found.error <= found.bound < (1e-12 if name in DOUBLE else 1e-3)
    for batch, less in ((1, 0), (7, 1), (2, 2), (4, -2)):
        most = {key: min(size - less, taken.most.get(key, 99)) for key, size in taken.usual.items()}
        inputs = taken.draw({"batch": batch} | most | ({"subset": 1} if "subset" in most else {}), torch.Generator())
        expected = model(*inputs).detach().numpy()
        assert np.abs(ran(path, inputs) - expected).max() <= found.bound * np.abs(expected).max()


@pytest.mark.parametrize("length", [1, 5])
def test_a_looped_model_is_written_for_the_length_that_is_asked_for(length: int, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    model = posattn.nn.LoopedPositionalTransformer(schedule="bitonic", symmetry=("scale", "shift"), hidden_dim=4)
    found = to_onnx(model, path, length=length)
    assert found.inputs == {"x": ("batch", length, 1)}
    x = torch.randn(3, length, 1, generator=torch.Generator().manual_seed(0))
    assert np.abs(ran(path, (x,)) - model(x).detach().numpy()).max() <= 1e-5


def test_other_models_have_no_length_to_be_asked_for(tmp_path: Path) -> None:
    with pytest.raises(PosattnError, match="length=5: only a looped model's file is for one length"):
        to_onnx(made("connected"), tmp_path / "model.onnx", length=5)


def test_a_compiled_program_is_exact_in_onnxruntime(tmp_path: Path) -> None:
    """A sum of one word and zeros is that word, in any order of summation."""
    sorter, path = compile(library.get("sort", 4)), tmp_path / "sort.onnx"
    to_onnx(sorter.model, path)
    x = torch.tensor([[3.0, -1.0, 2.0, 7.0]])[..., None]
    assert ran(path, (x,)).ravel().tolist() == [-1.0, 2.0, 3.0, 7.0]


@pytest.fixture(scope="module")
def connected() -> Any:
    """A model and its translation."""
    model = made("connected")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which `as_users_run_it` does for one test
        return model, onnx_file.translated(model, inputs_of(model), torch.Generator())


@pytest.fixture
def translated(connected: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A copy of the translation, which the next file is written from."""
    copied = type(connected[1])()
    copied.CopyFrom(connected[1])
    monkeypatch.setattr(onnx_file, "translated", lambda *_: copied)
    return copied


def test_axes_have_names_and_the_file_says_what_it_holds_and_how_well_it_agrees(
    connected: Any, translated: Any, tmp_path: Path
) -> None:
    model, path = connected[0], tmp_path / "model.onnx"
    found = to_onnx(model, path)
    assert found.inputs == {"x": ("batch", 5, 2), "subset": ("batch", "subset"), "key": ("batch",)}
    assert found.output == ("batch", 2)
    assert found.tried == {"batch": (1, 16), "subset": (1, 3)}
    about = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    assert posattn.nn.from_json(about["architecture"]) == model.architecture
    assert about["error"].startswith(f"{found.error:.3g} of the largest output")


def test_a_corrupted_weight_is_noticed_and_nothing_is_written(connected: Any, translated: Any, tmp_path: Path) -> None:
    path, held = tmp_path / "model.onnx", translated.graph.initializer
    weight = next(entry for entry in held if len(entry.dims) == 2)
    array = onnx.numpy_helper.to_array(weight).copy()
    array[0, 0] *= 1.01
    weight.CopyFrom(onnx.numpy_helper.from_array(array, weight.name))
    with pytest.raises(PosattnError, match=r"differs from the model by .* Nothing was written"):
        to_onnx(connected[0], path)
    assert not list(tmp_path.iterdir())
    assert to_onnx(connected[0], path, tolerance=0.1).bound == 0.1


@pytest.mark.usefixtures("translated")
def test_what_onnxruntime_cannot_run_is_refused(
    connected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("NOT_IMPLEMENTED : Erf(13)")

    monkeypatch.setattr(onnxruntime, "InferenceSession", refuse)
    with pytest.raises(PosattnError, match=r"cannot run this connected model in torch\.float32 .*Erf.*\.float\(\)"):
        to_onnx(connected[0], tmp_path / "model.onnx")


def test_what_onnx_has_no_form_of_is_refused_by_name(tmp_path: Path) -> None:
    model = posattn.nn.SelectorTransformer(length=6, dim=2, encoding_dim=8)
    with pytest.raises(PosattnError, match=r"selector model .*torch\.ops\.aten\..*torch\.export"):
        to_onnx(model, tmp_path / "model.onnx")


def test_without_the_extra_the_error_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(PosattnError, match=r"pip install 'posattn\[onnx\]'"):
        to_onnx(made("connected"), tmp_path / "model.onnx")
