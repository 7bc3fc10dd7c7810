"""Models as ONNX files, each compared with its model in onnxruntime before it is written. Needs the extra `onnx`."""

import copy
import logging
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from posattn import checks
from posattn.errors import PosattnError, missing_extra, require
from posattn.files import write_whole
from posattn.nn.example_inputs import Inputs, inputs_of
from posattn.nn.hardened import HardenedTransformer
from posattn.nn.module import Model
from posattn.nn.onnx_agreement import OUTPUT, Exportable, compared
from posattn.version import __version__


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
    model: Exportable,
    path: str | os.PathLike[str],
    *,
    length: int | None = None,
    tolerance: float | None = None,
    seed: int = 0,
) -> OnnxFile:
    """Write a model as an ONNX file, unless onnxruntime gives other answers than the model does.

    Batches may have any size; so may inputs' lengths, up to the model's, where it takes shorter ones. The file of a
    looped model or of hop tables is for one length.

    Args:
        model: of any kind, or a hardened one. A compiled program has a `to_onnx` of its own, with what is known of it.
        path: the file to write.
        length: of a looped model or hop tables, how many nodes an input has, n·n for graphs and tables; None: 8, or
            4 × 4.
        tolerance: the largest error that is allowed, relative to the largest output; None is what roundings can
            account for.
        seed: of the random inputs that are tried.
    """
    checks.instance(
        "model",
        model,
        (Model, HardenedTransformer),
        fix="pass a model of posattn.nn; compiled programs have .to_onnx(path)",
    )
    path = checks.path("path", path)
    if tolerance is not None:
        tolerance = checks.real("tolerance", tolerance)
        require(tolerance > 0, f"tolerance={tolerance}: an error, relative to the largest output, above 0.")
    generator = torch.Generator().manual_seed(checks.whole("seed", seed, least=0))
    model = copy.deepcopy(model).cpu()
    taken = inputs_of(model)
    if length is not None:
        length, of_length = checks.whole("length", length, least=1), taken.of_length
        if of_length is None:
            raise PosattnError(f"length={length}: only a looped model's file is for one length. Leave it out.")
        taken = of_length(length)
    written = translated(model, taken, generator)
    found = compared(model, taken, written.SerializeToString(), tolerance, generator)
    require(
        found.holds,
        f"'{path}': onnxruntime differs from the model by {found.error:.2g} of the largest output, and roundings "
        f"account for {found.bound:.2g}. Nothing was written; pass tolerance= if that is good enough.",
    )
    about = {
        "posattn": __version__,
        "architecture": model.architecture.to_json(),
        "error": f"{found.error:.3g} of the largest output, in onnxruntime on random inputs",
    }
    write_graph(path, written, about)
    inputs, output = shapes_of(written)
    return OnnxFile(
        path=str(path),
        inputs=inputs,
        output=output,
        error=found.error,
        bound=found.bound,
        tried=found.tried,
    )


def write_graph(path: str | os.PathLike[str], graph: Any, about: Mapping[str, str]) -> None:
    """The file, with what is said about it as metadata."""
    for name, text in about.items():
        graph.metadata_props.add(key=name, value=text)
    write_whole(path, graph.SerializeToString())


def shapes_of(graph: Any) -> tuple[dict[str, tuple[int | str, ...]], tuple[int | str, ...]]:
    """The inputs' shapes by name, and the output's."""
    (output,) = graph.graph.output
    return {entry.name: _shape(entry) for entry in graph.graph.input}, _shape(output)


def translated(model: Exportable, taken: Inputs, generator: torch.Generator) -> Any:
    """The model as an ONNX graph."""
    try:
        import onnx  # noqa: F401 (torch.onnx writes with both)
        import onnxscript  # noqa: F401
    except ImportError:
        raise missing_extra("writing ONNX files", "onnx") from None
    inputs = taken.draw({"batch": 3} | taken.usual, generator)
    dynamic = tuple(dict.fromkeys(axes, torch.export.Dim.DYNAMIC) for axes in taken.axes)
    with _quiet():
        program = torch.export.export(model, inputs, dynamic_shapes=dynamic)
        try:
            made = torch.onnx.export(
                program,
                (),
                dynamo=True,
                verbose=False,
                output_names=[OUTPUT],
                custom_translation_table=_exact_scalars(),
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
