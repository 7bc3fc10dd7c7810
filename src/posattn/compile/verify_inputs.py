"""The inputs on which a compiled model is tried: random, adversarial, all where few, and near the worst so far."""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping

import numpy as np

from posattn.compile.expressions import Array
from posattn.compile.input_ranges import Domain, bound_of, grid_of, largest_bound
from posattn.compile.program import Program

#: All inputs over a few values are tried where there are no more of them than this.
EXHAUSTIVE = 2048


def filled(program: Program, domain: Domain, inputs: Array) -> Array:
    """Shorter inputs, filled up to the program's length with values that it ignores."""
    missing = program.length - inputs.shape[1]
    whole = np.pad(inputs, ((0, 0), (0, missing), (0, 0)))
    if missing and program.pad is not None:
        for column, name in enumerate(program.inputs):
            whole[:, inputs.shape[1] :, column] = _pad(program, domain, name)
    return whole


def _pad(program: Program, domain: Domain, name: str) -> float:
    """What fills up an input, on its grid."""
    assert program.pad is not None
    pad, grid = program.pad * bound_of(program, domain, name), grid_of(program, name)
    return pad if grid is None else grid * math.copysign(steps(abs(pad), grid), pad)


def shorter_inputs(program: Program, domain: Domain, count: int, rng: np.random.Generator) -> Iterator[Array]:
    """Some inputs of a few shorter lengths, where the program takes them and an oracle knows the answer."""
    if program.pad is None or program.oracle is None or program.permutations:
        return
    for length in sorted({1, program.length // 2, program.length - 1} - {0, program.length}):
        short = dataclasses.replace(program, length=length, recipe=None, oracle=None, specification=None)
        yield random_inputs(short, domain, -(-count // 16), rng)


def random_inputs(program: Program, domain: Domain, count: int, rng: np.random.Generator) -> Array:
    """Uniform over the domain, every other sample within a random smaller range."""
    shape = (count, program.length, len(program.inputs))
    scale = np.where(np.arange(count) % 2, 10.0 ** rng.uniform(-4, 0, count), 1.0)
    most = largest_bound(domain)
    inputs = _scaled(program, domain, rng.uniform(-most, most, shape) * scale[:, None, None])
    return _fitting(program, domain, inputs, rng)


def adversarial_inputs(program: Program, domain: Domain, rng: np.random.Generator, dtype: str = "float32") -> Array:
    """Ties, extremes, sorted, reversed, equal, zeros, spikes, alternating signs, huge beside tiny, close neighbours,
    and numbers whose last bits are lost in sums, each time to the same side.

    A second input gets the same ones in another order.
    """
    n, width, most = program.length, len(program.inputs), largest_bound(domain)
    step = program.grid if isinstance(program.grid, float) else 1e-7 * most
    drawn = rng.uniform(-most, most, n)
    ramp = np.linspace(-most, most, n)
    signs = np.where(np.arange(n) % 2, 1.0, -1.0)
    spike = np.zeros(n)
    spike[n // 2] = most
    cases = [
        np.zeros(n), np.full(n, most), np.full(n, -most), np.full(n, drawn[0]),
        ramp, ramp[::-1], np.sort(drawn), np.sort(drawn)[::-1],
        most * signs, -most * signs, spike, -spike,
        most * rng.choice([-1.0, 1.0], n), most * rng.choice([-1.0, 0.0, 1.0], n),
        np.round(drawn / most * 2) * most / 2, np.where(np.arange(n) < n // 2, most, -most),
        np.where(np.arange(n) % 3 == 0, drawn, 1e-6 * drawn),
        most - step * rng.permutation(n),
        *aligned_inputs(n, most, dtype),
    ]  # fmt: skip
    inputs = np.stack([np.roll(cases, column, axis=0) for column in range(width)], axis=2)
    return _fitting(program, domain, _scaled(program, domain, inputs), rng)


def aligned_inputs(length: int, domain: float, dtype: str) -> list[Array]:
    """Large numbers that cancel beside smaller ones with one more bit than their sum can hold: errors add up."""
    last = float(np.finfo(dtype).eps)
    found = []
    for large, small in ((0.6, 0.3), (1.0, 0.5 - last), (0.75, 0.375), (1.0, 0.75 * last)):
        bit = small * last if small > last else 0.0
        found.append(domain * np.resize([large, small + bit, -large, -small + bit if bit else small], length))
    return found


def climbed_inputs(program: Program, domain: Domain, best: Array, count: int, rng: np.random.Generator) -> Array:
    """Neighbours of the inputs that err most: last bits moved, numbers taken to the domain's edge, moved, repeated."""
    found = best[rng.integers(len(best), size=count)].astype(np.float64)
    free = [column for column, name in enumerate(program.inputs) if name not in program.permutations]
    last = float(np.finfo(best.dtype).eps)
    for number, sample in enumerate(found):
        for column in free:
            some = rng.random(program.length) < rng.choice([0.1, 0.5, 1.0])
            held, bound = sample[:, column], bound_of(program, domain, program.inputs[column])
            match number % 4:
                case 0:
                    held[some] += (held * last * rng.integers(-3, 4, program.length))[some]
                case 1:
                    held[some] = bound * rng.choice([-1.0, 1.0], program.length)[some]
                case 2:
                    held[:] = (
                        held[rng.permutation(program.length)] if rng.random() < 0.5 else np.resize(held[:4], len(held))
                    )
                case _:
                    held[some] += rng.uniform(-1, 1, program.length)[some] * bound * 10.0 ** rng.integers(-7, 0)
            np.clip(held, -bound, bound, out=held)
    return _fitting(program, domain, found, rng)


def exhaustive_inputs(program: Program, domain: Domain) -> Array:
    """All inputs over as many of few values as there is room for, and all permutations of few numbers; none twice.

    For a sorting network, 0 and 1 are enough to show that it sorts anything (Knuth's 0–1 principle).
    """
    free = [column for column, name in enumerate(program.inputs) if name not in program.permutations]
    count, most = program.length * len(free), largest_bound(domain)
    found: dict[tuple[float, ...], None] = {}
    for values in ((0.0, 1.0), (-1.0, 0.0, 1.0)):
        if len(values) ** count <= EXHAUSTIVE:
            found |= dict.fromkeys(itertools.product([most * value for value in values], repeat=count))
    if count <= 6:
        found |= dict.fromkeys(itertools.permutations([most * (2 * k - count + 1) / count for k in range(count)]))
    inputs = np.zeros((len(found), program.length, len(program.inputs)))
    inputs[:, :, free] = np.array(list(found), dtype=np.float64).reshape(len(found), program.length, len(free))
    return _fitting(program, domain, _scaled(program, domain, inputs), np.random.default_rng(0))


def _scaled(program: Program, domain: Domain, inputs: Array) -> Array:
    """Numbers in ± the largest bound, brought into each input's own range."""
    if isinstance(domain, Mapping):
        for column, name in enumerate(program.inputs):
            if name not in program.permutations:
                bound = bound_of(program, domain, name)
                inputs[:, :, column] = np.clip(inputs[:, :, column] * (bound / largest_bound(domain)), -bound, bound)
    return inputs


def _fitting(program: Program, domain: Domain, inputs: Array, rng: np.random.Generator) -> Array:
    """Numbers brought onto the grid; permutations where the program takes them, all of them if few."""
    for column, name in enumerate(program.inputs):
        grid = grid_of(program, name)
        if grid is not None and name not in program.permutations:
            most = steps(bound_of(program, domain, name), grid)
            inputs[:, :, column] = np.clip(np.round(inputs[:, :, column] / grid), -most, most) * grid
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
