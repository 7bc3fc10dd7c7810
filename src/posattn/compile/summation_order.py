"""Whether the order of summation can change what a compiled model computes: decided from its weights.

Runtimes add in different orders, and fuse products with sums or not. The sum of a column, Σ x_i·w_i, comes out the same
in all of them where

    one term is not 0           it is that product, rounded once;
    two are, both exact         it is their sum, rounded once. A product is exact where |w| is a power of two, at least
                                1 (so nothing underflows), or where x is a constant that is one;
    ReLU cuts it off            the upper bound of the sum, and of its roundings, is not above 0.

Terms that are known to be 0: weights of 0; registers that are 0 at the node at hand (constants, and whatever is read
from the sink); and one of two units relu(z), relu(z′) where z + z′ has no term that can be positive. Such pairs carry
numbers, x = relu(x) − relu(−x), and are the halves of gates and exchanges. One of z, z′ is not positive, and stays so
when it is rounded once.

So if every sum of every layer is of these kinds, equal inputs give equal outputs, by induction from layer to layer;
only the sign of a zero is left open. This assumes IEEE 754 products in the model's dtype, small numbers that are not
flushed to 0, and outputs of attention that are the words read, as in a hardened model.

The bounds of registers are the compiler's, widened by all roundings so far: the weights have to be the compiler's own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from posattn.compile.expressions import Array
from posattn.compile.input_ranges import Domain
from posattn.compile.lowering.constant_products import expand_products
from posattn.compile.lowering.fits import Fitted, replace_calls
from posattn.compile.lowering.floats import Numbers
from posattn.compile.lowering.register_errors import first_state, register_errors
from posattn.compile.program import ONE, Program
from posattn.compile.proof.layer_weights import LayerWeights, layer_weights
from posattn.compile.rounds import Round
from posattn.nn import ExactPositionalTransformer, Positional
from posattn.nn.hardened import selected


class Range(NamedTuple):
    """Bounds of some numbers, (nodes, numbers), and pairs of them of which one is always 0."""

    low: Array
    high: Array
    pairs: Sequence[tuple[int, int]] = ()


@dataclass(frozen=True)
class Sums:
    """The sums of a matrix's columns, at every node."""

    low: Array
    high: Array
    terms: Array  # how many can be other than 0
    settled: Array  # whether they are the same in every order


def order_matters(
    program: Program,
    model: ExactPositionalTransformer,
    *,
    registers: Sequence[str],
    domain: Domain,
    fits: tuple[Fitted, ...] = (),
) -> str | None:
    """The first sum that could depend on its order, in words; None where no sum does.

    Of the compiler's own weights alone, which `Certificate.compiled` is about.
    """
    weights, dtype = model.weights(), next(model.parameters()).dtype
    ends = {name: weights[f"{name}_weight"].detach().cpu().double().numpy() for name in ("encoder", "decoder")}
    layers = layer_weights(weights, model.architecture.heads)
    with torch.no_grad():
        reads = selected(model.attention()).cpu().numpy()
    anything = np.ones((1, len(ends["encoder"])))  # inputs and constants alike
    first = _sums(Range(-anything, anything), ends["encoder"], dtype)
    if not first.settled.all():
        return _said(first.terms, first.settled, "the encoder")
    program = replace_calls(expand_products(program, fits or None), fits)
    *states, last = _states(program, model.architecture, registers=registers, domain=domain, dtype=dtype)
    for number, (state, layer, read) in enumerate(zip(states, layers, reads, strict=True)):
        found = _layer(state, layer, read, dtype)
        if found is not None:
            return f"{found} of layer {number}"
    ends_in = _sums(last, ends["decoder"], dtype)
    return None if ends_in.settled.all() else _said(ends_in.terms, ends_in.settled, "the decoder")


