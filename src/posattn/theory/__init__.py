"""What theory promises: bounds and closed-form dynamics, one file per result."""

from posattn.theory import bounds, homogeneity, lipschitz, norms, report, selection

__all__ = ["bounds", "homogeneity", "lipschitz", "norms", "report", "selection"]
