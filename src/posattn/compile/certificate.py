"""How well a compiled model agrees with its program: tried on random, nasty and, where few, all inputs.

An error is the largest difference in a sample's outputs, as a part of the largest magnitude that the exact computation
reaches on that sample (inputs, everything in between, outputs). A program on a grid is right or wrong, and may give
places for numbers that are far larger: there only the outputs' magnitudes count. The reference is the interpreter in a
wider dtype than the model's, and for programs of the library their oracle in NumPy too.
"""

import dataclasses
import itertools
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from posattn.compile.expressions import Array
from posattn.compile.interpreter import run, trace
from posattn.compile.lower import needed_registers
from posattn.compile.program import Program
from posattn.errors import PosattnError, require
from posattn.nn import ExactPositionalTransformer

#: What an exact compilation must reach, by the model's dtype: a few units in the last place.
TOLERANCE = {"float32": 1e-6, "float64": 1e-14}
#: All inputs over a few values are tried where there are no more of them than this.
EXHAUSTIVE = 2048
#: Samples that go through the model at once.
TOGETHER = 128


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What was tried and what came out."""

    program: str
    length: int
    domain: float  # inputs lie in ± this …
    grid: float | None  # … and on this grid
    dtype: str
    random: int
    adversarial: int
    exhaustive: int
    shorter: int  # filled up to the compiled length, and compared with the oracle
    seed: int
    against: tuple[str, ...]
    error: float  # the largest
    tolerance: float | None  # None: a fit is in it, and its error is what it is
    fits: tuple[tuple[str, float], ...]  # each fitted function and its own largest error
    # the first input whose error is beyond the tolerance, or not finite; one row a node
    counterexample: tuple[tuple[float, ...], ...] | None

    @property
    def holds(self) -> bool:
        """Whether every input was answered within the tolerance; what is fitted has none, and so nothing holds."""
        return self.tolerance is not None and self.counterexample is None

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Certificate":
        try:
            fields = json.loads(text)
            for name in ("against", "fits", "counterexample"):
                if fields[name] is not None:
                    fields[name] = tuple(tuple(e) if isinstance(e, list) else e for e in fields[name])
            found = cls(**fields)
            str(found)  # whatever cannot be shown is no certificate
            return found
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise PosattnError(f"not a certificate ({error}).") from None

    def __str__(self) -> str:
        cases = f"{self.random} random, {self.adversarial} adversarial and {self.exhaustive} exhaustive inputs"
        grid = f" on a grid of {self.grid:g}" if self.grid else ""
        verdict = "holds" if self.holds else f"FAILS, first at input {_shown(self.counterexample)}"
        if self.tolerance is None and self.counterexample is None:
            verdict = "fitted, so that only its error is known"
        bound = f" (at most {self.tolerance:g} allowed)" if self.tolerance is not None else ""
        fits = "".join(f"; {name} fitted to {error:.2g}" for name, error in self.fits)
        return (
            f"{self.program}, length {self.length}, {self.dtype}, inputs in ±{self.domain:g}{grid}: {verdict}.\n"
            f"{cases}, against {' and '.join(self.against)}: largest relative error {self.error:.3g}{bound}{fits}."
            + (f" {self.shorter} shorter inputs were tried too." if self.shorter else "")
        )


def _shown(counterexample: tuple[tuple[float, ...], ...] | None) -> str:
    rows = counterexample or ()
    return str([row[0] if len(row) == 1 else row for row in rows[:16]]) + (" …" if len(rows) > 16 else "")


def verify(
    program: Program,
    model: ExactPositionalTransformer,
    *,
    domain: float,
    fits: tuple[tuple[str, float], ...] = (),
    samples: int = 256,
    seed: int = 0,
) -> Certificate:
    """Compare model and program. Nothing is assumed about how the model was made."""
    require(samples >= 1, f"samples={samples}: try at least one.")
    require(seed >= 0, f"seed={seed}: a whole number of at least 0.")
    dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
    tolerance = None if fits else TOLERANCE.get(dtype)
    require(bool(fits) or tolerance is not None, f"the model is {dtype}: verify it in {' or '.join(TOLERANCE)}.")
    groups = {
        "random": random_inputs(program, domain, samples, np.random.default_rng(seed)),
        "adversarial": adversarial_inputs(program, domain, np.random.default_rng(seed + 1)),
        "exhaustive": exhaustive_inputs(program, domain),
    }
    worst, counterexample = 0.0, None
    for inputs in groups.values():
        for chunk in np.split(inputs, range(TOGETHER, len(inputs), TOGETHER)):
            if not len(chunk):
                continue
            chunk = chunk.astype(dtype)
            errors = relative_errors(program, model, chunk)
            worst = max(worst, float(errors.max()))
            wrong = ~np.isfinite(errors) if tolerance is None else ~(errors <= tolerance)
            if counterexample is None and wrong.any():
                counterexample = tuple(tuple(map(float, row)) for row in chunk[int(np.argmax(wrong))])
    shorter = 0
    for inputs in shorter_inputs(program, domain, samples, np.random.default_rng(seed + 2)):
        shorter += len(inputs)
        errors = shorter_errors(program, model, domain, inputs.astype(dtype))
        worst = max(worst, float(errors.max()))
        wrong = ~np.isfinite(errors) if tolerance is None else ~(errors <= tolerance)
        if counterexample is None and wrong.any():
            counterexample = tuple(tuple(map(float, row)) for row in inputs[int(np.argmax(wrong))])
    return Certificate(
        program=program.name,
        length=program.length,
        domain=domain,
        grid=program.grid,
        dtype=dtype,
        random=len(groups["random"]),
        adversarial=len(groups["adversarial"]),
        exhaustive=len(groups["exhaustive"]),
        shorter=shorter,
        seed=seed,
        against=("the interpreter", "NumPy") if program.oracle else ("the interpreter",),
        error=worst,
        tolerance=tolerance,
        fits=fits,
        counterexample=counterexample,
    )


@torch.no_grad()
def relative_errors(program: Program, model: ExactPositionalTransformer, inputs: Array) -> Array:
    """Every sample's largest error, relative to what the exact computation reaches."""
    outputs = model(torch.from_numpy(inputs)).numpy().astype(np.longdouble)
    exact = inputs.astype(np.longdouble)
    wanted = run(program, exact)
    reached = np.abs(wanted).max(axis=(1, 2))
    needed = needed_registers(program, program.rounds)
    for live, snapshot in zip(needed, trace(program, exact) if program.grid is None else (), strict=False):
        for name, values in snapshot.registers.items():
            if name in live and name not in program.constants:
                reached = np.maximum(reached, np.abs(values).max(axis=1))
    errors = np.abs(outputs - wanted).max(axis=(1, 2))
    if program.oracle is not None:
        told = np.asarray(program.oracle(exact if len(program.inputs) > 1 else exact[:, :, 0]))
        errors = np.maximum(errors, np.abs(outputs - told.reshape(outputs.shape)).max(axis=(1, 2)))
    return _relative(errors, reached)


