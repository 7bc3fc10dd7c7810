"""How well a compiled model agrees with its program: tried on random, adversarial and, where there are few, all inputs.

The promise is a bound that holds for every input of the domain (`error_bound`); a certificate says that the model was
held to it. An error is the largest difference in a sample's outputs, relative to the largest input of that
sample, or to the domain where the program is not in proportion to its inputs. The reference is the interpreter in a
wider dtype than the model's, and for library programs their NumPy oracle too.
"""

import numpy as np
import torch

from posattn.checks import whole
from posattn.compile.certificate import Certificate
from posattn.compile.error_bound import DOMAIN, Promise, promise
from posattn.compile.expressions import Array
from posattn.compile.input_ranges import Domain, largest_bound
from posattn.compile.interpreter import run
from posattn.compile.lengths import model_outputs
from posattn.compile.lowering.fits import Fitted
from posattn.compile.lowering.floats import NUMPY
from posattn.compile.program import Program
from posattn.compile.verify_inputs import (
    adversarial_inputs,
    climbed_inputs,
    exhaustive_inputs,
    filled,
    random_inputs,
    shorter_inputs,
)
from posattn.errors import require
from posattn.nn import ExactPositionalTransformer

#: Samples that go through the model at once.
TOGETHER = 128
#: How many times the search moves on from the inputs that err most, and how many of them it keeps. Where nothing is
#: rounded there is nothing to climb, and it moves on once.
CLIMBS, KEPT = 4, 8


