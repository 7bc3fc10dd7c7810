"""Sparse token selection in closed form: how gradient descent on the population loss learns it, step by step.

One-hot positions, E = I, and f = V Z softmax(Zᵀ W z_query) with Z = [X; E], z_query = [0; Σ_{j∈y} e_j], from V = 0 and
W = 0. Rotating the tokens and permuting the positions changes nothing, so all of V and W stays zero but V's token block
v·I and W's position block γ·(I − 11ᵀ/T). What matters of γ is the gap g = γ between the logit of a selected token and
that of another: a selected token gets the attention p, another one r,

    p = 1/(q + (T − q)e^(−g)),   r = e^(−g)·p,   S = qp² + (T − q)r²,

and descent with step size η is a recursion of two numbers:

    v ← v − η·2κ(vS − p),   γ ← γ + η·2κ·(dq/(T − 1))·p(1 − qp)·v·(1/q − v(p − r)).

T tokens of d coordinates, q of them selected; κ weighs the squared error, as in `posattn.tasks`. The model is that of
Wang et al. 2024, "Transformers Provably Learn Sparse Token Selection While Fully-Connected Nets Cannot" (arXiv
2406.06893). Differs from the paper's runs in that the loss is exact (no batches), the keys are Z without the query, and
the positions are one-hot.
"""

# ruff: noqa: N803 (the letters of the paper)

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, repeat
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from posattn import checks
from posattn.errors import PosattnError, require

Numbers = float | Float[np.ndarray, "..."]


class Gradient(NamedTuple):
    """The gradient's two coefficients: ∇_V L = v·[I, 0], and ∇_W L = g·(I − 11ᵀ/T) in the position block."""

    v: Numbers
    g: Numbers


@dataclass(frozen=True)
class Trajectory:
    """Descent at the steps kept: the value v, the gap g, and the population loss there."""

    step: Int[np.ndarray, " kept"]
    v: Float[np.ndarray, " kept"]
    g: Float[np.ndarray, " kept"]
    loss: Float[np.ndarray, " kept"]


def loss(v: Numbers, g: Numbers, T: int, q: int, d: int, kappa: float = 0.5) -> Numbers:
    """κ·E‖f − y‖² = κd[v²S − 2vp + 1/q], and κd/q at v = 0.

    T and q may be others than those trained with, where the gap stays what it was: one-hot positions keep it for every
    q and for fewer tokens. For more tokens than were trained, it is the loss of an encoding that carries the gap over.
    """
    _check(T, q, d, kappa)
    v, (p, r) = _finite("v", v), _attention(g, T, q)
    # The same as the formula, as a sum of squares: no two large terms cancel.
    return kappa * d * (q * (v * p - 1 / q) ** 2 + (T - q) * (v * r) ** 2)


def gradient(v: Numbers, g: Numbers, T: int, q: int, d: int, kappa: float = 0.5) -> Gradient:
    """What a step of descent takes off: v ← v − η·gradient.v, γ ← γ − η·gradient.g.

    These are the coefficients of the matrices' gradients. The loss as a function of two numbers has the derivatives
    ∂L/∂v = d·gradient.v and ∂L/∂g = (T − 1)·gradient.g, as ‖[I, 0]‖² = d and ‖I − 11ᵀ/T‖² = T − 1.
    """
    _check(T, q, d, kappa)
    v, (p, r) = _finite("v", v), _attention(g, T, q)
    square = q * p**2 + (T - q) * r**2
    others = (T - q) * r  # 1 − qp, without the cancellation
    return Gradient(2 * kappa * (v * square - p), -2 * kappa * d * q / (T - 1) * p * others * v * (1 / q - v * (p - r)))


def trajectory(
    T: int,
    q: int,
    d: int,
    eta: float | Float[np.ndarray, " steps"],
    steps: int,
    kappa: float = 0.5,
    *,
    every: int = 1,
) -> Trajectory:
    """Gradient descent on the population loss from v = γ = 0, at the steps 0, every, 2·every … up to `steps`.

    `eta` is the step size η, or an array with that of every step, as when the paper goes from 1 to 1/3 at step 50,000:
    `np.where(np.arange(100_000) < 50_000, 1, 1 / 3)`.

    >>> run = trajectory(T=200, q=3, d=5, eta=1.0, steps=10_000, every=5_000)
    >>> [f"{step}: {loss:.4f}" for step, loss in zip(run.step, run.loss)]
    ['0: 0.8333', '5000: 0.2896', '10000: 0.0111']
    """
    _check(T, q, d, kappa)
    require(checks.whole("steps", steps) >= 0, f"steps={steps}: descent cannot go back. Use 0 or more.")
    require(
        checks.whole("every", every) >= 1, f"every={every}: each step can be kept (1), or each second (2), and so on."
    )
    sizes = _positive("eta", eta)
    require(
        sizes.shape in ((), (steps,)),
        f"eta has shape {sizes.shape}: give one number, or one for each of the {steps} steps.",
    )
    rates = 2 * kappa * sizes
    points = _descend(T, q, d, rates.data if rates.shape else repeat(float(rates), steps))
    step = np.arange(0, steps + 1, every)
    try:
        v, g = np.fromiter(islice(points, 0, None, every), dtype=(np.float64, 2), count=len(step)).T.copy()
    except OverflowError:
        v = g = np.array(math.nan)
    if not np.isfinite(v + g).all():
        raise PosattnError(
            f"eta={sizes.max():g}: descent diverges. Take smaller steps: it settles with eta below q/κ = {q / kappa:g}."
        )
    return Trajectory(step, v, g, np.asarray(loss(v, g, T=T, q=q, d=d, kappa=kappa)))


