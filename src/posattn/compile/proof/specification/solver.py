"""Local functions in z3, over the reals and in exact fractions, with the meaning that the interpreter gives them."""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from posattn.compile.expressions import Expression, Line, tree
from posattn.compile.proof.findings import OutOfTime, TimeLimit
from posattn.errors import missing_extra


class NotFollowed(Exception):  # noqa: N818 (a limit of the method, not an error)
    """Something that no method of a proof covers, and why."""


def load_z3() -> Any:
    """The solver, or the error that says how to install it."""
    try:
        import z3
    except ImportError:
        raise missing_extra("a proof", "proof") from None
    return z3


class Solver:
    """Decides whether something holds for all reals, within a time limit."""

    def __init__(self, limit: TimeLimit) -> None:
        self.z3, self.limit = load_z3(), limit
        self.asked = 0

    def real(self, name: str) -> Any:
        return self.z3.Real(name)

    def number(self, value: float | Fraction) -> Any:
        exact = Fraction(value)
        return self.z3.Q(exact.numerator, exact.denominator)

    def always(self, claim: Any, given: Iterable[Any] = ()) -> bool:
        """Whether the claim follows from what is given."""
        return self.counterexample(claim, given) is None

    def counterexample(self, claim: Any, given: Iterable[Any] = ()) -> Any | None:
        """Values for which the claim fails; None where it always holds."""
        self.asked += 1
        solver = self.z3.Solver()
        solver.set("timeout", self.limit.milliseconds())
        solver.add(*given, self.z3.Not(claim))
        answer = solver.check()
        if answer == self.z3.unknown:
            self.limit.check()
            raise OutOfTime
        return solver.model() if answer == self.z3.sat else None

    def formula(self, expression: Expression, words: Mapping[str, Any]) -> Any:
        """The expression's value. `words`: what each word stands for."""
        return _Translation(self, words).of(expression)


class _Translation:
    """An expression in z3, each of its parts once."""

    def __init__(self, solver: Solver, words: Mapping[str, Any]) -> None:
        self.solver, self.words = solver, words
        self.known: dict[Expression, Any] = {}

    def of(self, expression: Expression) -> Any:
        found = self.known.get(expression)
        if found is None:
            found = self.known[expression] = self._made(expression)
        return found

    def _made(self, expression: Expression) -> Any:
        z3, number, of = self.solver.z3, self.solver.number, self.of
        match expression:
            case tree.Word(name):
                return self.words[name]
            case tree.Constant(value):
                return number(value)
            case tree.Sum(terms):
                return z3.Sum([of(term) for term in terms])
            case tree.Scaled(factor, part):
                return number(factor) * of(part)
            case tree.Product(one, other):
                return of(one) * of(other)
            case tree.Relu(part):
                return z3.If(of(part) > 0, of(part), number(0))
            case tree.Minimum(one, other):
                return z3.If(of(one) <= of(other), of(one), of(other))
            case tree.Maximum(one, other):
                return z3.If(of(one) >= of(other), of(one), of(other))
            case tree.Gate(part, shut):
                return z3.If(of(shut) > 0, number(0), of(part))
            case tree.Select(bit, _, one, zero):
                return z3.If(of(bit) == 1, of(one), of(zero))
            case tree.Exchange(own, other, upper, _):
                smaller = of(own) <= of(other)
                return z3.If(smaller == (of(upper) == 1), of(other), of(own))
            case tree.Positive(part, grid):
                return z3.If(of(part) > number(grid) / 2, number(1), number(0))
            case tree.Equal(one, other, grid):
                apart, half = of(one) - of(other), number(grid) / 2
                return z3.If(z3.And(apart < half, -apart < half), number(1), number(0))
            case Line(part, start, knots, bends, _):
                steps = (of(part) - number(knot) for knot in knots)
                bent = (number(bend) * z3.If(step > 0, step, 0) for bend, step in zip(bends, steps, strict=True))
                return z3.Sum([number(start), *bent])
            case tree.Call(name):
                raise NotFollowed(f"'{name}' is not piecewise linear")
        raise tree.foreign(expression)
