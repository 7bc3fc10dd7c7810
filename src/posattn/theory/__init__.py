"""What theory promises: bounds and closed-form dynamics, one file per result."""

from posattn.theory import (
    bounds,
    homogeneity,
    lipschitz,
    longer_selection,
    looped_errors,
    looped_report,
    norms,
    report,
    selection,
    step_deviation,
)

__all__ = [
    "bounds",
    "homogeneity",
    "lipschitz",
    "longer_selection",
    "looped_errors",
    "looped_report",
    "norms",
    "report",
    "selection",
    "step_deviation",
]
