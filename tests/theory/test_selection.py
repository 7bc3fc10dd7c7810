"""The two-number recursion against the whole model with full matrices, and the floor against eigenvalues."""

# ruff: noqa: N803, N806 (the letters of the paper)

import math
from collections.abc import Callable
from functools import cache
from itertools import combinations, product

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from posattn import tasks
from posattn.errors import PosattnError
from posattn.theory import selection
from posattn.theory.selection import asymptote, best_loss, best_v, fcn_floor, gradient, inverse_loss_slope, loss

PAPER = {"T": 200, "q": 3, "d": 5}
SMALL = [(4, 1, 2), (4, 2, 2), (4, 3, 2), (5, 2, 1), (3, 2, 3), (3, 3, 2), (2, 1, 3)]
small = pytest.mark.parametrize(("T", "q", "d"), SMALL)
kappas = pytest.mark.parametrize("kappa", [0.5, 1.3])


# ---- the whole model: f = V Z softmax(Zᵀ W z_query), any V and W


def subsets(T: int, q: int) -> Tensor:
    """All subsets as rows of zeros and ones: with one-hot positions, the position part of each query."""
    rows = torch.zeros(math.comb(T, q), T, dtype=torch.float64)
    for row, chosen in zip(rows, combinations(range(T), q), strict=True):
        row[list(chosen)] = 1
    return rows


