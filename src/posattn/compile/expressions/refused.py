"""Python operators that an expression refuses, each with what to write instead.

Some would decide by a value that is not known while the program is being written; the others are not piecewise linear.
"""

from typing import Any

from posattn.errors import PosattnError

#: What to write where Python itself would compare two expressions: `a > b`, `min(a, b)`, `max(a, b)`, `sorted`.
COMPARE = (
    "the values are not known while the program is being written. Write minimum(a, b) and maximum(a, b) instead of min "
    "and max, and positive(a - b) for the bit a > b."
)


class Refusing:
    """Every operator here raises."""

    def __bool__(self) -> bool:
        raise PosattnError(
            f"'if {self}', 'and', 'or' and 'not' decide once, when the program is written, not at every node: write "
            "select(bit, one, zero), or gate(value, shut=bit)."
        )

    def __lt__(self, other: Any) -> bool:
        raise PosattnError(f"{self} < {other}: {COMPARE}")

    def __le__(self, other: Any) -> bool:
        raise PosattnError(f"{self} <= {other}: {COMPARE}")

    def __gt__(self, other: Any) -> bool:
        raise PosattnError(f"{self} > {other}: {COMPARE}")

    def __ge__(self, other: Any) -> bool:
        raise PosattnError(f"{self} >= {other}: {COMPARE}")

    def __pow__(self, power: Any) -> Any:
        raise PosattnError(f"{self} ** {power}: powers are not piecewise linear. call(product, a, a) can be fitted.")

    def __mod__(self, divisor: Any) -> Any:
        raise PosattnError(f"{self} % {divisor}: the language has no remainders. Build them from positive(…) bits.")

    def __floordiv__(self, divisor: Any) -> Any:
        raise PosattnError(f"{self} // {divisor}: the language has no rounding. Use / and positive(…) bits.")

    def __rtruediv__(self, number: Any) -> Any:
        raise PosattnError(
            f"{number} / {self}: a quotient is not piecewise linear. call(numpy.reciprocal, …) can be fitted."
        )
