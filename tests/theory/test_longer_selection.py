"""The closed form on more tokens against the whole model: every subset, full matrices."""

# ruff: noqa: N803, N806 (the letters of the paper)

from itertools import combinations

import numpy as np
import pytest

from posattn.errors import PosattnError
from posattn.theory.longer_selection import fixed_loss
from posattn.theory.selection import loss


def by_enumeration(v: float, g: float, T: int, q: int, d: int, kappa: float, trained: int) -> float:
    """Tokens are independent with unit variance, so E‖Σ_i c_i·x_i‖² = d·Σ c_i²; the mean is over all subsets."""
    W = np.zeros((T + trained, T + trained))
    W[:trained, :trained] = g * (np.eye(trained) - np.ones((trained, trained)) / trained)
    W = W[:T, :T]
    total = []
    for chosen in combinations(range(T), q):
        y = np.zeros(T)
        y[list(chosen)] = 1
        attention = np.exp(W @ y) / np.exp(W @ y).sum()
        total.append(kappa * d * ((v * attention - y / q) ** 2).sum())
    return float(np.mean(total))


@pytest.mark.parametrize(("T", "q", "trained"), [(5, 2, 5), (7, 2, 5), (9, 3, 4), (6, 1, 2), (5, 3, 3), (4, 2, 6)])
@pytest.mark.parametrize(("v", "g", "kappa"), [(1.0, 0.0, 0.5), (1.1, 2.5, 0.5), (0.7, 6.0, 1.3), (1.0, 25.0, 0.5)])
def test_the_formula_is_the_mean_over_all_subsets(
    T: int, q: int, trained: int, v: float, g: float, kappa: float
) -> None:
    found = fixed_loss(v, g, T=T, q=q, d=5, kappa=kappa, trained=trained)
    # Exponents of up to 25 lose 5 of 53 bits; v·α − 1/q ≈ e⁻²⁵ is off by 2⁻⁵⁰, and 9 squares of it by less than 2⁻⁸⁰.
    assert found == pytest.approx(by_enumeration(v, g, T, q, 5, kappa, trained), rel=2.0**-40, abs=2.0**-79)


def test_where_nothing_is_new_it_is_the_trained_loss() -> None:
    assert fixed_loss(1.2, 3.0, T=10, q=2, d=4, trained=10) == loss(1.2, 3.0, T=10, q=2, d=4)


def test_a_subset_larger_than_what_was_trained_is_refused() -> None:
    with pytest.raises(PosattnError, match="trained=2, q=3"):
        fixed_loss(1.0, 1.0, T=8, q=3, d=2, trained=2)
