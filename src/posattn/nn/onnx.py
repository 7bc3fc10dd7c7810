"""Models as ONNX files, each compared with its model in onnxruntime before it is written. Needs the extra `onnx`.

What both compute differs by roundings alone, so their distance has a bound that can be measured: `SAMPLES` inputs are
moved together with all weights by one unit in the last place, with random signs. What that changes in the output is
what one rounding of every number amounts to, and the longest sum of n terms makes n of them.

A float64 file is compared at onnxruntime's basic optimisation level: the default one keeps the scale of attention in
float32, and is off by about 1e-9.
"""

import copy
import logging
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from posattn import checks
from posattn.errors import PosattnError, missing_extra, require
from posattn.files import write_whole
from posattn.nn.example_inputs import Inputs, inputs_of
from posattn.nn.module import Model
from posattn.version import __version__

OUTPUT = "output"
#: Inputs that are tried at every length.
SAMPLES = 16


@dataclass(frozen=True, kw_only=True)
class OnnxFile:
    """What was written. An axis that may have any size stands there by its name."""

    path: str
    inputs: dict[str, tuple[int | str, ...]]
    output: tuple[int | str, ...]
    error: float  # the largest difference from the model's output, relative to the largest output
    bound: float  # what roundings can account for, or the tolerance that was asked for; also relative
    tried: dict[str, tuple[int, ...]]  # the sizes at which it was compared


def to_onnx(
    model: Model, path: str | os.PathLike[str], *, tolerance: float | None = None, seed: int = 0
) -> OnnxFile:
    """Write a model as an ONNX file, unless onnxruntime gives other answers than the model does.

    Batches may have any size; so may inputs' lengths, up to the model's, where it takes shorter ones.

    Args:
        model: of any kind; of a compiled program its `.model`.
        path: the file to write.
        tolerance: the largest error that is allowed, relative to the largest output; None is what roundings can
            account for.
        seed: of the random inputs that are tried.
    """
    checks.instance("model", model, Model, fix="pass a model of posattn.nn, of a compiled program its .model")
    path = checks.path("path", path)
    if tolerance is not None:
        tolerance = checks.real("tolerance", tolerance)
        require(tolerance > 0, f"tolerance={tolerance}: an error, relative to the largest output, above 0.")
    generator = torch.Generator().manual_seed(checks.whole("seed", seed, least=0))
    model, taken = copy.deepcopy(model).cpu(), inputs_of(model)
    written = _translated(model, taken, generator)
    found = _compared(model, taken, written.SerializeToString(), tolerance, generator)
    require(
        found.error <= found.bound,
        f"'{path}': onnxruntime differs from the model by {found.error:.2g} of the largest output, and roundings "
        f"account for {found.bound:.2g}. Nothing was written; pass tolerance= if that is good enough.",
    )
    about = {
        "posattn": __version__,
        "architecture": model.architecture.to_json(),
        "error": f"{found.error:.3g} of the largest output, in onnxruntime on random inputs",
    }
    for name, text in about.items():
        written.metadata_props.add(key=name, value=text)
    write_whole(path, written.SerializeToString())
    (output,) = written.graph.output
    return OnnxFile(
        path=str(path),
        inputs={entry.name: _shape(entry) for entry in written.graph.input},
        output=_shape(output),
        error=found.error,
        bound=found.bound,
        tried=found.tried,
    )


def _translated(model: Model, taken: Inputs, generator: torch.Generator) -> Any:
    """The model as an ONNX graph."""
    try:
        import onnx  # noqa: F401 (torch.onnx writes with both)
        import onnxscript  # noqa: F401
    except ImportError:
        raise missing_extra("writing ONNX files", "onnx") from None
    inputs = taken.draw({"batch": 3} | taken.usual, generator)
    dynamic = tuple({axis: torch.export.Dim.DYNAMIC for axis in axes} for axes in taken.axes)
    with _quiet():
        program = torch.export.export(model, inputs, dynamic_shapes=dynamic)
        try:
            made = torch.onnx.export(
                program, (), dynamo=True, verbose=False, output_names=[OUTPUT], custom_translation_table=_exact_scalars()
            )
        except torch.onnx.errors.OnnxExporterError as error:
            lacking = re.search(r"target=(torch\.ops\.[\w.]+)", str(error.__cause__))
            raise PosattnError(
                f"this {model.architecture.kind} model cannot be written as ONNX (no form of "
                f"{lacking[1] if lacking else error.__cause__ or error}): take it elsewhere by torch.export.export, "
                "which has one for every model, or choose other options for it."
            ) from None
    assert made is not None
    proto = made.model_proto
    _name_axes(proto.graph, taken)
    return proto