def verify(
    program: Program,
    model: ExactPositionalTransformer,
    *,
    domain: Domain,
    compiled: bool,
    fits: tuple[tuple[str, float], ...] = (),
    lines: tuple[Fitted, ...] = (),
    samples: int = 256,
    seed: int = 0,
) -> Certificate:
    """Compare a model with its program. `compiled`: whether the weights are known to be the compiler's own.

    There is a bound where nothing was fitted, or the errors of all `lines` are proved. The certificate is not sealed.
    """
    samples, seed = whole("samples", samples, least=1), whole("seed", seed, least=0)
    kind = next(model.parameters()).dtype
    dtype = str(kind).removeprefix("torch.")
    require(kind in NUMPY, f"the model is {dtype}: verify it in float32 or float64.")
    bounded = bool(lines) or not fits
    bounded &= all(line.proved for line in lines)
    promised = promise(program, domain, kind, lines) if bounded else None
    relative_to = promised.relative_to if promised else DOMAIN
    search = _Search(program, model, domain, dtype, promised, relative_to)
    rng = np.random.default_rng(seed)
    counts = {
        "random": search.tried(random_inputs(program, domain, samples, rng)),
        "adversarial": search.tried(adversarial_inputs(program, domain, np.random.default_rng(seed + 1), dtype)),
        "exhaustive": search.tried(exhaustive_inputs(program, domain)),
        "climbed": sum(
            search.tried(climbed_inputs(program, domain, search.best, -(-samples // CLIMBS), rng))
            for _ in range(CLIMBS if search.allowed else 1)
        ),
        "shorter": sum(
            search.shorter(inputs)
            for inputs in shorter_inputs(program, domain, samples, np.random.default_rng(seed + 2))
        ),
    }
    return Certificate(
        program=program.name,
        length=program.length,
        domain=domain,
        grid=program.grid,
        dtype=dtype,
        **counts,
        seed=seed,
        against=("the interpreter", "NumPy") if program.oracle else ("the interpreter",),
        error=search.worst,
        bound=promised.bound if promised else None,
        floor=promised.floor if promised else 0.0,
        relative_to=relative_to,
        compiled=compiled,
        fits=fits,
        counterexample=search.counterexample,
        digest="",
    )


class _Search:
    """Tries inputs, and keeps those that err most and the first that errs too much."""

    def __init__(
        self,
        program: Program,
        model: ExactPositionalTransformer,
        domain: Domain,
        dtype: str,
        promised: Promise | None,
        relative_to: str,
    ) -> None:
        self.program, self.model, self.domain, self.dtype = program, model, domain, dtype
        self.scale = largest_bound(domain) if relative_to == DOMAIN else None
        self.floor = promised.floor if promised else 0.0
        self.allowed = promised.bound * (1 + _reference_share(program, dtype)) if promised else None
        self.worst, self.counterexample = 0.0, None
        self.best = np.zeros((0, program.length, len(program.inputs)), dtype)
        self._errors = np.zeros(0)

    def tried(self, inputs: Array) -> int:
        """Try inputs of the whole length, and keep those that err most."""
        for chunk in np.split(inputs, range(TOGETHER, len(inputs), TOGETHER)):
            if len(chunk):
                chunk = chunk.astype(self.dtype)
                errors = relative_errors(self.program, self.model, chunk, self.scale, self.floor)
                self._note(chunk, errors)
                together, found = np.concatenate([self.best, chunk]), np.concatenate([self._errors, errors])
                order = np.argsort(-found, kind="stable")[:KEPT]
                self.best, self._errors = together[order], found[order]
        return len(inputs)

    def shorter(self, inputs: Array) -> int:
        held = inputs.astype(self.dtype)
        errors = shorter_errors(self.program, self.model, self.domain, held, self.scale, self.floor)
        self._note(inputs, errors)
        return len(inputs)

    def _note(self, inputs: Array, errors: Array) -> None:
        self.worst = max(self.worst, float(errors.max()))
        wrong = ~np.isfinite(errors) if self.allowed is None else ~(errors <= self.allowed)
        if self.counterexample is None and wrong.any():
            self.counterexample = tuple(tuple(map(float, row)) for row in inputs[int(np.argmax(wrong))])


def _reference_share(program: Program, dtype: str) -> float:
    """The share of the bound that the reference's own rounding can use up: it adds one by one, in long doubles."""
    finer = float(np.finfo(np.longdouble).eps / np.finfo(dtype).eps)
    return (len(program.rounds) + program.length) * finer


@torch.no_grad()
def relative_errors(
    program: Program,
    model: ExactPositionalTransformer,
    inputs: Array,
    scale: float | None = None,
    floor: float = 0.0,
) -> Array:
    """Every sample's largest error beyond `floor`, relative to `scale`, or else to the sample's largest input."""
    outputs = model_outputs(program, model, torch.from_numpy(inputs)).numpy().astype(np.longdouble)
    exact = inputs.astype(np.longdouble)
    errors = np.abs(outputs - run(program, exact)).max(axis=(1, 2))
    if program.oracle is not None:
        expected = np.asarray(program.oracle(exact if len(program.inputs) > 1 else exact[:, :, 0]))
        errors = np.maximum(errors, np.abs(outputs - expected.reshape(outputs.shape)).max(axis=(1, 2)))
    return _relative(errors - floor, inputs, scale)


@torch.no_grad()
def shorter_errors(
    program: Program,
    model: ExactPositionalTransformer,
    domain: Domain,
    inputs: Array,
    scale: float | None = None,
    floor: float = 0.0,
) -> Array:
    """The same for shorter samples; the values that fill them up count as inputs."""
    assert program.oracle is not None
    whole = filled(program, domain, inputs)
    outputs = model_outputs(program, model, torch.from_numpy(whole)).numpy().astype(np.longdouble)
    outputs = outputs[:, : inputs.shape[1]] if program.output_length is None else outputs
    exact = inputs.astype(np.longdouble)
    expected = np.asarray(program.oracle(exact if len(program.inputs) > 1 else exact[:, :, 0])).reshape(outputs.shape)
    return _relative(np.abs(outputs - expected).max(axis=(1, 2)) - floor, whole, scale)


def _relative(errors: Array, inputs: Array, scale: float | None) -> Array:
    """Errors relative to a scale; infinite where they are not numbers, or where only the scale is 0."""
    errors = np.where(np.isnan(errors), np.inf, np.maximum(errors, 0))
    against = np.abs(inputs).max(axis=(1, 2)) if scale is None else np.full(len(errors), scale)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(errors == 0, 0, errors / against).astype(np.float64)
