"""Run a program as written, in NumPy: the reference for every compiled model."""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Shaped

from posattn.checks import instance
from posattn.compile.arguments import Source
from posattn.compile.expressions import Array, Expression, Line, Once, tree
from posattn.compile.program import Program
from posattn.compile.rounds import Round
from posattn.errors import require

State = dict[str, Array]


class Snapshot(NamedTuple):
    """What a round did: the words that arrived, and every register after it; (samples, nodes) each."""

    round: Round | None
    received: State
    registers: State


def run(
    program: Program, x: Shaped[np.ndarray, "samples length inputs"]
) -> Shaped[np.ndarray, "samples output_nodes outputs"]:
    """The program's outputs, computed in the dtype of x: exactly where x holds fractions, as objects."""
    last: Snapshot | None = None
    for snapshot in trace(program, x):
        last = snapshot
    assert last is not None
    return np.stack([last.registers[name][:, : program.output_nodes] for name in program.outputs], axis=2)


def trace(program: Program, x: Shaped[np.ndarray, "samples length inputs"]) -> Iterator[Snapshot]:
    """The registers before the first round, then what each round does to them."""
    instance("program", program, Program, fix="write one as posattn.compile.Program(…), or take one from the library")
    instance("x", x, np.ndarray, fix="programs run on NumPy arrays of shape (samples, length, inputs)")
    length, inputs = program.length, len(program.inputs)
    require(
        x.ndim == 3 and x.shape[1:] == (length, inputs),
        f"the input has shape {x.shape}: program '{program.name}' takes (samples, {length}, {inputs}).",
    )
    require(
        np.issubdtype(x.dtype, np.floating) or x.dtype == object,
        f"the input holds {x.dtype}: fractions would be cut off. Use x.astype(np.float64).",
    )
    registers = {name: np.zeros((x.shape[0], program.nodes), x.dtype) for name in program.registers}
    for column, name in enumerate(program.inputs):
        registers[name][:, : program.length] = x[:, :, column]
    for name, values in program.constants.items():
        registers[name][:] = [_number(value, x) for value in values]
    yield Snapshot(None, {}, registers)
    for round_ in program.rounds:
        received = {slot: received_words(table, registers) for slot, table in round_.receive.items()}
        words = registers | received
        registers = registers | {name: evaluate(e, words) for name, e in round_.update.items()}
        yield Snapshot(round_, received, registers)


def received_words(table: tuple[Source, ...], registers: State) -> Array:
    """What a slot holds at every node. Nothing arrives as 0."""
    some = next(iter(registers.values()))
    words = np.zeros_like(some)
    for register in {source[1] for source in table if source is not None}:
        readers = [node for node, source in enumerate(table) if source is not None and source[1] == register]
        sources = [source[0] for source in table if source is not None and source[1] == register]
        words[..., readers] = registers[register][..., sources]
    return words


def _number(value: float, like: Array) -> Any:
    """A number in the dtype of an array: beside objects, which are fractions, it is one too."""
    return Fraction(value) if like.dtype == object else like.dtype.type(value)


def evaluate(expression: Expression, words: Mapping[str, Array]) -> Array:
    """The expression's value, in the dtype of the words."""
    return Once(partial(_value, words)).of(expression)


def _value(words: Mapping[str, Array], expression: Expression, inner: Callable[[Expression], Array]) -> Array:
    """The value of a part, from those of its own parts."""
    match expression:
        case tree.Word(name):
            return words[name]
        case tree.Constant(value):
            some = next(iter(words.values()))
            return np.full_like(some, _number(value, some))
        case tree.Sum(terms):
            total = inner(terms[0])
            for term in terms[1:]:
                total = total + inner(term)
            return total
        case tree.Scaled(factor, of):
            held = inner(of)
            return held * _number(factor, held)
        case tree.Product(one, other):
            return inner(one) * inner(other)
        case tree.Relu(of):
            return np.maximum(inner(of), 0)
        case tree.Minimum(one, other):
            return np.minimum(inner(one), inner(other))
        case tree.Maximum(one, other):
            return np.maximum(inner(one), inner(other))
        case tree.Gate(of, shut):
            return np.where(inner(shut) > 0, 0, inner(of))
        case tree.Select(bit, _, one, zero):
            return np.where(inner(bit) == 1, inner(one), inner(zero))
        case tree.Exchange(own, other, upper, _):
            a, b = inner(own), inner(other)
            return np.where(inner(upper) == 1, np.maximum(a, b), np.minimum(a, b))
        case tree.Positive(of, grid):
            held = inner(of)
            return (held > grid / 2).astype(held.dtype)
        case tree.Equal(one, other, grid):
            apart = np.abs(inner(one) - inner(other))
            return (apart < grid / 2).astype(apart.dtype)
        case tree.Call(_, function, arguments):
            return np.asarray(function(*(inner(argument) for argument in arguments)))
        case Line(of, start, knots, bends, _):
            held = inner(of)
            total = np.full_like(held, _number(start, held))
            for knot, bend in zip(knots, bends, strict=True):
                total += _number(bend, held) * np.maximum(held - _number(knot, held), 0)
            return total
    raise tree.foreign(expression)
