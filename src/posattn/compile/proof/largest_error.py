"""The largest error that a search finds, to set beside the bound that was proved: hill climbing from many inputs."""

from fractions import Fraction

import numpy as np
import torch

from posattn.compile.expressions import Array
from posattn.compile.input_ranges import Domain
from posattn.compile.interpreter import run
from posattn.compile.lengths import model_outputs
from posattn.compile.program import Program
from posattn.compile.verify_inputs import adversarial_inputs, climbed_inputs, random_inputs
from posattn.nn import ExactPositionalTransformer
from posattn.nn.hardened import HardenedTransformer

#: How many times the search moves on, how many inputs it keeps, and how many neighbours it tries of all it keeps.
CLIMBS, KEPT = 12, 16


def largest_error(
    program: Program, model: ExactPositionalTransformer, domain: Domain, *, starts: int, seed: int = 0
) -> float:
    """|model(x) − program(x)|, at most, over the inputs that were tried: random ones, the domain's edge and patterns
    whose roundings add up among them, then neighbours of those that err most."""
    rng, dtype = np.random.default_rng(seed), str(next(model.parameters()).dtype).removeprefix("torch.")
    hardened = model.harden()
    first = np.concatenate(
        [adversarial_inputs(program, domain, rng, dtype), random_inputs(program, domain, starts, rng)]
    ).astype(dtype)
    best, errors = _best(first, _errors(program, hardened, first))
    for _ in range(CLIMBS if errors[0] > 0 else 1):
        moved = climbed_inputs(program, domain, best, starts, rng).astype(dtype)
        best, errors = _best(np.concatenate([best, moved]), np.concatenate([errors, _errors(program, hardened, moved)]))
    return float(errors[0]) if program.outside() else _exactly(program, hardened, best[:1])


def _best(inputs: Array, errors: Array) -> tuple[Array, Array]:
    order = np.argsort(-errors, kind="stable")[:KEPT]
    return inputs[order], errors[order]


@torch.no_grad()
def _exactly(program: Program, model: HardenedTransformer, inputs: Array) -> float:
    """The largest error of some inputs, against the program in fractions: long doubles round too."""
    fractions = np.vectorize(lambda value: Fraction(float(value)), otypes=[object])
    outputs = model_outputs(program, model, torch.from_numpy(inputs)).numpy()
    return float(np.abs(fractions(outputs) - run(program, fractions(inputs))).max())


@torch.no_grad()
def _errors(program: Program, model: HardenedTransformer, inputs: Array) -> Array:
    """The largest error of every sample, against the interpreter in long doubles."""
    found = []
    for chunk in np.split(inputs, range(64, len(inputs), 64)):
        outputs = model_outputs(program, model, torch.from_numpy(chunk)).numpy().astype(np.longdouble)
        found.append(np.abs(outputs - run(program, chunk.astype(np.longdouble))).max(axis=(1, 2)))
    return np.concatenate(found).astype(np.float64)
