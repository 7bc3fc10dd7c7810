"""Python operators that an expression refuses, each with what to write instead.

Some would decide by a value that is not known while the program is being written; the others are not piecewise linear.
"""

from typing import Any

from posattn.errors import PosattnError

#: What to write where Python itself would compare two expressions: `a > b`, `min(a, b)`, `max(a, b)`, `sorted`.
COMPARE = (
    "the values are not known while the program is being written. Write minimum(a, b) and maximum(a, b) instead of min "
    "and max, and for the bit a > b positive(a - b) on a grid, or ramp(a - b, width=…) without one."
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
        raise PosattnError(f"{self} ** {power}: powers are not piecewise linear. a * a can be fitted.")

    def __mod__(self, divisor: Any) -> Any:
        raise PosattnError(f"{self} % {divisor}: remainders need bounds. Write modulo(a, 3, low=…, high=…).")

    def __floordiv__(self, divisor: Any) -> Any:
        raise PosattnError(f"{self} // {divisor}: rounding needs bounds. Write floor_divide(a, 3, low=…, high=…).")
