"""Compiled programs as ONNX files, with what is known of how far onnxruntime can be from the model.

The file holds the hardened model: reads in place of attention, so that nothing rests on a runtime's softmax. What both
compute is

    equal bit for bit     where the order of summation cannot matter (`summation_order`), or where no operation rounds;
    within 2·bound        otherwise: bound ≥ |model(x) − program(x)| in any order of summation, so it holds for each.

Signs of zeros aside. Either is what theory says, and is tried in onnxruntime before the file is written.
"""

import copy
import os
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from posattn import checks
from posattn.compile.certificate import Certificate
from posattn.compile.input_ranges import Domain, largest_bound, shown_domain, shown_grid
from posattn.compile.lowering.fits import Fitted
from posattn.compile.program import Program
from posattn.compile.proof.record import Proof
from posattn.compile.summation_order import order_matters
from posattn.compile.verify_inputs import adversarial_inputs, random_inputs
from posattn.errors import PosattnError, require
from posattn.nn import ExactPositionalTransformer
from posattn.nn.example_inputs import inputs_of
from posattn.nn.hardened import HardenedTransformer
from posattn.nn.onnx import shapes_of, translated, write_graph
from posattn.nn.onnx_agreement import OUTPUT, session_of
from posattn.version import __version__

#: Random inputs that are tried before a file is written; adversarial ones come on top.
SAMPLES = 64


@runtime_checkable
class Certified(Protocol):
    """What a file is made of, and what is known of it: `posattn.compile.Compiled`."""

    @property
    def program(self) -> Program: ...
    @property
    def model(self) -> ExactPositionalTransformer: ...
    @property
    def hardened(self) -> HardenedTransformer | None: ...
    @property
    def domain(self) -> Domain: ...
    @property
    def registers(self) -> tuple[str, ...]: ...
    @property
    def lines(self) -> tuple[Fitted, ...]: ...
    @property
    def certificate(self) -> Certificate | None: ...
    @property
    def proof(self) -> Proof | None: ...
    def check_records(self) -> None: ...


@dataclass(frozen=True)
class Guarantee:
    """How far two runtimes can be apart on any input of the domain: not at all where the bound is 0."""

    bound: float
    why: str

    def __str__(self) -> str:
        return f"{f'within {self.bound:.3g}' if self.bound else 'bit for bit'}: {self.why}"


@dataclass(frozen=True, kw_only=True)
class OnnxProgram:
    """What was written. An axis that may have any size stands there by its name."""

    path: str
    inputs: dict[str, tuple[int | str, ...]]
    output: tuple[int | str, ...]
    guarantee: Guarantee
    error: float  # the largest difference from the model's output that was seen
    tried: int  # inputs


def guarantee(compiled: Certified) -> Guarantee | None:
    """What is known of any runtime's output, beside the model's; None without a certificate that holds, or a proof."""
    compiled.check_records()
    proof, certificate = compiled.proof, compiled.certificate
    certified = certificate is not None and certificate.holds
    found: list[tuple[float, str]] = []
    if proof is not None and proof.bound is not None:
        found.append((2 * proof.bound, "twice the proved bound"))
    if certificate is not None and certified and certificate.bound is not None:
        bound = certificate.bound * largest_bound(compiled.domain) + certificate.floor
        found.append((2 * bound, "twice the certificate's bound"))
    if not found:
        return None
    least, which = min(found)
    if least == 0:
        return Guarantee(0.0, "no operation rounds")
    order = _order(compiled) if certified else "the weights are not known to be the compiler's"
    if order is None:
        return Guarantee(0.0, "every sum that matters has at most two terms that are not 0")
    return Guarantee(least, f"{which} on |model(x) − program(x)|; the order of summation could matter ({order})")


def _order(compiled: Certified) -> str | None:
    return order_matters(
        compiled.program,
        compiled.model,
        registers=compiled.registers,
        domain=compiled.domain,
        fits=compiled.lines,
    )


@torch.no_grad()
def to_onnx(compiled: Certified, path: str | os.PathLike[str], *, seed: int = 0) -> OnnxProgram:
    """What `Compiled.to_onnx` does."""
    path = checks.path("path", path)
    rng = np.random.default_rng(checks.whole("seed", seed, least=0))
    program, known = compiled.program, guarantee(compiled)
    if known is None:
        raise PosattnError(
            f"'{program.name}' has no certificate that holds, so nothing is known of other runtimes: verify it, "
            ".verify(), or write it as any model, posattn.nn.to_onnx(compiled.model, path)."
        )
    model = copy.deepcopy(compiled.hardened or compiled.model.harden()).cpu()
    graph = translated(model, inputs_of(model), torch.Generator().manual_seed(seed))
    inputs = _inputs(compiled, rng)
    error = _largest_difference(model, inputs, graph.SerializeToString(), program.output_nodes)
    require(
        error <= known.bound,
        f"'{path}': onnxruntime differs from the model by {error:.3g}, and should agree {known}. Nothing was written: "
        "please report it with your version of onnxruntime.",
    )
    about = {
        "posattn": __version__,
        "architecture": model.architecture.to_json(),
        "program": program.name,
        "domain": shown_domain(compiled.domain) + shown_grid(program.grid),
        "agreement": str(known),
    }
    write_graph(path, graph, about)
    shapes, output = shapes_of(graph)
    return OnnxProgram(path=str(path), inputs=shapes, output=output, guarantee=known, error=error, tried=len(inputs))


def _inputs(compiled: Certified, rng: np.random.Generator) -> Tensor:
    """Random and adversarial inputs, with zeros at nodes that have none."""
    program, dtype = compiled.program, str(next(compiled.model.parameters()).dtype).removeprefix("torch.")
    parts = (
        random_inputs(program, compiled.domain, SAMPLES, rng),
        adversarial_inputs(program, compiled.domain, rng, dtype),
    )
    inputs = torch.from_numpy(np.concatenate(parts).astype(dtype))
    return torch.nn.functional.pad(inputs, (0, 0, 0, program.span - program.length))


def _largest_difference(model: HardenedTransformer, inputs: Tensor, file: bytes, nodes: int) -> float:
    """Between onnxruntime and the model, at the nodes that have an output; infinite where one is not a number."""
    session = session_of(model, file)
    (entry,) = session.get_inputs()
    found = torch.from_numpy(session.run([OUTPUT], {entry.name: inputs.numpy()})[0])
    difference = (found - model(inputs))[:, :nodes].abs().max()
    return float(difference.nan_to_num(nan=torch.inf))
