"""Products with a constant: what is linear at every node, though not the same at every node.

All nodes share one MLP, so a product c·e whose constant c differs from node to node becomes a sum over the values that
c has: Σ_v v·gate(e, shut=[c ≠ v]). The bits [c ≠ v] are constants too, registers of their own.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from posattn.compile.expressions import (
    Array,
    Call,
    Constant,
    Expression,
    Gate,
    Product,
    Scaled,
    Sum,
    Word,
    product,
    walk,
)
from posattn.compile.intervals import Interval, bounds
from posattn.compile.program import Program, Round
from posattn.compile.ranges import register_bounds
from posattn.errors import PosattnError


def expand_products(program: Program, domain: float, fit: int | None) -> Program:
    """The same program without `Product`. What no constant is part of becomes a fit, where one is allowed."""
    updates = [e for round_ in program.rounds for e in round_.update.values()]
    if not any(isinstance(part, Product) for e in updates for part in walk(e)):
        return program
    expander = _Expander(program, fit)
    rounds, refused = [], []
    for number, (round_, (registers, words)) in enumerate(
        zip(program.rounds, register_bounds(program, domain), strict=False), 1
    ):
        update = {}
        for register, expression in round_.update.items():
            expander.refused = []
            update[register] = expander.expanded(expression, registers | words)
            refused += [f"round {number}, register '{register}': {part}" for part in expander.refused]
        rounds.append(Round(receive=round_.receive, update=update, note=round_.note))
    if refused:
        listed = "".join(f"\n  - {place}" for place in refused)
        raise PosattnError(
            f"program '{program.name}' multiplies two values that both depend on the input:{listed}\nThat is not "
            "piecewise linear. Make one of them a constant at every node, or allow a fit, fit=64."
        )
    bits = expander.bits
    return dataclasses.replace(
        program,
        registers=(*program.registers, *bits.values()),
        constants={**program.constants, **{name: values for values, name in bits.items()}},
        rounds=tuple(rounds),
        recipe=None,
    )


class _Expander:
    """Expressions without products, and the bits that they need."""

    def __init__(self, program: Program, fit: int | None) -> None:
        self.taken = {*program.registers, *(slot for round_ in program.rounds for slot in round_.receive)}
        self.fit = fit
        self.bits: dict[tuple[float, ...], str] = {}
        self.refused: list[str] = []

    def expanded(self, expression: Expression, words: Mapping[str, Interval]) -> Expression:
        changed: dict[str, Any] = {}
        for field in dataclasses.fields(expression):
            held = getattr(expression, field.name)
            if isinstance(held, Expression):
                held = self.expanded(held, words)
            elif isinstance(held, tuple):
                held = tuple(self.expanded(e, words) if isinstance(e, Expression) else e for e in held)
            changed[field.name] = held
        whole = type(expression)(**changed)
        return self._product(whole, words) if isinstance(whole, Product) else whole

    def _product(self, whole: Product, words: Mapping[str, Interval]) -> Expression:
        words = {**words, **{name: _same(np.array(values)) for values, name in self.bits.items()}}
        for fixed, free in ((whole.one, whole.other), (whole.other, whole.one)):
            held = bounds(fixed, words)
            if np.array_equal(held.low, held.high):
                return self._by_value(held.low, free)
        if self.fit is None:
            self.refused.append(str(whole))
        return Call("product", product, (whole.one, whole.other))

    def _by_value(self, constants: Array, free: Expression) -> Expression:
        values = np.unique(constants)
        if len(values) == 1:
            return Scaled(float(values[0]), free)
        terms = [Scaled(float(v), Gate(free, Word(self._other(constants != v)))) for v in values if v != 0]
        return Sum(tuple(terms)) if terms else Constant(0.0)

    def _other(self, differs: Array) -> str:
        """The register that is 1 where a constant has another value."""
        key = tuple(map(float, differs))
        if key not in self.bits:
            number = len(self.bits)
            while f"other{number}" in self.taken:
                number += 1
            self.bits[key] = f"other{number}"
            self.taken.add(self.bits[key])
        return self.bits[key]


def _same(values: Array) -> Interval:
    return Interval(values, values)
