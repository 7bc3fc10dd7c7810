"""How far a looped model can be from what its step nearly is, for every input at every size.

ε says how far one learned step is from the simple one (`posattn.nn.law`, `posattn.theory.step_deviation`); these bounds
say what k steps make of it. The simple step is min, max, or any in between that gives a point of the segment between
the two numbers (0 ≤ up ≤ 1, −1 ≤ down ≤ 0); a sum; or the relaxation of a path. Each function states its bound, and
proves it.

With `unit`, the unit roundoff u of a float format (2⁻²⁴ for float32), bounds hold for computed numbers too. Assumed is
that a step is evaluated by its slopes, which are floats, from the nearer of its two candidates
(`posattn.nn.looped_step.sloped_step`), by additions and multiplications that each round at most once and correctly,
without over- or underflow. A model does so under `torch.no_grad()`; with gradients it evaluates its MLP, which rounds
more often. ε is then that of these floats, `law(model, evaluated=True)`.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import torch

from posattn.checks import instance, real, switch, whole
from posattn.errors import require
from posattn.nn import Looped, LoopedPositionalTransformer
from posattn.nn.law import Law, check_looped, law
from posattn.theory.step_deviation import TARGETS, check_two_numbers, largest_deviation

#: Bounds are computed in float64 and made larger by this share, far more than their rounding errors.
MARGIN = 1e-9


@dataclass(frozen=True)
class Bound:
    """No answer is off by more than `value` times what `of` says, from that of the step that is the `target`."""

    value: float
    of: str
    steps: int  # that follow one another
    epsilon: float  # how far one step can be off
    target: str  # what the step nearly is


def steps(sizes: Looped, size: int) -> int:
    """How many steps follow one another, at most. `size`: the length; for graphs and tables the side.

    scan ⌈log₂ n⌉; bitonic L(L + 1)/2 with L = ⌈log₂ n⌉; pairs n, or 2n where a step is a chain of two; grid 4n − 4,
    two for each diagonal but the first.

    >>> steps(Looped(schedule="bitonic", symmetry=("scale", "shift")), 65_536)
    136
    """
    instance("sizes", sizes, Looped, fix="pass model.architecture")
    size = whole("size", size, least=1)
    levels = (size - 1).bit_length()
    return {
        "scan": levels,
        "bitonic": levels * (levels + 1) // 2,
        "pairs": size * len(sizes.actions),
        "grid": 4 * size - 4,
    }[sizes.schedule]


def compare_bound(epsilon: float, steps: int, *, unit: float = 0.0) -> float:
    """k steps that compare two numbers, each off by at most ε·|partner − self|.

    The error is at most ((1 + 2ε)^k − 1)·(max x − min x)/2.

    Proof. Let T be the simple step on all nodes and T̃ the learned one, x_k and x̃_k the states, e_k = max|x̃_k − x_k|
    and R(x) = max x − min x. In every coordinate T is piecewise linear with gradients (1 − λ, λ), 0 ≤ λ ≤ 1, so
    max|T(x) − T(y)| ≤ max|x − y|, and T never enlarges R. Then

        e_{k+1} ≤ max|T̃(x̃_k) − T(x̃_k)| + max|T(x̃_k) − T(x_k)| ≤ ε·R(x̃_k) + e_k ≤ ε·(R(x_0) + 2e_k) + e_k,

    so e_{k+1} + R/2 ≤ (1 + 2ε)(e_k + R/2), with e_0 = 0. ∎ In a chain of steps inside an iteration (widest path) x is
    the state together with what the chain has computed so far; a node that keeps its number is off by 0.

    With rounding: ((1 + 2ε + ρ)^k − 1)·max|x|, ρ = 4(1 + 2ε)u.

    Proof. Let M = max|x̃_k|, so that |d| ≤ 2M. A step is base + r·d, where the base is one of the two numbers and
    |r| ≤ ½ + ε: its share of the way lies in [−ε, 1 + ε], and r is its distance from the nearer end. The difference is
    computed up to the factor 1 + δ₁, the product up to 1 + δ₂, the sum up to 1 + δ₃, |δ| ≤ u. The result, at most
    (1 + 2ε)M, is off by at most (1 + u)(2u + u²)(½ + ε)·2M + u(1 + 2ε)M = (3 + 3u + u²)(1 + 2ε)uM ≤ ρ·M, where
    u ≤ 2⁻⁸. So e_{k+1} ≤ e_k + (2ε + ρ)(max|x| + e_k). ∎ There is no way round max|x|: rounding does not commute with
    shifts.
    """
    epsilon, unit = _rate("epsilon", epsilon), _rate("unit", unit)
    return _grown(2 * epsilon + _rounded(epsilon, unit), whole("steps", steps, least=0))


def size_bound(epsilon: float, steps: int) -> float:
    """k steps that are off by at most ε·max(|self|, |partner|): the error is at most ((1 + ε)^k − 1)·max|x|.

    Proof. As in `compare_bound`, with max|x̃_k| ≤ max|x| + e_k in place of R: e_{k+1} ≤ ε(max|x| + e_k) + e_k. ∎
    A step's rounding errors are of that form, and enter as a part of ε.
    """
    return _grown(_rate("epsilon", epsilon), whole("steps", steps, least=0))


def sum_bound(epsilon: float, steps: int) -> float:
    """k steps of a scan that add, off by at most ε·(|self| + |partner|): at most ((1 + ε)^k − 1)·Σ|x|.

    Proof. After k steps a node should hold the sum over a window of inputs; let S_k be the sum of their |x|. The
    windows of a node and its partner are disjoint and together are its next one, so S_{k+1} = S_k(self) + S_k(partner).
    If both are off by at most ((1 + ε)^k − 1)·S_k, then the new number is off by at most

        Σ_{self, partner} (e_k + ε·(S_k + e_k)) = Σ ((1 + ε)·e_k + ε·S_k) ≤ ((1 + ε)^{k+1} − 1)·S_{k+1}. ∎

    A step's rounding errors are of that form, and enter as a part of ε.
    """
    return _grown(_rate("epsilon", epsilon), whole("steps", steps, least=0))


def grid_bound(epsilon: float, side: int, *, unit: float = 0.0) -> float:
    """A table of side n, by chains of two steps that are off by at most ε·|d|: a multiple of the largest cost.

    For costs in [0, C] the error is at most ((1 + 2ε)^k − 1)·V/2 with V = (2n − 1)·C and k = 4n − 4.

    Proof. A path has at most 2n − 1 costs, so what the steps compare lies in [0, V] if all is exact. Sums with costs
    shift a candidate and its error stays, so `compare_bound` applies with V for R(x_0): e grows to ε(V + 2e) + e in
    each of at most two steps for each diagonal but the first. ∎ A potential changes neither d nor an error, so it is
    enough that costs are in [0, C] after some potential was taken away.

    With rounding, and without potentials: ((1 + 2ε + 2ρ)^k − 1)·V/2, ρ = 6(1 + 2ε)u.

    Proof. Candidates lie in [−e, V + e], so that they, their difference d, and the sums on the way to it are at most
    B = V + 2e. A step is base + r·d as in `compare_bound`. Three sums make d, which is off by at most 3(1 + u)²uB. The
    step is a function of d with slopes of at most 1 + ε from either base, so that this changes it by at most
    (1 + ε)·3(1 + u)²uB. Its base is a sum of two numbers, off by uB, the product is off by (½ + ε)(1 + 4u)uB and the
    last sum by (1 + 2ε)(1 + 8u)uB. All of it is at most (5.6 + 6.2ε)uB ≤ ρB, where u ≤ 2⁻⁸. A node at the border adds
    two numbers, and is off by uB. So e grows at most to e + (ε + ρ)(V + 2e). ∎
    """
    epsilon, unit, side = _rate("epsilon", epsilon), _rate("unit", unit), whole("side", side, least=1)
    rate = 2 * (epsilon + 6 * (1 + 2 * epsilon) * unit)
    return _grown(rate, 4 * side - 4) * (2 * side - 1) / 2


def path_bound(epsilon: float, nodes: int, *, unit: float = 0.0) -> float:
    """All shortest paths among n nodes by steps that are off by at most ε·|d|, d = D_ik + D_kj − D_ij.

    For weights in [w, W], w > 0, and a diagonal of 0, with Δ = 2W/(1 − 4nε), θ = 3nεΔ/w ≤ 1 and every i ≠ j,

        (1 − θ)·D*_ij ≤ D̃_ij ≤ D*_ij + h·n·ε·Δ ≤ (1 + θ/3)·D*_ij,

    where h counts the edges of a shortest path. The bound is θ/(W/w) = 6nε/(1 − 4nε). Potentials that are added to
    the weights change no error, so w and W are those without them.

    Proof, by induction over iterations t, of this and of 0 ≤ D̃_ij ≤ W + nεΔ for i ≠ j, −2nεΔ ≤ D̃_ii ≤ nεΔ. These give
    |d| ≤ 2(W + nεΔ) + 2nεΔ = Δ, so a step differs from the exact relaxation by at most εΔ.

    Above: D̃ after iteration t is at most D̃_ij + εΔ, which bounds the entries, and at most D̃_it + D̃_tj + εΔ. Follow a
    shortest path back in time and split it where t is one of its inner nodes: at each time it is in at most h parts,
    each of which adds at most εΔ in an iteration, and at the beginning the parts are its edges.

    Below: D̃_ij after iteration t is at least the smaller of D̃_ij and D̃_it + D̃_tj, minus εΔ. For t ∉ {i, j} follow the
    smaller one back. For t ∈ {i, j} the second is D̃_ij + D̃_tt, and D̃_tt ≥ −tεΔ at that time, since no D̃_ts + D̃_st
    is below 0: keep D̃_ij, at a loss of nεΔ. The parts at the beginning are the m edges of a walk from i to j. In each
    of n iterations at most m parts lose εΔ; an end of a part equals t once, and there are at most 2m ends in all. The
    walk loses at most 3mnεΔ ≤ θ·(its length), and its length is at least D*_ij. The diagonal is doubled once, at t = i,
    so D̃_ii ≥ −2nεΔ. ∎

    With rounding ε becomes ε + 4(1 + 2ε)u. D_ik + D_kj is at most Δ and off by at most uΔ, which changes the step by at
    most (1 + ε)uΔ; d is the difference of this number, as computed, and D_ij. From there the step is base + r·d with
    |r| ≤ ε: difference and product are off by at most ε(1 + u)²(2u + u²)Δ, the last sum by u(1 + ε)(1 + 4u)Δ. All of it
    is at most 4(1 + 2ε)uΔ, for u ≤ 2⁻⁸. ∎

    Without w the lower side fails: where walks cost nothing, errors below 0 can double in every iteration.
    """
    epsilon, unit, nodes = _rate("epsilon", epsilon), _rate("unit", unit), whole("nodes", nodes, least=1)
    rate = epsilon + _rounded(epsilon, unit)
    rest = 1 - 4 * nodes * rate
    return 6 * nodes * rate / rest * (1 + MARGIN) if rest > 0 else math.inf


def error_bound(model: LoopedPositionalTransformer, size: int, *, rounding: bool = False) -> Bound:
    """The bound for a model at one size; `size` is the length, and for graphs and tables the side.

    `rounding`: for numbers as the model computes them in its dtype under `torch.no_grad()`, else for real numbers.
    """
    check_looped(model)
    sizes, count = model.architecture, steps(model.architecture, size)
    unit = torch.finfo(next(model.parameters()).dtype).eps / 2 if switch("rounding", rounding) else 0.0
    if rounding and sizes.reads == "median":
        count += 1  # the mean of two rounds less than a step does
    if not sizes.sloped:
        return _by_deviation(model, count, unit)
    found = law(model)
    epsilon, target = _above(_rounded_epsilon(model, found) if rounding else found.epsilon), str(found)
    if sizes.translation == "shift":
        _check_between(found)
        of = "max|x|" if rounding else "(max x − min x)/2"
        return Bound(compare_bound(epsilon, count, unit=unit), of, count, epsilon, target)
    require(
        sizes.translation == "potential",
        f"symmetry={sizes.symmetry!r:.60}: bounds are for 'shift' and 'potential', not for other actions.",
    )
    if sizes.schedule == "grid":
        _check_between(found)
        of = "the largest cost, for costs of at least 0"
        return Bound(grid_bound(epsilon, size, unit=unit), of, count, epsilon, target)
    require(
        found.snapped == ((0, -1),),
        f"the step is nearest to “{found}”, not to the smaller of D_ij and D_ik + D_kj. Train it longer.",
    )
    of = "D_ij·(largest weight)/(smallest weight), i ≠ j, for weights above 0, if that is at most D_ij"
    return Bound(path_bound(epsilon, size, unit=unit), of, count, epsilon, target)


def _by_deviation(model: LoopedPositionalTransformer, count: int, unit: float) -> Bound:
    """For steps that see two numbers: from the nearest of min, max and sum, in each role."""
    check_two_numbers(model)
    adds, extremes = [], []
    for role in range(model.logits.shape[0]):
        found = {name: largest_deviation(model, name, role=role, evaluated=unit > 0) for name in TARGETS}
        adds.append(found["sum"].per_sum)
        extremes.append(min((found["min"], found["max"]), key=lambda one: one.per_largest))
    largest, added = _rounding(model, unit)
    if model.architecture.schedule == "scan" and max(adds) < max(one.per_largest for one in extremes):
        epsilon = float(max(adds)) * (1 + MARGIN) + added
        return Bound(sum_bound(epsilon, count), "Σ|x|", count, epsilon, "sum")
    epsilon = float(max(one.per_largest for one in extremes)) * (1 + MARGIN) + largest
    target = ", ".join(one.target for one in extremes)
    return Bound(size_bound(epsilon, count), "max|x|", count, epsilon, target)


def _rounding(model: LoopedPositionalTransformer, unit: float) -> tuple[float, float]:
    """What rounding adds to a step, per max(|s|, |o|) and per |s| + |o|.

    A number on its way from s to the answer is rounded at most m times: in its product with a share, in the sum of two,
    and so often as its matrices have columns. In whatever order sums are taken, the error is at most γ = mu/(1 − mu)
    times what the same maps give with absolute values for all weights (Higham 2002, section 3); ReLU adds nothing.
    """
    sizes = model.architecture
    often = 2 + sizes.heads + sizes.hidden_dim * (sizes.mlp_layers - 1)
    require(often * unit < 1, f"{often} roundings in a step are too many for {next(model.parameters()).dtype}.")
    gamma = often * unit / (1 - often * unit)
    with torch.no_grad():
        whole_step = model.logits.softmax(-1)[..., 1:].double()  # roles, heads, numbers
        for weight in model.linear_maps():
            whole_step = weight.double().abs() @ whole_step
    by_number = whole_step[:, 0]
    grown = gamma * (1 + MARGIN)
    return float(by_number.sum(-1).max()) * grown, float(by_number.max()) * grown


def _check_between(found: Law) -> None:
    """The simple step gives a point between the two numbers that it compares."""
    require(
        all(0 <= up <= 1 and -1 <= down <= 0 for up, down in found.snapped),
        f"the step is nearest to “{found}”, which leaves the segment between the numbers that it compares: no bound "
        "holds at all sizes. Train it longer.",
    )


def _rounded_epsilon(model: LoopedPositionalTransformer, found: Law) -> Fraction:
    """ε of the slopes as evaluated, from the step that the exact ones are near: rounded, they may be near another."""
    pairs = zip(law(model, evaluated=True).factors, found.snapped, strict=True)
    return max(abs(given - simple) for role, near in pairs for given, simple in zip(role, near, strict=True))


def _above(epsilon: Fraction) -> float:
    """ε as a float, rounded up."""
    return math.nextafter(float(epsilon), math.inf) if epsilon else 0.0


def _rate(name: str, value: float) -> float:
    value = float(real(name, value))
    require(value >= 0, f"{name}={value}: it is at least 0.")
    return value


def _rounded(epsilon: float, unit: float) -> float:
    """What rounding adds to a step that compares two numbers: the ρ of the proofs."""
    return 4 * (1 + 2 * epsilon) * unit


def _grown(rate: float, steps: int) -> float:
    """(1 + rate)^steps − 1, a little more."""
    try:
        return math.expm1(steps * math.log1p(rate)) * (1 + MARGIN)
    except OverflowError:
        return math.inf


__all__ = [
    "Bound", "compare_bound", "error_bound", "grid_bound", "path_bound", "size_bound", "steps", "sum_bound",
]  # fmt: skip