def _exact_scalars() -> dict[Any, Any]:
    """Constants in the model's own dtype: PyTorch's translation rounds √d_k to float32 in a float64 model."""
    import onnx
    from onnxscript import opset18 as op

    def scalar(
        s: float, dtype: int = onnx.TensorProto.FLOAT, layout: str = "", device: str = "", pin_memory: bool = False
    ) -> Any:
        return op.Constant(value=onnx.helper.make_tensor("scalar", dtype, (), [s]))

    return {torch.ops.aten.scalar_tensor.default: scalar}


def _name_axes(graph: Any, taken: Inputs) -> None:
    """Call the axes that may have any size "batch" and "length" where the exporter calls them s77 and s27."""
    names: dict[str, str] = {}
    for entry, axes in zip(graph.input, taken.axes, strict=True):
        names |= {entry.type.tensor_type.shape.dim[axis].dim_param: name for axis, name in axes.items()}
    del graph.value_info[:]  # shapes of what lies between: whoever needs them can infer them
    for entry in (*graph.input, *graph.output):
        for dim in entry.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = names.get(dim.dim_param, dim.dim_param)


def _shape(entry: Any) -> tuple[int | str, ...]:
    return tuple(dim.dim_param or dim.dim_value for dim in entry.type.tensor_type.shape.dim)


@dataclass(frozen=True)
class _Agreement:
    error: float
    bound: float
    tried: dict[str, tuple[int, ...]]


@torch.no_grad()
def _compared(
    model: Model, taken: Inputs, file: bytes, tolerance: float | None, generator: torch.Generator
) -> _Agreement:
    """How far onnxruntime is from the model, at the usual sizes, at the smallest and, where there is no end, beyond."""
    try:
        import onnxruntime
    except ImportError:
        raise missing_extra("writing ONNX files", "onnx") from None
    dtype, options = next(model.parameters()).dtype, onnxruntime.SessionOptions()
    if dtype == torch.float64:  # beyond the basic level, onnxruntime keeps the scale of attention in float32
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    try:
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no class in common but this
        raise PosattnError(
            f"onnxruntime cannot run this {model.architecture.kind} model in {dtype} ({str(error):.200}): convert the "
            "model, .float()."
        ) from None
    longer = {name: size + 3 for name, size in taken.usual.items() if name not in taken.most and name != "subset"}
    least = {"batch": 1} | dict.fromkeys(taken.usual, 1)
    trials = [least, {"batch": SAMPLES} | taken.usual, *([{"batch": SAMPLES} | taken.usual | longer] if longer else [])]
    error = bound = 0.0
    for sizes in trials:
        inputs = taken.draw(sizes, generator)
        expected = model(*inputs)
        given = {entry.name: x.numpy() for entry, x in zip(session.get_inputs(), inputs, strict=False)}
        found = torch.from_numpy(session.run([OUTPUT], given)[0])
        largest = expected.abs().max().clamp(min=torch.finfo(expected.dtype).tiny)
        error = max(error, _distance(found, expected, largest))
        bound = max(bound, tolerance or _rounding(model, inputs, expected, largest, generator))
    return _Agreement(error, bound, {name: tuple(sizes[name] for sizes in trials) for name in least})


def _distance(one: Tensor, other: Tensor, largest: Tensor) -> float:
    """Infinite where their shapes differ, or where one of them is not a number."""
    if one.shape != other.shape:
        return torch.inf
    return float(((one - other).abs().max() / largest).nan_to_num(nan=torch.inf))


def _rounding(
    model: Model, inputs: tuple[Tensor, ...], expected: Tensor, largest: Tensor, generator: torch.Generator
) -> float:
    """What roundings can account for: see the top of this file."""
    unit = torch.finfo(expected.dtype).eps

    def moved(x: Tensor) -> Tensor:
        return x + unit * x * (2 * torch.randint(2, x.shape, generator=generator) - 1) if x.is_floating_point() else x

    state = {name: moved(tensor) for name, tensor in model.state_dict().items()}
    shaken = torch.func.functional_call(model, state, tuple(map(moved, inputs)))
    terms = max(max(tensor.shape, default=1) for tensor in (*state.values(), *inputs))
    return terms * (_distance(shaken, expected, largest) + unit)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's warnings, which concern PyTorch's own code, and without its notes on torchvision."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
