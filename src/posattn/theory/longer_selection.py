"""What a trained selector loses on more tokens than it was trained with, where its encoding is fixed.

One-hot positions, E = I: descent with `trained` tokens has made V = v·[I, 0] and W's position block γ·(I − 11ᵀ/T₀),
T₀ = trained (`selection`). The places after T₀ were never trained, so that their rows and columns of W are 0. If k of
the q selected tokens lie in trained places, the logits are

    γ(1 − k/T₀) for these k,   −γk/T₀ for the other trained places,   0 for every new place, selected or not,

and the loss is κd·Σ_i (v·α_i − [i ∈ y]/q)². k is hypergeometric. An encoding that is redrawn for every sample knows no
new places: it carries the gap over, and loses `selection.loss(v, g, T, q, d)`.
"""

# ruff: noqa: N803 (the letters of the paper)

import math

import numpy as np

from posattn import checks
from posattn.errors import require
from posattn.theory.selection import loss


def fixed_loss(v: float, g: float, T: int, q: int, d: int, kappa: float = 0.5, *, trained: int) -> float:
    """κ·E‖f − y‖² on T tokens, of which the first `trained` were there in training.

    >>> fixed_loss(1.0, 5.0, T=200, q=3, d=5, trained=200) == float(loss(1.0, 5.0, T=200, q=3, d=5))
    True
    >>> fixed_loss(1.0, 9.0, T=400, q=3, d=5, trained=200) > 10 * float(loss(1.0, 9.0, T=400, q=3, d=5))
    True
    """
    v, g = float(checks.real("v", v)), float(checks.real("g", g))
    at_once = float(loss(v, g, T=T, q=q, d=d, kappa=kappa))
    checks.whole("trained", trained, least=2)
    require(
        q <= trained, f"trained={trained}, q={q}: a subset of {q} was not there in training. Use at least {q} tokens."
    )
    if trained >= T:
        return at_once
    new = T - trained
    total = 0.0
    for k in range(max(0, q - new), q + 1):
        chance = math.comb(trained, k) * math.comb(new, q - k) / math.comb(T, q)
        total += chance * _squares(v, g, k, q, trained, new)
    return kappa * d * total


def _squares(v: float, g: float, k: int, q: int, trained: int, new: int) -> float:
    """Σ_i (v·α_i − [i ∈ y]/q)² with k selected tokens in trained places."""
    logits = np.array([g * (1 - k / trained), -g * k / trained, 0.0, 0.0])
    counts = np.array([k, trained - k, q - k, new - (q - k)])
    wanted = np.array([1 / q, 0.0, 1 / q, 0.0])
    weights = np.exp(logits - logits.max())
    return float((counts * (v * weights / (counts * weights).sum() - wanted) ** 2).sum())
