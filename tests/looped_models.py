"""Looped models whose steps have chosen slopes, made by hand."""

from collections.abc import Sequence

import torch

from posattn.nn import Action, LoopedPositionalTransformer


def with_slopes(
    schedule: str,
    symmetry: tuple[str | Action, ...],
    slopes: Sequence[Sequence[float]],
    *,
    reads: str = "all",
) -> LoopedPositionalTransformer:
    """Role r answers slopes[r][0]·relu(d) + slopes[r][1]·relu(−d), in float64.

    Heads get the shares (p, q) in role 0 and (q, p) in role 1. The hidden numbers ±(h₀ − t·h₁) with t = q/p vanish in
    role 1, and ±(h₁ − t·h₀) in role 0, so each role has its own pair of them.
    """
    model = LoopedPositionalTransformer(
        schedule=schedule, symmetry=symmetry, hidden_dim=4, heads=2, mlp_layers=2, reads=reads
    )
    model = model.double()
    logits = torch.zeros_like(model.logits.data)
    for role in range(len(slopes)):
        logits[role, role, 1] = 2.0
    p, q = (float(torch.tensor([0.0, x], dtype=torch.float64).softmax(0)[1]) for x in (2.0, 0.0))
    t, height = q / p, p - q * q / p
    first = torch.tensor([[1, -t], [-1, t], [-t, 1], [t, -1]], dtype=torch.float64)
    rows = [*slopes, (0.0, 0.0)][:2]
    last = torch.tensor([[slope / height for row in rows for slope in row]], dtype=torch.float64)
    model.load_state_dict({"logits": logits, "layers.0.weight": first, "layers.1.weight": last})
    return model
