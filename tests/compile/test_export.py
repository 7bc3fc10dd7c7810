"""Compiled programs in other runtimes: equal bit for bit where that is claimed, within twice the bound elsewhere."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from posattn import PosattnError
from posattn.compile import Compiled, compile, export, library
from posattn.compile.export import guarantee
from posattn.compile.verify_inputs import adversarial_inputs, random_inputs

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.usefixtures("as_users_run_it")

SMALL: dict[str, tuple[int, dict[str, Any]]] = {
    "sort": (2, {}),
    "cumsum": (3, {}),
    "max-subarray": (2, {}),
    "argsort": (2, {}),
    "fetch": (2, {"route": "grid"}),
}
#: What runtimes agree on, and in which dtype that is tried in onnxruntime: a file takes two seconds to make.
FILES = {
    "sort": (torch.float32, "bit for bit: every sum that matters has at most two terms that are not 0"),
    "max-subarray": (torch.float32, "within 0.00584: twice the certificate's bound"),
    "argsort": (torch.float64, "bit for bit: no operation rounds"),
}
#: What is exported for PyTorch alone; files are made from such exports, in the other dtypes.
EXPORTED = [
    ("sort", torch.float64),
    ("cumsum", torch.float32),
    ("max-subarray", torch.float64),
    ("argsort", torch.float32),
    ("fetch", torch.float32),
]


@cache
def made(name: str, dtype: torch.dtype = torch.float32) -> Compiled:
    length, options = SMALL[name]
    return compile(library.get(name, length, **options), dtype=dtype).verify(samples=8)


def inputs(compiled: Compiled) -> torch.Tensor:
    """Random and adversarial ones; their last bits differ from those that `to_onnx` tries."""
    rng, dtype = np.random.default_rng(7), str(next(compiled.model.parameters()).dtype).removeprefix("torch.")
    drawn = random_inputs(compiled.program, compiled.domain, 200, rng)
    return torch.from_numpy(
        np.concatenate([drawn, adversarial_inputs(compiled.program, compiled.domain, rng, dtype)]).astype(dtype)
    )


def apart(found: torch.Tensor, compiled: Compiled, x: torch.Tensor) -> float:
    with torch.no_grad():
        expected = compiled.model(x)
    assert found.shape == expected.shape
    assert bool(expected.isfinite().all())
    return float((found - expected).abs().max())


def ran(path: Path, x: torch.Tensor, level: str = "ALL") -> torch.Tensor:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0])


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_as_near_to_its_model_as_it_says(name: str, tmp_path: Path) -> None:
    dtype, said = FILES[name]
    compiled, path = made(name, dtype), tmp_path / "model.onnx"
    found, x = compiled.to_onnx(path), inputs(compiled)
    assert str(found.guarantee).startswith(said)
    about = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    assert about["agreement"] == str(found.guarantee)
    assert about["program"] == name
    for level in ("BASIC", "ALL"):
        assert apart(ran(path, x, level), compiled, x) <= found.guarantee.bound
    assert apart(ran(path, x[:1]), compiled, x[:1]) <= found.guarantee.bound
    assert not any(node.op_type == "Softmax" for node in onnx.load(path).graph.node)


@pytest.mark.parametrize(("name", "dtype"), EXPORTED)
def test_an_exported_program_computes_what_its_model_computes(name: str, dtype: torch.dtype) -> None:
    compiled = made(name, dtype)
    hardened, x, known = compiled.harden().hardened, inputs(compiled), guarantee(compiled)
    assert hardened is not None
    assert known is not None
    exported = torch.export.export(hardened, (x[:3],), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)).module()
    for some in (x, x[:1]):
        assert apart(exported(some).detach(), compiled, some) <= known.bound


def test_a_model_with_its_attention_is_exported_too() -> None:
    compiled = made("sort")
    x = inputs(compiled)
    exported = torch.export.export(compiled.model, (x[:3],), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)).module()
    assert apart(exported(x).detach(), compiled, x) == 0


def test_a_runtime_that_is_further_off_is_noticed_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "translated", lambda *_: onnx.ModelProto())
    monkeypatch.setattr(export, "session_of", lambda *_: OneUnitOff())
    with pytest.raises(PosattnError, match=r"differs from the model by .*bit for bit.* Nothing was written"):
        made("sort").to_onnx(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


class OneUnitOff:
    """A runtime that sorts, and is off by one unit in the last place."""

    def get_inputs(self) -> list[Any]:
        return [type("Entry", (), {"name": "x"})]

    def run(self, _: Any, given: dict[str, np.ndarray]) -> list[np.ndarray]:
        return [np.nextafter(np.sort(given["x"], axis=1), np.float32(np.inf))]


def test_a_proof_is_what_the_bound_comes_from_where_it_is_the_smaller() -> None:
    pytest.importorskip("z3")
    compiled = made("max-subarray").proved()
    assert compiled.proof is not None
    known, before = guarantee(compiled), guarantee(made("max-subarray"))
    assert known is not None
    assert before is not None
    assert known.bound == 2 * (compiled.proof.bound or 0) < before.bound
    assert "twice the proved bound" in known.why


def test_without_a_certificate_nothing_is_claimed(tmp_path: Path) -> None:
    bare = compile(library.get("sort", 2))
    assert guarantee(bare) is None
    with pytest.raises(PosattnError, match=r"'sort' has no certificate that holds.*\.verify\(\)"):
        bare.to_onnx(tmp_path / "model.onnx")


def test_a_certificate_of_other_weights_is_refused() -> None:
    with pytest.raises(PosattnError, match=r"has changed since it was verified"):
        guarantee(replace(made("sort"), certificate=made("cumsum").certificate))