def filled(program: Program, domain: float, inputs: Array) -> Array:
    """Shorter inputs filled up to the program's length with what it ignores."""
    pad = 0.0 if program.pad is None else program.pad * domain
    if program.grid is not None:
        pad = program.grid * math.copysign(steps(abs(pad), program.grid), pad)
    missing = program.length - inputs.shape[1]
    return np.pad(inputs, ((0, 0), (0, missing), (0, 0)), constant_values=pad)


def shorter_inputs(program: Program, domain: float, count: int, rng: np.random.Generator) -> Iterator[Array]:
    """Some inputs of a few shorter lengths, where the program takes them and an oracle knows the answer."""
    if program.pad is None or program.oracle is None or program.permutations:
        return
    for length in sorted({1, program.length // 2, program.length - 1} - {0, program.length}):
        short = dataclasses.replace(program, length=length, recipe=None, oracle=None)
        yield random_inputs(short, domain, -(-count // 16), rng)


@torch.no_grad()
def shorter_errors(program: Program, model: ExactPositionalTransformer, domain: float, inputs: Array) -> Array:
    """Every shorter sample's largest error, relative to the numbers that it is computed with."""
    assert program.oracle is not None
    whole = filled(program, domain, inputs)
    outputs = model(torch.from_numpy(whole)).numpy()[:, : inputs.shape[1]].astype(np.longdouble)
    exact = inputs.astype(np.longdouble)
    told = np.asarray(program.oracle(exact if len(program.inputs) > 1 else exact[:, :, 0])).reshape(outputs.shape)
    reached = np.abs(told).max(axis=(1, 2))
    if program.grid is None:
        reached = np.maximum(reached, np.abs(whole).max(axis=(1, 2)))
    return _relative(np.abs(outputs - told).max(axis=(1, 2)), reached)


def _relative(errors: Array, reached: Array) -> Array:
    """Errors as parts of what was reached; absolute where that is nothing, and infinite where they are no numbers."""
    errors = np.where(np.isnan(errors), np.inf, errors)
    return np.where(errors == 0, 0, errors / np.where(reached == 0, 1, reached)).astype(np.float64)


def random_inputs(program: Program, domain: float, count: int, rng: np.random.Generator) -> Array:
    """Uniform over the domain, every other sample within a random smaller range."""
    shape = (count, program.length, len(program.inputs))
    scale = np.where(np.arange(count) % 2, 10.0 ** rng.uniform(-4, 0, count), 1.0)
    return _fitting(program, domain, rng.uniform(-domain, domain, shape) * scale[:, None, None], rng)


def adversarial_inputs(program: Program, domain: float, rng: np.random.Generator) -> Array:
    """Ties, extremes, sorted, reversed, equal, zeros, spikes, alternating signs, huge beside tiny, close neighbours.

    A second input gets the same ones in another order.
    """
    n, width = program.length, len(program.inputs)
    drawn = rng.uniform(-domain, domain, n)
    ramp = np.linspace(-domain, domain, n)
    signs = np.where(np.arange(n) % 2, 1.0, -1.0)
    spike = np.zeros(n)
    spike[n // 2] = domain
    nasty = [
        np.zeros(n), np.full(n, domain), np.full(n, -domain), np.full(n, drawn[0]),
        ramp, ramp[::-1], np.sort(drawn), np.sort(drawn)[::-1],
        domain * signs, -domain * signs, spike, -spike,
        domain * rng.choice([-1.0, 1.0], n), domain * rng.choice([-1.0, 0.0, 1.0], n),
        np.round(drawn / domain * 2) * domain / 2, np.where(np.arange(n) < n // 2, domain, -domain),
        np.where(np.arange(n) % 3 == 0, drawn, 1e-6 * drawn),
        domain - (program.grid or 1e-7 * domain) * rng.permutation(n),
    ]  # fmt: skip
    inputs = np.stack([np.roll(nasty, column, axis=0) for column in range(width)], axis=2)
    return _fitting(program, domain, inputs, rng)


def exhaustive_inputs(program: Program, domain: float) -> Array:
    """All inputs over as many of few values as there is room for, and all permutations of few numbers; none twice.

    For a sorting network, 0 and 1 are enough to show that it sorts anything (Knuth's 0–1 principle).
    """
    free = [column for column, name in enumerate(program.inputs) if name not in program.permutations]
    count = program.length * len(free)
    found: dict[tuple[float, ...], None] = {}
    for values in ((0.0, 1.0), (-1.0, 0.0, 1.0)):
        if len(values) ** count <= EXHAUSTIVE:
            found |= dict.fromkeys(itertools.product([domain * value for value in values], repeat=count))
    if count <= 6:
        found |= dict.fromkeys(itertools.permutations([domain * (2 * k - count + 1) / count for k in range(count)]))
    inputs = np.zeros((len(found), program.length, len(program.inputs)))
    inputs[:, :, free] = np.array(list(found), dtype=np.float64).reshape(len(found), program.length, len(free))
    return _fitting(program, domain, inputs, np.random.default_rng(0))


def _fitting(program: Program, domain: float, inputs: Array, rng: np.random.Generator) -> Array:
    """Numbers brought onto the grid; permutations where the program takes them, all of them if few."""
    if program.grid is not None:
        most = steps(domain, program.grid)
        inputs = np.clip(np.round(inputs / program.grid), -most, most) * program.grid
    for column, name in enumerate(program.inputs):
        if name in program.permutations:
            orders = _orders(program.length, rng)
            for sample in inputs:
                sample[:, column] = next(orders)
    return inputs


def steps(domain: float, grid: float) -> int:
    """How many steps of the grid fit between 0 and the domain's bound; 0.3 has three steps of 0.1, also in floats."""
    return math.floor(domain / grid * (1 + 1e-12))


def _orders(length: int, rng: np.random.Generator) -> Iterator[Array]:
    yield np.arange(length)
    yield np.arange(length)[::-1]
    if length <= 5:
        yield from map(np.array, itertools.permutations(range(length)))
    while True:
        yield rng.permutation(length)
