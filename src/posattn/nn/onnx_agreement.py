"""How far an ONNX file is from its model, in onnxruntime on random inputs, and how far roundings can take it.

Both compute the same function, so they differ by roundings alone, and that has a bound which can be measured: all
weights and inputs are moved by one unit in the last place, with random signs. What that changes in the output is what
one rounding of every number amounts to, and the longest sum, of n terms, makes n of them.

A float64 file is compared at onnxruntime's basic optimisation level: the default one keeps the scale of attention in
float32, and is off by about 1e-9.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from posattn.errors import PosattnError, missing_extra
from posattn.nn.example_inputs import Inputs
from posattn.nn.hardened import HardenedTransformer
from posattn.nn.module import Model

#: What can be written as ONNX.
Exportable = Model[Any] | HardenedTransformer

OUTPUT = "output"
#: Inputs that are tried at every length.
SAMPLES = 16


@dataclass(frozen=True)
class Agreement:
    """What came out; error and bound are relative to the largest output."""

    error: float  # the largest, at all sizes
    bound: float  # what roundings account for at the sizes where that was
    holds: bool  # whether the error is within its bound at all sizes
    tried: dict[str, tuple[int, ...]]


@torch.no_grad()
def compared(
    model: Exportable, taken: Inputs, file: bytes, tolerance: float | None, generator: torch.Generator
) -> Agreement:
    """How far onnxruntime is from the model, at the usual sizes, at the smallest and, where there is no end, beyond."""
    session = session_of(model, file)
    longer = {name: size + 3 for name, size in taken.usual.items() if name not in taken.most and name != "subset"}
    least = {"batch": 1} | dict.fromkeys(taken.usual, 1)
    trials = [least, {"batch": SAMPLES} | taken.usual, *([{"batch": SAMPLES} | taken.usual | longer] if longer else [])]
    pairs: list[tuple[float, float]] = []
    for sizes in trials:
        inputs = taken.draw(sizes, generator)
        expected = model(*inputs)
        given = {entry.name: x.numpy() for entry, x in zip(session.get_inputs(), inputs, strict=False)}
        found = torch.from_numpy(session.run([OUTPUT], given)[0])
        largest = expected.abs().max().clamp(min=torch.finfo(expected.dtype).tiny)
        allowed = tolerance or _rounding(model, inputs, expected, largest, generator)
        pairs.append((_distance(found, expected, largest), allowed))
    holds = all(error <= bound and math.isfinite(error) for error, bound in pairs)
    return Agreement(*max(pairs), holds, {name: tuple(sizes[name] for sizes in trials) for name in least})


def session_of(model: Exportable, file: bytes) -> Any:
    """A model's file in onnxruntime, on the CPU."""
    try:
        import onnxruntime
    except ImportError:
        raise missing_extra("writing ONNX files", "onnx") from None
    dtype, options = next(model.parameters()).dtype, onnxruntime.SessionOptions()
    if dtype == torch.float64 and isinstance(model, Model):  # above, it would keep the scale of attention in float32
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    try:
        return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no class in common but this
        raise PosattnError(
            f"onnxruntime cannot run this {model.architecture.kind} model in {dtype} ({error!s:.200}): convert the "
            "model, .float()."
        ) from None


def _distance(one: Tensor, other: Tensor, largest: Tensor) -> float:
    """Infinite where their shapes differ, or where one of them is not a number."""
    if one.shape != other.shape:
        return torch.inf
    return float(((one - other).abs().max() / largest).nan_to_num(nan=torch.inf))


def _rounding(
    model: Exportable, inputs: tuple[Tensor, ...], expected: Tensor, largest: Tensor, generator: torch.Generator
) -> float:
    """What roundings can account for, as the top of this file says."""
    unit = torch.finfo(expected.dtype).eps

    def moved(x: Tensor) -> Tensor:
        return x + unit * x * (2 * torch.randint(2, x.shape, generator=generator) - 1) if x.is_floating_point() else x

    state = {name: moved(tensor) for name, tensor in model.state_dict().items()}
    shaken = torch.func.functional_call(model, state, tuple(map(moved, inputs)))
    shapes = [*(held.shape for held in state.values()), *(x.shape[1:] for x in inputs)]
    terms = max(max(shape, default=1) for shape in shapes)
    return terms * (_distance(shaken, expected, largest) + unit)
