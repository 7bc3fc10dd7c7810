"""Products with a constant: linear at every node, though not the same at every node.

All nodes share one MLP, so a product c·e whose constant c differs from node to node becomes a sum over the values of c:
Σ_v v·gate(e, shut=[c ≠ v]). The bits [c ≠ v] are constants too, in registers of their own. Constants are tracked as
exact fractions; a value that is not a float becomes two terms, the nearest float and the remainder.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial

from posattn.compile.expressions import Expression, Once, children, product, rebuilt, tree, walk
from posattn.compile.expressions.known_functions import is_known
from posattn.compile.program import Program
from posattn.compile.rounds import Round
from posattn.errors import PosattnError, require

#: A value for every node.
Values = tuple[Fraction, ...]


def expand_products(program: Program, fit: object | None) -> Program:
    """The same program without `Product`. A product of two inputs becomes a fit, where one is allowed."""
    updates = [e for round_ in program.rounds for e in round_.update.values()]
    if not any(isinstance(part, tree.Product) for e in updates for part in walk(e)):
        return program
    expander = _Expander(program, fit)
    known = {name: tuple(map(Fraction, values)) for name, values in program.constants.items()}
    rounds, refused = [], []
    for number, round_ in enumerate(program.rounds, 1):
        words = known | _received(round_, known)
        update = {}
        for register, expression in round_.update.items():
            expander.refused = []
            update[register] = expander.expanded(expression, words)
            refused += [f"round {number}, register '{register}': {part}" for part in expander.refused]
        rounds.append(Round(receive=round_.receive, update=update, note=round_.note))
        after = {register: constant(e, words, program.nodes) for register, e in round_.update.items()}
        known = {name: held for name, held in (known | after).items() if held is not None}
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


def _received(round_: Round, known: Mapping[str, Values]) -> dict[str, Values]:
    """The words of a round that are constants at every node; nothing arrives as 0."""
    found = {}
    for slot, table in round_.receive.items():
        if all(source is None or source[1] in known for source in table):
            found[slot] = tuple(Fraction(0) if s is None else known[s[1]][s[0]] for s in table)
    return found


def constant(expression: Expression, words: Mapping[str, Values], nodes: int) -> Values | None:
    """The exact value of an expression at every node, where it depends on constants alone."""
    return Once(partial(_constant, words, nodes)).of(expression)


def _constant(
    words: Mapping[str, Values], nodes: int, expression: Expression, of: Callable[[Expression], Values | None]
) -> Values | None:
    match expression:
        case tree.Word(name):
            return words.get(name)
        case tree.Constant(value):
            return (Fraction(value),) * nodes
    held = [of(part) for part in children(expression)]
    known = [part for part in held if part is not None]
    if len(known) < len(held):
        return None
    match expression:
        case tree.Sum():
            return tuple(sum(at, Fraction(0)) for at in zip(*known, strict=True))
        case tree.Scaled(factor, _):
            return tuple(Fraction(factor) * value for value in known[0])
        case tree.Product():
            return tuple(a * b for a, b in zip(*known, strict=True))
        case tree.Relu():
            return tuple(max(value, Fraction(0)) for value in known[0])
        case tree.Minimum():
            return tuple(map(min, *known))
        case tree.Maximum():
            return tuple(map(max, *known))
        case tree.Call("reciprocal") if is_known(expression):
            zeros = [node for node, value in enumerate(known[0]) if value == 0]
            require(not zeros, f"{expression} is not defined at node {[*zeros, 0][0]}, where that is 0.")
            return tuple(1 / value for value in known[0])
    return None


class _Expander:
    """Expressions without products, and the bits that they need."""

    def __init__(self, program: Program, fit: object | None) -> None:
        self.taken = {*program.registers, *(slot for round_ in program.rounds for slot in round_.receive)}
        self.nodes, self.fit = program.nodes, fit
        self.bits: dict[tuple[float, ...], str] = {}
        self.refused: list[str] = []

    def expanded(self, expression: Expression, words: Mapping[str, Values]) -> Expression:
        return Once(partial(self._expanded, words)).of(expression)

    def _expanded(
        self, words: Mapping[str, Values], part: Expression, of: Callable[[Expression], Expression]
    ) -> Expression:
        return self._product(part, of, words) if isinstance(part, tree.Product) else rebuilt(part, of)

    def _product(
        self, whole: tree.Product, of: Callable[[Expression], Expression], words: Mapping[str, Values]
    ) -> Expression:
        for fixed, free in ((whole.one, whole.other), (whole.other, whole.one)):
            held = constant(fixed, words, self.nodes)
            if held is not None:
                return self._by_value(held, of(free))
        if self.fit is None:
            self.refused.append(str(whole))
        return tree.Call("product", product, (of(whole.one), of(whole.other)))

    def _by_value(self, constants: Values, free: Expression) -> Expression:
        distinct = sorted(set(constants))
        terms: list[Expression] = []
        for value in distinct:
            shown = free
            if len(distinct) > 1:
                shown = tree.Gate(free, tree.Word(self._other([held != value for held in constants])))
            nearest = float(value)
            rest = float(value - Fraction(nearest))
            terms += [tree.Scaled(part, shown) for part in (nearest, rest) if part != 0]
        return tree.Sum(tuple(terms)) if terms else tree.Constant(0.0)

    def _other(self, differs: Sequence[bool]) -> str:
        """The register that is 1 where a constant has another value."""
        key = tuple(map(float, differs))
        if key not in self.bits:
            number = len(self.bits)
            while f"other{number}" in self.taken:
                number += 1
            self.bits[key] = f"other{number}"
            self.taken.add(self.bits[key])
        return self.bits[key]
