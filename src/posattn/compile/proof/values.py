"""What is known of a value at a node for all inputs, in exact fractions: its range, its lattice, the model's error.

    low ≤ program's value ≤ high,  |model's value − program's value| ≤ error

and, where the values that are meant form a lattice, |model's value − one of its points| ≤ meant. Errors are carried on
by the exact local function: added up by +, the larger of two through min, max, select and exchange, nothing through a
bit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from posattn.compile.expressions import Expression, Line, raised, tree
from posattn.compile.lowering.lattice import (
    WHOLE,
    ZERO,
    Kind,
    Lattice,
    added,
    between,
    joined,
    meant,
    misread,
    multiplied,
    scaled,
)
from posattn.compile.proof.precision import Precision

NONE = Fraction(0)


class Undecided(Exception):  # noqa: N818 (what cannot be shown, not an error)
    """A decision that rounding could turn around, or a value that the language cannot bound."""


class Value(NamedTuple):
    """A value at a node, for all inputs."""

    low: Fraction
    high: Fraction
    lattice: Kind = None  # of the values that are meant; None: any number
    error: Fraction = NONE  # |model − program|
    meant: Fraction = NONE  # |model − lattice|
    held: Fraction = NONE  # what numbers that the dtype does not hold change in this expression

    @property
    def reach(self) -> Fraction:
        return max(abs(self.low), abs(self.high))

    @property
    def fixed(self) -> bool:
        return self.low == self.high

    def hull(self, other: "Value") -> "Value":
        """What is known of one of two values, without knowing which."""
        return Value(
            min(self.low, other.low),
            max(self.high, other.high),
            joined(self.lattice, other.lattice),
            max(self.error, other.error),
            max(self.meant, other.meant),
            max(self.held, other.held),
        )


def number(value: Fraction, lattice: Fraction | None = None, **errors: Fraction) -> Value:
    """A value that is the same for all inputs; `lattice`: the number that is meant by it."""
    return Value(value, value, Lattice(value if lattice is None else lattice, NONE), **errors)


@dataclass(frozen=True)
class Evaluation:
    """Expressions at one node, from what is known of its words."""

    words: Mapping[str, Value]
    precision: Precision
    loose: bool = False  # whether numbers may be stored together with others, and be off by some roundings each
    known: dict[Expression, Value] = field(default_factory=dict)

    def of(self, expression: Expression) -> Value:
        if expression not in self.known:
            self.known[expression] = self._of(expression)
        return self.known[expression]

    def _of(self, expression: Expression) -> Value:
        match expression:
            case tree.Word(name):
                return self.words[name]
            case tree.Constant(value):
                exactly = Fraction(value)
                rounded = self._rounded(value)
                return number(exactly, meant(value), meant=misread(value), held=rounded)
            case tree.Sum() if (pair := raised(expression)) is not None:
                return self._raised(expression, *map(self.of, pair))
            case tree.Sum(terms):
                return self._sum([self.of(term) for term in terms])
            case tree.Scaled(factor, of):
                return self._scaled(factor, self.of(of))
            case tree.Product(one, other):
                return self._product(self.of(one), self.of(other), expression)
            case tree.Relu(of):
                return self._relu(self.of(of))
            case tree.Minimum(one, other):
                a, b = self.of(one), self.of(other)
                return a.hull(b)._replace(high=min(a.high, b.high))
            case tree.Maximum(one, other):
                a, b = self.of(one), self.of(other)
                absolute = other == tree.Scaled(-1.0, one)
                return a.hull(b)._replace(low=max(a.low, b.low, NONE) if absolute else max(a.low, b.low))
            case tree.Gate(of, shut):
                return self._gate(self.of(of), self._bit(shut))
            case tree.Select(bit, _, one, zero):
                return self._either(self._bit(bit), self.of(one), self.of(zero))
            case tree.Exchange(own, other, upper, _):
                return self._exchange(self._bit(upper), self.of(own), self.of(other))
            case tree.Positive(of, grid):
                return self._compared(self.of(of), ((NONE, meant(grid)),), Fraction(grid), expression)
            case tree.Equal(one, other, grid):
                step = meant(grid)
                return self._compared(self.of(one - other), ((-step, NONE), (NONE, step)), Fraction(grid), expression)
            case Line():
                return self._line(expression, self.of(expression.of))
        raise Undecided(f"{expression} is not piecewise linear, and there is no bound on its fit")

    def _rounded(self, written: float) -> Fraction:
        """How far a number of the program is from what the model stores for it."""
        if self.loose:
            return 4 * self.precision.unit * abs(Fraction(written))
        return abs(self.precision.nearest(written) - Fraction(written))

    def _line(self, line: Line, of: Value) -> Value:
        """start + Σ bend·relu(z − knot); the function that it stands for is at most `line.error` away."""
        knots, bends, start = ([Fraction(n) for n in held] for held in (line.knots, line.bends, (line.start,)))
        pieces, height, slope, heights = [], start[0], NONE, []
        for knot, bend in zip(knots, bends, strict=True):
            height += slope * (knot - pieces[-1]) if pieces else NONE
            slope += bend
            pieces.append(knot)
            heights.append((knot, height, slope))

        def at(z: Fraction) -> Fraction:
            held = [h + s * (z - k) for k, h, s in heights if k <= z]
            return held[-1] if held else start[0]

        seen = [at(of.low), at(of.high), *(h for k, h, _ in heights if of.low < k < of.high)]
        steepest = max(abs(s) for _, _, s in heights)
        if any(self.precision.nearest(float(n)) != n for n in (*knots, *bends, *start)):
            raise Undecided(f"{line} has numbers that {self.precision.name} does not hold")
        # where a constant is added to the line or to its argument, the two are stored as one number, rounded once
        sizes = sum(
            (abs(bend) * (abs(knot) + of.reach) for knot, bend in zip(knots, bends, strict=True)), abs(start[0])
        )
        held = self.precision.unit * sizes + sum(map(abs, bends), NONE) * of.held
        return Value(min(seen), max(seen), None, steepest * of.error + Fraction(line.error), NONE, held)

    def _raised(self, expression: tree.Sum, one: Value, other: Value) -> Value:
        """one, or the larger of the two."""
        held = one.held + self.of(expression.terms[1]).held
        return one.hull(other)._replace(low=one.low, high=max(one.high, other.high), held=held)

    def _sum(self, parts: list[Value]) -> Value:
        lattice: Kind = ZERO
        for part in parts:
            lattice = added(lattice, part.lattice)
        low, high = sum((p.low for p in parts), NONE), sum((p.high for p in parts), NONE)
        error, off = sum((p.error for p in parts), NONE), sum((p.meant for p in parts), NONE)
        return Value(low, high, lattice, error, off, sum((p.held for p in parts), NONE))

    def _scaled(self, factor: float, of: Value) -> Value:
        by = Fraction(factor)
        low, high = sorted((by * of.low, by * of.high))
        rounded = self._rounded(factor)
        if of.held:  # the factor of a factor is rounded once more
            rounded = max(rounded, self.precision.unit * abs(by))
        off = abs(by) * of.meant + misread(factor) * (of.reach + of.meant)
        held = abs(by) * of.held + rounded * (of.reach + of.error)
        return Value(low, high, scaled(meant(factor), of.lattice), abs(by) * of.error, off, held)

    def _product(self, one: Value, other: Value, whole: Expression) -> Value:
        fixed, free = (one, other) if one.fixed else (other, one)
        if not fixed.fixed:
            raise Undecided(f"{whole} multiplies two values that both depend on the input, and there is no bound on it")
        low, high = sorted((fixed.low * free.low, fixed.low * free.high))
        by, off = abs(fixed.low), fixed.error + fixed.meant
        exact = self.precision.nearest(float(fixed.low)) == fixed.low and not self.loose
        return Value(
            low,
            high,
            multiplied(fixed.lattice, free.lattice),
            by * free.error + fixed.error * (free.reach + free.error),
            by * free.meant + off * (free.reach + free.meant),
            by * free.held + (NONE if exact else self.precision.unit * by * free.reach),
        )

    def _relu(self, of: Value) -> Value:
        lattice = of.lattice if of.low >= 0 else ZERO if of.high <= 0 else joined(of.lattice, ZERO)
        return of._replace(low=max(of.low, NONE), high=max(of.high, NONE), lattice=lattice)

    def _gate(self, of: Value, shut: Value) -> Value:
        if shut.low > 0:
            return number(NONE)
        return of if shut.high <= 0 else of.hull(number(NONE))

    def _either(self, bit: Value, one: Value, zero: Value) -> Value:
        return one if bit.low == 1 else zero if bit.high < 1 else one.hull(zero)

    def _exchange(self, upper: Value, own: Value, other: Value) -> Value:
        both = own.hull(other)
        least, most = min(own.high, other.high), max(own.low, other.low)
        return both._replace(low=most) if upper.low == 1 else both._replace(high=least) if upper.high < 1 else both

    def _bit(self, decider: Expression) -> Value:
        """A value that decides: the model has it exactly."""
        found = self.of(decider)
        if found.error or found.meant or found.held:
            raise Undecided(f"{decider} decides, and rounding can move it by {float(found.error + found.meant):.2g}")
        return found

    def _compared(
        self, of: Value, gaps: tuple[tuple[Fraction, Fraction], ...], grid: Fraction, whole: Expression
    ) -> Value:
        """A bit: the same for program and model where neither can come near the threshold in the middle of a gap."""
        off = of.error + of.meant + of.held
        if off and not (of.lattice is not None and 2 * off < grid):
            raise Undecided(f"{whole} compares values that rounding can move by {float(off):.2g}")
        for below, above in gaps:
            if off and between(of.lattice, max(below, of.low - off), min(above, of.high + off)) is not None:
                raise Undecided(f"{whole} compares values that can lie between its two answers")
        return Value(NONE, Fraction(1), WHOLE)