def _descend(T: int, q: int, d: int, rates: Iterable[float]) -> Iterator[tuple[float, float]]:
    """The recursion in plain floats, a rate being 2κη.

    With u = vp and w = (T − q)e^(−g), so that 1 − qp = wp: vS − p = p(u(q + we^(−g)) − 1), and
    p(1 − qp)v(1/q − v(p − r)) = wpu(1/q − u(1 − e^(−g))).
    """
    v = g = 0.0
    others, scale, mean, exp = T - q, d * q / (T - 1), 1 / q, math.exp
    yield v, g
    for rate in rates:
        e = exp(-g)
        w = others * e
        p = 1 / (q + w)
        u = v * p
        v -= rate * p * (u * (q + w * e) - 1)
        g += rate * scale * w * p * u * (mean - u * (1 - e))
        yield v, g


def best_v(g: Numbers, T: int, q: int) -> Numbers:
    """The v of smallest loss at a gap, p/S: 1 at g = 0, more at a greater gap where q < T, and 1 again in the limit."""
    _check(T, q)
    p, r = _attention(g, T, q)
    return p / (q * p**2 + (T - q) * r**2)


def best_loss(g: Numbers, T: int, q: int, d: int, kappa: float = 0.5) -> Numbers:
    """The smallest loss at a gap, κd(T − q)e^(−2g)/(q(q + (T − q)e^(−2g)))."""
    _check(T, q, d, kappa)
    p, r = _attention(g, T, q)
    selected, others = q * p**2, (T - q) * r**2
    return kappa * d / q * others / (selected + others)


def inverse_loss_slope(T: int, eta: float) -> float:
    """What 1/L gains a step in the end, 4η/(T − 1), for every κ, d and q < T.

    v follows its best value, where dγ/dt → 2ηL/(T − 1) and dL/dγ → −2L, so dL/dt → −4ηL²/(T − 1). Before the end, the
    slope is that times 1 − (2q/d + (T − q)/(T − 1))·L/κ + O(L^1.5): e^(−g) is not yet small, and v lags behind its
    best.
    """
    _check(T)
    require(checks.real("eta", eta) > 0, f"eta={eta}: it must be greater than 0.")
    return 4 * eta / (T - 1)


def asymptote(t: Numbers, T: int, eta: float) -> Numbers:
    """What the loss after t steps tends to, (T − 1)/(4ηt), for every κ, d and q < T."""
    return 1 / (inverse_loss_slope(T, eta) * _positive("t", t))


def fcn_floor(m: int, T: int, q: int, d: int, kappa: float = 0.5) -> float:
    """The least loss of any function of y and of m linear features of X, such as a network with m first-layer units.

    κ(Td − m)(T − q)/(qT(T − 1)) for d ≤ m ≤ Td; below d, κ[(d − m)/T + d(T − q)/(qT)]; above Td, 0. Some function
    attains it.

    The target is B_y·vec(X), so features that span a space with projector P leave tr((I − P)M), M = E_y B_yᵀB_y. Two
    tokens are both selected with probability q(q − 1)/(T(T − 1)), so M has d eigenvalues 1/T (the mean of all tokens)
    and (T − 1)d smaller ones (T − q)/(qT(T − 1)). The best features take the largest m.
    """
    _check(T, q, d, kappa)
    require(checks.whole("m", m) >= 0, f"m={m}: a network has a whole number of features, 0 or more.")
    means, contrasts = max(d - m, 0), min(max(T * d - m, 0), (T - 1) * d)
    return kappa * (means / T + contrasts * (T - q) / (q * T * (T - 1)))


def _attention(g: Numbers, T: int, q: int) -> tuple[Numbers, Numbers]:
    """p and r at a gap, by a softmax that cannot overflow."""
    g = _finite("g", g) * (q < T)  # with all tokens selected, there is no gap
    selected, other = np.exp(np.minimum(g, 0)), np.exp(-np.maximum(g, 0))
    total = q * selected + (T - q) * other
    return selected / total, other / total


def _finite(name: str, values: Numbers) -> np.ndarray:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (ValueError, TypeError):
        raise PosattnError(f"{name}={values!r}: it must be a number, or an array of numbers.") from None
    require(bool(np.isfinite(array).all()), f"{name}={values}: it must be finite. Remove what is NaN or infinite.")
    return array


def _positive(name: str, values: Numbers) -> np.ndarray:
    array = _finite(name, values)
    require(bool((array > 0).all()), f"{name}={values}: it must be greater than 0.")
    return array


def _check(T: int, q: int = 1, d: int = 1, kappa: float = 0.5) -> None:
    for name, value in (("T", T), ("q", q), ("d", d)):
        checks.whole(name, value)
    require(T >= 2, f"T={T}: with fewer than two tokens there is nothing to select. Use T ≥ 2.")
    require(1 <= q <= T, f"q={q}, T={T}: a subset has at least one token and at most all of them.")
    require(d >= 1, f"d={d}: a token has at least one coordinate.")
    require(
        0 < checks.number("kappa", kappa) < math.inf,
        f"kappa={kappa}: the squared error's weight is positive and finite. Use 0.5 or 1.",
    )