def _states(
    program: Program, sizes: Positional, *, registers: Sequence[str], domain: Domain, dtype: torch.dtype
) -> Iterator[Range]:
    """The registers before every layer, and after the last, at every node and at the sink, where all are 0."""
    numbers = Numbers(dtype)
    state = first_state(program, domain, numbers)
    for round_ in (*(program.rounds or (Round(),)), None):
        low, high = (np.zeros((sizes.nodes, sizes.embed_dim)) for _ in range(2))
        for place, name in enumerate(registers):
            if name == ONE and name not in state.ranges:
                low[: program.nodes, place] = high[: program.nodes, place] = 1.0
            else:
                low[: program.nodes, place], high[: program.nodes, place] = state.ranges[name]
        yield Range(low, high)
        if round_ is not None:
            state = register_errors(state, [round_], numbers)


def _layer(state: Range, layer: LayerWeights, reads: Array, dtype: torch.dtype) -> str | None:
    """The first sum of a layer that could depend on its order."""
    value, output, *mlp = layer.matrices
    values = _sums(state, value, dtype)
    if not values.settled.all():
        return _said(values.terms, values.settled, "the values")
    columns = list(range(layer.width))
    from_node = reads[[layer.head_of(column) for column in columns]].T  # (nodes, columns)
    attended = _sums(Range(values.low[from_node, columns], values.high[from_node, columns]), output, dtype)
    if not attended.settled.all():
        return _said(attended.terms, attended.settled, "the output of attention")
    held = Range(np.hstack([state.low, attended.low]), np.hstack([state.high, attended.high]))
    for matrix in mlp[:-1]:
        sums = _sums(held, matrix, dtype)
        settled = sums.settled | (sums.high <= 0)
        if not settled.all():
            return _said(sums.terms, settled, "a hidden layer")
        held = Range(np.maximum(sums.low, 0), np.maximum(sums.high, 0), _exclusive(held, matrix))
    last = _sums(held, mlp[-1], dtype)
    return None if last.settled.all() else _said(last.terms, last.settled, "the MLP's output")


def _said(terms: Array, settled: Array, where: str) -> str:
    most = int(np.where(settled, 0, terms).max())
    kind = "with products that are rounded" if most == 2 else "that need not be 0"
    return f"a sum of {most} terms {kind}, in {where}"


def _sums(x: Range, matrix: Array, dtype: torch.dtype) -> Sums:
    """What is known of x·matrix in the model's dtype, added up in any order."""
    used, size = matrix != 0, np.maximum(np.abs(x.low), np.abs(x.high))
    held = size != 0
    terms = held.astype(float) @ used
    for one, other in x.pairs:
        terms -= np.outer(held[:, one] & held[:, other], used[one] & used[other])
    constant = (x.low == x.high) & _power_of_two(x.low)
    rounded = (held & ~constant).astype(float) @ (used & ~_power_of_two(matrix))  # products that are not exact
    settled = (terms <= 1) | ((terms == 2) & (rounded == 0))
    up, down = np.maximum(matrix, 0), np.minimum(matrix, 0)
    # 2·n·u·Σ|term| bounds the roundings of a sum of n products, and as much those of the bounds themselves
    off = 2 * len(matrix) * torch.finfo(dtype).eps * (size @ np.abs(matrix)) + terms * torch.finfo(dtype).tiny
    off = np.where((terms <= 1) & (rounded == 0), 0.0, off)
    return Sums(x.low @ up + x.high @ down - off, x.high @ up + x.low @ down + off, terms, settled)


def _power_of_two(numbers: Array) -> Array:
    """Whether they are ±1, ±2, ±4 …"""
    return (np.abs(numbers) >= 1) & (np.frexp(np.abs(numbers))[0] == 0.5)


def _exclusive(x: Range, matrix: Array) -> list[tuple[int, int]]:
    """Pairs of units of which one is always 0: z + z′ ≤ 0, term by term. No unit is in two pairs."""
    rises, falls = x.high.max(0) > 0, x.low.min(0) < 0
    free = [unit for unit in range(matrix.shape[1]) if matrix[:, unit].any()]
    pairs = []
    while free:
        one = free.pop(0)
        both = matrix[:, [one]] + matrix[:, free]
        never = ~(((both > 0) & rises[:, None]) | ((both < 0) & falls[:, None])).any(0)
        if never.any():
            pairs.append((one, free.pop(int(never.argmax()))))
    return pairs
