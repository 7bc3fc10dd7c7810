"""Everything that theory says about one model, as named values with their meaning."""

from dataclasses import fields

import torch

from posattn import checks
from posattn.errors import PosattnError, require
from posattn.nn import LoopedPositionalTransformer, Model, PositionalTransformer, StandardTransformer
from posattn.nn.weights import check_finite_weights
from posattn.theory import bounds, homogeneity, lipschitz
from posattn.theory.looped_report import Facts, about_looped

MEANINGS = {
    "heads": "H",
    "layers": "L",
    "width": "d",
    "nodes": "n",
    "slope": "L_σ, the activation's largest slope",
    "spectral": "B₂, the largest spectral norm of any matrix but Q and K",
    "column": "B_{2,1}, the largest (2,1)-norm: column lengths, added up",
    "query_key": "B_QK, the largest ‖W_Q·W_Kᵀ‖₂/√d_k of any head",
    "norm_factor": "log₁₀ (H·L_σ·B₂)^(cL)·B_{2,1}",
    "query_key_factor": "log₁₀ B_QK^(cL); 0 where attention sees positions alone",
    "sample_factor": "log₁₀ √(log(Hdmn)/m)",
    "confidence": "log₁₀ √(log(1/δ)/m)",
}


def about(
    model: Model,
    *,
    samples: int,
    delta: float = 0.05,
    constant: float = 1.0,
    task: str | None = None,
    scales: tuple[float, ...] = (),
    length: int | None = None,
) -> Facts:
    """Norms, the terms of the bound, Lipschitz bounds and, with a task, errors at other scales.

    Of a looped model: the law of its step and the largest error at a length, which is the side for graphs and tables.
    """
    checks.instance("model", model, Model, fix="pass a model, as posattn.load(file) gives it")
    if task is not None:
        checks.choice("task that scales with its input", task, homogeneity.TASKS)
    numbers = isinstance(scales, (tuple, list)) and all(homogeneity.redraw_factor(scale) for scale in scales)
    require(numbers, f"scales={scales!r}: give a tuple of numbers, as (2.0, 5.0).")
    check_finite_weights(f"the {model.architecture.kind} model", model.weights())
    if isinstance(model, LoopedPositionalTransformer):
        require(length is not None, "a looped model works at every length: name one, as --length 1024 (length=1024).")
        require(task is None, f"--task {task}: errors at other scales follow for homogeneous positional models alone.")
        assert length is not None
        return about_looped(model, length)
    require(length is None, f"--length {length}: bounds at any length are those of looped models. Leave it out.")
    found = bounds.terms(model, samples=samples, delta=delta, constant=constant)
    facts: Facts = {"model": (found.architecture, f"m = {samples}, δ = {delta:g}, c = {constant:g}, other constants 1")}
    for field in fields(found):
        value = getattr(found, field.name)
        if field.name in MEANINGS and value is not None:
            facts[field.name.replace("_", " ")] = (value, MEANINGS[field.name])
    facts["bound"] = (
        found.total,
        "log₁₀ of the whole bound of Theorem 6.1, to be compared and not read as a gap",
    )
    if isinstance(model, PositionalTransformer):
        above = lipschitz.upper(model)
        layers = ", ".join(f"{factor:.3g}" for factor in above.layers)
        facts["Lipschitz, at most"] = (
            above.bound,
            f"on all of R^n; layers {layers}; decoder {above.decoder:.3g}",
        )
    else:
        facts["Lipschitz, at most"] = (None, "attention that sees values has none on an unbounded domain")
    if isinstance(model, (PositionalTransformer, StandardTransformer)):
        below = lipschitz.lower(model, generator=torch.Generator().manual_seed(0))
        facts["Lipschitz, at least"] = (below.bound, "the largest slope that was found for inputs in ±2")
    return facts | (_scales(model, task, scales) if task is not None else {})


def _scales(model: Model, task: str, scales: tuple[float, ...]) -> Facts:
    if not isinstance(model, PositionalTransformer):
        raise PosattnError(f"--task {task}: errors at other scales follow for homogeneous positional models alone.")
    facts: Facts = {}
    for scale in scales:
        expected = homogeneity.predict(model, task, scale=scale, generator=torch.Generator().manual_seed(1))
        seen = homogeneity.measure(model, task, scale=scale, generator=torch.Generator().manual_seed(2))
        facts[f"error at c = {scale:g}"] = (
            expected.redrawn.value,
            f"predicted from unit scale, 99 % {expected.redrawn.low:.3g} … {expected.redrawn.high:.3g}, at most "
            f"{expected.redrawn_at_most:.3g}",
        )
        facts[f"measured at c = {scale:g}"] = (
            seen.value,
            f"the same on samples of that scale, {seen.low:.3g} … {seen.high:.3g}",
        )
    return facts