@cache
def gaussian(T: int, d: int) -> tuple[Tensor, Tensor]:
    """Points and weights whose average is E over X ~ N(0, I) for polynomials of degree up to 5 in each coordinate."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(3)
    x = torch.tensor(list(product(nodes, repeat=T * d)), dtype=torch.float64).reshape(-1, T, d)
    weight = torch.tensor(list(product(weights, repeat=T * d)), dtype=torch.float64).prod(-1)
    return x, weight / weight.sum()


def answers(V: Tensor, W: Tensor, x: Tensor, query: Tensor) -> Tensor:
    """f for every X of `x` (n, tokens, d) and its own row of `query`: 1 at the selected positions."""
    n, T, d = x.shape
    Z = torch.cat([x, torch.eye(T, dtype=torch.float64).expand(n, T, T)], dim=-1)
    z_query = torch.cat([torch.zeros(n, d, dtype=torch.float64), query], dim=-1)
    attention = torch.softmax(torch.einsum("nti,ij,nj->nt", Z, W, z_query), dim=-1)
    return torch.einsum("oi,nti,nt->no", V, Z, attention)


def population_loss(V: Tensor, W: Tensor, q: int, points: tuple[Tensor, Tensor], kappa: float) -> Tensor:
    """κ·E‖f − y‖². Where attention does not depend on X, it and its gradient are polynomials in X of degree 3 or less,
    so the average over the points is exact."""
    x, weight = points
    total = torch.zeros((), dtype=torch.float64)
    rows = subsets(x.shape[1], q)
    for row in rows:
        query = row.expand(len(x), -1)
        target = torch.einsum("ntd,nt->nd", x, query) / q
        total = total + kappa * (weight * (answers(V, W, x, query) - target).square().sum(-1)).sum()
    return total / len(rows)


def matrices(v: float, g: float, T: int, d: int) -> tuple[Tensor, Tensor]:
    """V = [vI, 0] and W = blockdiag(0, γ(I − 11ᵀ/T))."""
    V, W = torch.zeros(d, d + T, dtype=torch.float64), torch.zeros(d + T, d + T, dtype=torch.float64)
    V[:, :d] = v * torch.eye(d, dtype=torch.float64)
    W[d:, d:] = g * (torch.eye(T, dtype=torch.float64) - 1 / T)
    return V.requires_grad_(), W.requires_grad_()


@kappas
@small
@pytest.mark.parametrize(("v", "g"), [(0.0, 0.0), (0.7, -0.4), (1.9, 1.3), (-0.6, 0.9)])
def test_loss_and_gradient_are_those_of_the_full_matrices(
    T: int, q: int, d: int, v: float, g: float, kappa: float
) -> None:
    V, W = matrices(v, g, T, d)
    expected = population_loss(V, W, q, gaussian(T, d), kappa)
    expected.backward()
    # Sums over up to 3⁹ points and 3 subsets: 59,049 roundings of 2⁻⁵³ of terms whose sizes add up to about 5.
    assert loss(v, g, T=T, q=q, d=d, kappa=kappa) == pytest.approx(expected.item(), rel=5e-11)
    found = gradient(v, g, T=T, q=q, d=d, kappa=kappa)
    # The gradient has the form of the matrices: all blocks but two stay zero, and those two keep their shape.
    for_v, for_w = matrices(float(found.v), float(found.g), T, d)
    torch.testing.assert_close(V.grad, for_v.detach(), rtol=0, atol=5e-11)
    torch.testing.assert_close(W.grad, for_w.detach(), rtol=0, atol=5e-11)


@pytest.mark.parametrize(("T", "q", "d", "eta", "kappa"), [(4, 2, 2, 0.9, 0.5), (5, 2, 1, 0.4, 1.3), (3, 1, 2, 1, 0.5)])
def test_descent_on_the_full_matrices_is_the_trajectory(T: int, q: int, d: int, eta: float, kappa: float) -> None:
    steps, points = 30, gaussian(T, d)
    run = selection.trajectory(T=T, q=q, d=d, eta=eta, steps=steps, kappa=kappa)
    V, W = matrices(0, 0, T, d)
    for step in range(steps + 1):
        now = population_loss(V, W, q, points, kappa)
        for_v, for_w = matrices(run.v[step], run.g[step], T, d)
        torch.testing.assert_close(V, for_v, rtol=0, atol=1e-10)
        torch.testing.assert_close(W, for_w, rtol=0, atol=1e-10)
        assert now.item() == pytest.approx(run.loss[step], abs=1e-10)
        for_v, for_w = torch.autograd.grad(now, (V, W))
        V, W = (V - eta * for_v).detach().requires_grad_(), (W - eta * for_w).detach().requires_grad_()
    assert run.g[-1] > 0.5  # it did move


def test_loss_is_that_of_the_task_on_drawn_samples() -> None:
    T, q, d, v, g, count = 11, 3, 5, 1.4, 2.3, 20_011
    task = tasks.get("selection", kappa=0.8)
    generator = torch.Generator().manual_seed(0)
    (x, y, _), target = task.sample(
        count, length=T, subset_size=q, dim=d, generator=generator, dtype=torch.float64, device="cpu"
    )
    query = torch.zeros(count, T, dtype=torch.float64).scatter_(1, y, 1)
    V, W = matrices(v, g, T, d)
    errors = 0.8 * (answers(V, W, x, query) - target).square().sum(-1)
    deviation = errors.std().item() / math.sqrt(count)
    assert deviation < 0.01 * errors.mean().item()
    assert abs(errors.mean().item() - float(loss(v, g, T=T, q=q, d=d, kappa=0.8))) < 4 * deviation


@pytest.mark.parametrize(("T_test", "q_test"), [(7, 1), (7, 4), (7, 7), (5, 2), (5, 4), (4, 3)])
def test_loss_at_another_q_and_at_fewer_tokens_is_that_of_the_trained_matrices(T_test: int, q_test: int) -> None:
    T, d, v, g = 7, 3, 1.2, 1.7
    W = g * (np.eye(T) - 1 / T)
    errors = []
    for chosen in combinations(range(T_test), q_test):
        query = np.isin(np.arange(T), chosen).astype(float)
        logits = np.exp((W @ query)[:T_test])
        # f − y = Σ_i c_i x_i has E‖f − y‖² = d Σ_i c_i².
        errors.append(d * np.square(v * logits / logits.sum() - query[:T_test] / q_test).sum())
    assert loss(v, g, T=T_test, q=q_test, d=d, kappa=1) == pytest.approx(np.mean(errors), rel=1e-12)


# ---- two numbers


@st.composite
def problems(draw: st.DrawFn) -> dict:
    T = draw(st.integers(2, 400))
    return {"T": T, "q": draw(st.integers(1, T)), "d": draw(st.integers(1, 9)), "kappa": draw(st.floats(0.1, 3))}


values, gaps = st.floats(-9, 9), st.floats(-6, 12)


@settings(deadline=None, max_examples=100)
@given(problem=problems(), v=values, g=gaps)
def test_gradient_is_the_slope_of_the_loss(problem: dict, v: float, g: float) -> None:
    def slope(function: Callable[[float], float]) -> float:
        h = 1e-3  # five points: an error of h⁴/30 times a fifth derivative, and rounding of ε/h
        return (8 * (function(h) - function(-h)) - function(2 * h) + function(-2 * h)) / (12 * h)

    found = gradient(v, g, **problem)
    size = problem["kappa"] * problem["d"] * (1 + v * v)
    by_v = slope(lambda h: float(loss(v + h, g, **problem)))
    by_g = slope(lambda h: float(loss(v, g + h, **problem)))
    assert problem["d"] * found.v == pytest.approx(by_v, rel=1e-9, abs=1e-10 * size)
    assert (problem["T"] - 1) * found.g == pytest.approx(by_g, rel=1e-9, abs=1e-10 * size)


@settings(deadline=None, max_examples=100)
@given(problem=problems(), v=values, g=gaps)
def test_no_v_does_better_than_the_best(problem: dict, v: float, g: float) -> None:
    T, q = problem["T"], problem["q"]
    best = best_v(g, T=T, q=q)
    least = best_loss(g, **problem)
    if g > 0:
        assert best >= 1 - 1e-12
    assert 0 <= least <= loss(v, g, **problem) + 1e-12
    scale = problem["kappa"] * problem["d"] / q
    assert least == pytest.approx(loss(best, g, **problem), rel=1e-9, abs=1e-12 * scale)
    assert gradient(best, g, **problem).v == pytest.approx(0, abs=1e-12)
    if q < T and g > -5:
        e = math.exp(-2 * g)
        assert least == pytest.approx(scale * (T - q) * e / (q + (T - q) * e), rel=1e-12)


def test_values_and_gaps_may_be_arrays() -> None:
    v, g = np.linspace(-1, 2, 7)[:, None], np.linspace(-3, 5, 11)
    problem = {"T": 13, "q": 3, "d": 5}
    found, slope = loss(v, g, **problem), gradient(v, g, **problem)
    assert np.shape(found) == np.shape(slope.v) == np.shape(slope.g) == (7, 11)
    for i, j in product(range(7), range(11)):
        alone = gradient(float(v[i, 0]), float(g[j]), **problem)
        assert np.asarray(found)[i, j] == loss(float(v[i, 0]), float(g[j]), **problem)
        assert (np.asarray(slope.v)[i, j], np.asarray(slope.g)[i, j]) == alone
    assert np.shape(best_v(g, T=13, q=3)) == np.shape(best_loss(g, **problem)) == (11,)
    assert isinstance(loss(1.0, 2.0, **problem), float)


def test_the_largest_gaps_have_their_limits() -> None:
    problem = {"T": 13, "q": 3, "d": 5, "kappa": 1}
    assert loss(0.25, 1e4, **problem) == pytest.approx(5 * 0.75**2 / 3)  # exact averages, times v
    assert loss(0.25, -1e4, **problem) == pytest.approx(5 * (1 / 3 + 0.25**2 / 10))  # the averages of all others
    assert best_loss(1e4, **problem) == 0
    assert best_v(1e4, T=13, q=3) == pytest.approx(1) == best_v(0.0, T=13, q=3)
    assert best_loss(-1e4, **problem) == pytest.approx(5 / 3)
    assert gradient(0.25, 1e4, **problem).g == 0
    for g in (-1e4, 0, 1e4):  # all selected: no gap
        assert loss(0.25, g, T=4, q=4, d=1, kappa=1) == pytest.approx(0.75**2 / 4)
        assert best_v(g, T=4, q=4) == pytest.approx(1)


# ---- trajectories


def test_trajectory_passes_the_known_points() -> None:
    run = selection.trajectory(**PAPER, eta=1, steps=100_000)
    points = [(0, 4, 0.8333), (1000, 4, 0.8179), (5000, 4, 0.2896), (10_000, 5, 0.01106), (100_000, 6, 0.000530)]
    for step, digits, expected in points:
        assert round(run.loss[step], digits) == expected
    assert round(run.v[-1], 3) == 1.204
    assert round(run.g[-1], 2) == 5.77
    assert len(run.step) == len(run.v) == len(run.g) == len(run.loss) == 100_001


@settings(deadline=None, max_examples=30)
@given(problem=problems(), eta=st.floats(0.01, 0.3), every=st.integers(1, 7), steps=st.integers(0, 60))
def test_trajectory_is_descent_along_the_gradient(problem: dict, eta: float, every: int, steps: int) -> None:
    sizes = eta * (1 + np.arange(steps) % 3)  # a size a step
    sizes /= max(1, problem["kappa"])
    v = g = 0.0
    kept = []
    for step in range(steps + 1):
        if step % every == 0:
            kept.append((step, v, g, loss(v, g, **problem)))
        if step < steps:
            slope = gradient(v, g, **problem)
            v, g = v - sizes[step] * float(slope.v), g - sizes[step] * float(slope.g)
    run = selection.trajectory(**problem, eta=sizes, steps=steps, every=every)
    np.testing.assert_array_equal(run.step, [step for step, *_ in kept])
    found = np.stack([run.v, run.g, run.loss], axis=-1)
    np.testing.assert_allclose(found, [rest for _, *rest in kept], rtol=1e-9, atol=1e-11)


def test_one_step_size_is_that_size_at_every_step() -> None:
    one = selection.trajectory(**PAPER, eta=0.7, steps=101)
    many = selection.trajectory(**PAPER, eta=np.full(101, 0.7), steps=101)
    for name in ("step", "v", "g", "loss"):
        np.testing.assert_array_equal(getattr(one, name), getattr(many, name))


def test_with_all_tokens_selected_only_v_is_learned() -> None:
    run = selection.trajectory(T=5, q=5, d=2, eta=1, steps=50, kappa=0.5)
    np.testing.assert_array_equal(run.g, 0)
    np.testing.assert_allclose(run.v, 1 - 0.8**run.step, rtol=0, atol=1e-12)  # v ← v − (v − 1)/5


# ---- the end of training


@pytest.mark.parametrize(
    ("T", "q", "d", "eta", "kappa", "steps"),
    [
        (200, 3, 5, 1, 0.5, 100_000),
        (200, 3, 5, 1, 1, 100_000),
        (31, 2, 3, 0.5, 0.25, 40_000),
        (7, 5, 1, 1, 0.5, 20_000),
    ],
)
def test_inverse_loss_grows_by_the_slope(T: int, q: int, d: int, eta: float, kappa: float, steps: int) -> None:
    run = selection.trajectory(T=T, q=q, d=d, eta=eta, steps=steps, kappa=kappa, every=100)
    slope = inverse_loss_slope(T, eta)
    assert slope == 4 * eta / (T - 1)
    late = len(run.loss) // 2
    assert (1 / run.loss[-1] - 1 / run.loss[late]) / (steps / 2) == pytest.approx(slope, rel=0.01)
    # The first correction is right: what it leaves is of the order L^1.5, as e^(−g) is of the order √L.
    lack = (2 * q / d + (T - q) / (T - 1)) * (run.loss[late + 1 :] + run.loss[late:-1]) / 2 / kappa
    gained = np.diff(1 / run.loss[late:]) / 100
    assert (lack > 1e-4).all()
    assert (abs(gained / slope - (1 - lack)) < lack**1.5).all()


@pytest.mark.parametrize("kappa", [0.25, 0.5, 1])
def test_loss_tends_to_the_asymptote(kappa: float) -> None:
    run = selection.trajectory(T=7, q=2, d=3, eta=1, steps=100_000, kappa=kappa, every=1000)
    ratio = run.loss[1:] / asymptote(run.step[1:].astype(float), T=7, eta=1)
    assert ratio[-1] == pytest.approx(1, abs=3e-3)
    assert abs(ratio[-1] - 1) < abs(ratio[9] - 1) / 3
    assert asymptote(10, T=7, eta=0.5) == pytest.approx(6 / 20)


# ---- the floor of networks that see m linear features


def residual(features: np.ndarray, T: int, q: int, d: int) -> float:
    """E‖y − E[y | features·vec(X)]‖² by Gaussian conditioning, averaged over all subsets."""
    basis, _ = np.linalg.qr(features.T)  # orthonormal to the last bits, however close to dependent the features are
    seen = basis @ basis.T
    total = 0.0
    for row in subsets(T, q).numpy():
        B = np.kron(row / q, np.eye(d))  # y = B·vec(X)
        total += np.trace(B @ (np.eye(T * d) - seen) @ B.T)
    return total / math.comb(T, q)


@kappas
@small
def test_floor_is_the_sum_of_the_eigenvalues_left_out_and_attained(T: int, q: int, d: int, kappa: float) -> None:
    M = np.mean([np.kron(np.outer(row, row) / q**2, np.eye(d)) for row in subsets(T, q).numpy()], axis=0)
    sizes, vectors = np.linalg.eigh(M)  # ascending
    for m in range(T * d + 3):
        floor = fcn_floor(m, T=T, q=q, d=d, kappa=kappa)
        assert floor == pytest.approx(kappa * sizes[: max(T * d - m, 0)].sum(), abs=1e-13)
        best = vectors[:, ::-1][:, :m].T
        assert floor == pytest.approx(kappa * residual(best, T, q, d), abs=1e-12)


@settings(deadline=None, max_examples=40)
@given(size=st.sampled_from(SMALL), m=st.integers(1, 9), seed=st.integers(0, 2**32 - 1))
def test_no_features_get_below_the_floor(size: tuple[int, int, int], m: int, seed: int) -> None:
    T, q, d = size
    features = np.random.default_rng(seed).standard_normal((m, T * d))
    assert residual(features, T, q, d) >= fcn_floor(m, T=T, q=q, d=d, kappa=1) - 1e-12


@settings(deadline=None, max_examples=100)
@given(problem=problems(), m=st.integers(0, 4000))
def test_floor_falls_from_the_first_loss_to_zero(problem: dict, m: int) -> None:
    T, q, d, kappa = problem.values()
    assume(q < T)
    assert fcn_floor(0, **problem) == pytest.approx(loss(0.0, 0.0, **problem))
    assert fcn_floor(T * d, **problem) == fcn_floor(T * d + m, **problem) == 0
    assert (fcn_floor(m, **problem) > fcn_floor(m + 1, **problem)) == (m < T * d)
    if d <= m <= T * d:
        assert fcn_floor(m, **problem) == pytest.approx(kappa * (T * d - m) * (T - q) / (q * T * (T - 1)))


# ---- what is refused

POINT, RUN = {"v": 1.0, "g": 1.0, **PAPER}, {**PAPER, "eta": 1.0, "steps": 3}
TAKES_ALL = [(loss, POINT), (gradient, POINT), (best_loss, {"g": 1.0, **PAPER}), (selection.trajectory, RUN)]
TAKES_ALL += [(fcn_floor, {"m": 7, **PAPER})]
sizes_refused = pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"T": 1, "q": 1}, ["T=1", "nothing to select", "T ≥ 2"]),
        ({"q": 0}, ["q=0, T=200", "at least one token"]),
        ({"q": 201}, ["q=201, T=200", "at most all of them"]),
        ({"d": 0}, ["d=0", "at least one coordinate"]),
        ({"kappa": 0.0}, ["kappa=0.0", "positive and finite", "Use 0.5 or 1"]),
        ({"kappa": -1.0}, ["kappa=-1.0", "positive and finite"]),
        ({"kappa": math.nan}, ["kappa=nan", "positive and finite"]),
        ({"kappa": math.inf}, ["kappa=inf", "positive and finite"]),
    ],
)


def assert_refused(function: Callable, asked: dict, said: list[str]) -> None:
    with pytest.raises(PosattnError) as refused:
        function(**asked)
    for words in said:
        assert words in str(refused.value)


@sizes_refused
@pytest.mark.parametrize(("function", "asked"), TAKES_ALL, ids=lambda f: getattr(f, "__name__", ""))
def test_sizes_that_make_no_task_are_refused(function: Callable, asked: dict, wrong: dict, said: list[str]) -> None:
    assert_refused(function, asked | wrong, said)


@pytest.mark.parametrize(
    ("function", "asked", "said"),
    [
        (best_v, {"g": 1.0, "T": 3, "q": 4}, ["q=4, T=3", "at most all of them"]),
        (best_v, {"g": math.nan, "T": 3, "q": 2}, ["g=nan", "finite"]),
        (loss, POINT | {"v": math.inf}, ["v=inf", "finite"]),
        (gradient, POINT | {"v": math.nan}, ["v=nan", "finite"]),
        (best_loss, {"g": -math.inf, **PAPER}, ["g=-inf", "finite"]),
        (selection.trajectory, RUN | {"steps": -1}, ["steps=-1", "Use 0 or more"]),
        (selection.trajectory, RUN | {"every": 0}, ["every=0", "each second"]),
        (selection.trajectory, RUN | {"eta": 0.0}, ["eta=0.0", "greater than 0"]),
        (selection.trajectory, RUN | {"eta": math.nan}, ["eta=nan", "finite"]),
        (selection.trajectory, RUN | {"eta": np.array([1.0, -1.0, 1.0])}, ["eta=[ 1. -1.  1.]", "greater than 0"]),
        (selection.trajectory, RUN | {"eta": np.ones(4)}, ["shape (4,)", "each of the 3 steps"]),
        (selection.trajectory, RUN | {"eta": 1e4, "steps": 99}, ["eta=10000", "diverges", "q/κ = 6"]),
        (inverse_loss_slope, {"T": 1, "eta": 1.0}, ["T=1", "T ≥ 2"]),
        (inverse_loss_slope, {"T": 5, "eta": -1.0}, ["eta=-1.0", "greater than 0"]),
        (asymptote, {"t": 0.0, "T": 5, "eta": 1.0}, ["t=0.0", "greater than 0"]),
        (asymptote, {"t": 7.0, "T": 5, "eta": 0.0}, ["eta=0.0", "greater than 0"]),
        (fcn_floor, {"m": -1, **PAPER}, ["m=-1", "0 or more"]),
    ],
)
def test_what_has_no_meaning_is_refused(function: Callable, asked: dict, said: list[str]) -> None:
    assert_refused(function, asked, said)
