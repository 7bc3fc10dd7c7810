"""Every bound against steps that are off by as much as they may be, in the worst directions that a search finds."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from looped_models import with_slopes
from posattn.errors import PosattnError
from posattn.nn import Looped, LoopedPositionalTransformer
from posattn.nn.law import law, snap
from posattn.nn.schedules import SCHEDULES, Schedule
from posattn.theory.looped_errors import (
    compare_bound,
    error_bound,
    grid_bound,
    path_bound,
    size_bound,
    steps,
    sum_bound,
)

#: How a deviation is chosen for each node and step: all up, all down, against or with d, or at random.
DIRECTIONS: dict[str, Callable[[Tensor, torch.Generator], Tensor]] = {
    "up": lambda d, g: torch.ones_like(d),
    "down": lambda d, g: -torch.ones_like(d),
    "away": lambda d, g: -d.sign(),
    "towards": lambda d, g: d.sign(),
    "random": lambda d, g: 2.0 * torch.randint(0, 2, d.shape, generator=g) - 1,
}
EPSILONS = (1e-3, 0.1, 0.4)
SHIFT, POTENTIAL = ("scale", "shift"), ("scale", "potential")


class Off:
    """A step that is off by ε times some measure. `ideal`: one function of the two candidates for each role."""

    def __init__(self, epsilon: float, direction: str, ideal: Any, kinds: int = 1, measure: str = "apart") -> None:
        self.epsilon, self.direction, self.ideal, self.kinds, self.measure = epsilon, direction, ideal, kinds, measure
        self.generator = torch.Generator().manual_seed(0)

    def candidates(self, values: Tensor) -> tuple[Tensor, Tensor]:
        if values.shape[2] == 2:
            return values[:, :, 0], values[:, :, 1]
        if values.shape[2] == 3:
            return values[:, :, 0], values[:, :, 1] + values[:, :, 2]
        return values[:, :, 0] + values[:, :, 1], values[:, :, 2] + values[:, :, 3]

    def __call__(self, values: Tensor, kind: int, role: Tensor | int) -> Tensor:
        own, other = self.candidates(values)
        found = [function(own, other) for function in self.ideal[kind]]
        exact = found[0] if len(found) == 1 else torch.where(torch.as_tensor(role)[None, :, None] == 1, *found[::-1])
        size = {
            "apart": (other - own).abs(),
            "largest": torch.maximum(own.abs(), other.abs()),
            "sum": own.abs() + other.abs(),
        }[self.measure]
        return exact + self.epsilon * size * DIRECTIONS[self.direction](other - own, self.generator)


def final(schedule: Schedule, x: Tensor, step: Any) -> Tensor:
    state = x[..., :1]
    for found, _ in schedule.iterations(state, x, step, getattr(step, "kinds", 1)):
        state = found
    return state


def numbers(data: st.DataObject, length: int) -> Tensor:
    listed = data.draw(st.lists(st.floats(-4, 4, width=16), min_size=length, max_size=length))
    return torch.tensor(listed, dtype=torch.float64).reshape(1, length, 1)


#: Schedule, its functions in each kind of step and role, kinds of steps, and the sizes of Looped.
COMPARED = {
    "scan": (((torch.minimum,),), Looped(schedule="scan", symmetry=SHIFT)),
    "bitonic": (((torch.minimum, torch.maximum),), Looped(schedule="bitonic", symmetry=SHIFT)),
    "pairs": (((torch.minimum,), (torch.maximum,)), Looped(schedule="pairs", symmetry=SHIFT)),
}


@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from(sorted(COMPARED)), st.sampled_from(sorted(DIRECTIONS)), st.sampled_from(EPSILONS))
def test_comparisons_stay_within_their_bound(data: st.DataObject, name: str, direction: str, epsilon: float) -> None:
    ideal, sizes = COMPARED[name]
    size = data.draw(st.integers(1, 4 if name == "pairs" else 17))
    x = numbers(data, size * size if name == "pairs" else size)
    for measure, bound, unit in (
        ("apart", compare_bound, float(x.max() - x.min()) / 2),
        ("largest", size_bound, float(x.abs().max())),
    ):
        off = Off(epsilon, direction, ideal, len(ideal), measure)
        right = Off(0.0, direction, ideal, len(ideal), measure)
        error = (final(SCHEDULES[name], x, off) - final(SCHEDULES[name], x, right)).abs().max()
        assert error <= bound(epsilon, steps(sizes, size)) * unit + 1e-12


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(1, 20), st.sampled_from(sorted(DIRECTIONS)), st.sampled_from(EPSILONS))
def test_sums_stay_within_their_bound(data: st.DataObject, length: int, direction: str, epsilon: float) -> None:
    x = numbers(data, length)
    found = final(SCHEDULES["scan"], x, Off(epsilon, direction, ((torch.add,),), measure="sum"))
    bound = sum_bound(epsilon, steps(Looped(symmetry=("scale", "linear")), length))
    assert (found - x.cumsum(1)).abs().max() <= bound * x.abs().sum() + 1e-12


def test_one_step_of_the_largest_deviation_attains_each_bound() -> None:
    x = torch.tensor([-1.0, 1.0], dtype=torch.float64).reshape(1, 2, 1)
    scan = SCHEDULES["scan"]
    for measure, function, bound, unit in (
        ("apart", torch.minimum, compare_bound, 1.0),
        ("largest", torch.minimum, size_bound, 1.0),
        ("sum", torch.add, sum_bound, 2.0),
    ):
        off, right = (final(scan, x, Off(e, "up", ((function,),), measure=measure)) for e in (0.25, 0.0))
        assert float((off - right).abs().max()) == pytest.approx(bound(0.25, 1) * unit, rel=1e-8)


def test_all_deviations_of_a_sum_in_one_direction_attain_its_bound() -> None:
    x = torch.ones(1, 16, 1, dtype=torch.float64)
    found = final(SCHEDULES["scan"], x, Off(0.1, "up", ((torch.add,),), measure="sum"))
    assert float(found[0, -1] - 16) == pytest.approx(sum_bound(0.1, 4) * 16, rel=1e-8)


def graph(seed: int, nodes: int, least: float) -> Tensor:
    draw = np.random.default_rng(seed)
    shape = (nodes, nodes)
    weights = draw.uniform(least, 1, shape) if seed % 2 else draw.choice([least, 1.0], shape, p=[0.3, 0.7])
    return torch.from_numpy(weights * (1 - np.eye(nodes))).reshape(1, -1, 1)


def shortest(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of shortest paths, and the fewest edges of one, over all simple paths."""
    nodes = len(weights)
    length, edges = np.zeros_like(weights), np.zeros_like(weights)
    for i, j in itertools.permutations(range(nodes), 2):
        between = [k for k in range(nodes) if k not in (i, j)]
        paths = [(i, *p, j) for c in range(nodes - 1) for p in itertools.permutations(between, c)]
        costs = [(sum(weights[a, b] for a, b in itertools.pairwise(p)), len(p) - 1) for p in paths]
        length[i, j], edges[i, j] = min(costs)
    return length, edges


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("seed", range(6))
def test_paths_stay_within_their_bounds_on_both_sides(seed: int, direction: str) -> None:
    nodes, least, ideal = 5, 0.25, ((torch.minimum,),)
    x = graph(seed, nodes, least)
    exact, edges = shortest(x.reshape(nodes, nodes).numpy())
    for epsilon in (1e-4, 2e-3):
        found = final(SCHEDULES["pairs"], x, Off(epsilon, direction, ideal)).reshape(nodes, nodes).numpy()
        theta = path_bound(epsilon, nodes) / least
        assert theta <= 1
        assert (found <= exact + edges * nodes * epsilon * 2 / (1 - 4 * nodes * epsilon) + np.eye(nodes) + 1e-12).all()
        error = np.abs(found - exact) - theta * exact
        assert error[~np.eye(nodes, dtype=bool)].max() <= 1e-12


def test_without_a_least_weight_errors_below_double_in_every_iteration() -> None:
    """Among nodes that are 0 apart, a detour by way of node 0 leaves −2ε, and each iteration then adds two of these."""
    nodes, epsilon = 14, 1e-6
    x = torch.zeros(nodes, nodes, dtype=torch.float64)
    x[0, 1:] = x[1:, 0] = 1.0
    found = final(SCHEDULES["pairs"], x.reshape(1, -1, 1), Off(epsilon, "down", ((torch.minimum,),)))
    assert float(found.min()) == pytest.approx(-2 * epsilon * 2 ** (nodes - 1), rel=0.05)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("side", [1, 2, 5])
def test_tables_stay_within_their_bound(side: int, direction: str) -> None:
    x = torch.rand(3, side * side, 3, generator=torch.Generator().manual_seed(side), dtype=torch.float64)
    ideal = ((torch.minimum,), (torch.minimum,))
    for epsilon in (1e-3, 0.05):
        off, right = (final(SCHEDULES["grid"], x, Off(e, direction, ideal, 2)) for e in (epsilon, 0.0))
        assert (off - right).abs().max() <= grid_bound(epsilon, side) * x.max() + 1e-12


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 9, 33])
def test_so_many_steps_follow_one_another(n: int) -> None:
    """Counted by running the schedule; chains of pairs have two kinds of step in an iteration."""
    for name, symmetry in (("scan", SHIFT), ("bitonic", SHIFT), ("pairs", POTENTIAL), ("pairs", SHIFT)):
        sizes, calls = Looped(schedule=name, symmetry=symmetry), []

        def step(values: Tensor, kind: int, role: Tensor | int, calls: list[int] = calls) -> Tensor:
            calls.append(kind)
            return values[:, :, 0]

        step.kinds = len(sizes.actions)  # type: ignore[attr-defined]
        x = torch.zeros(1, n * n if name == "pairs" else n, 1)
        final(sizes.wiring, x, step)
        assert steps(sizes, n) == len(calls)


# ---- models

MODELS = {
    "scan": ("scan", SHIFT, [(2e-4, -1 - 3e-4)]),
    "bitonic": ("bitonic", SHIFT, [(-1e-4, -1 + 2e-4), (1 + 3e-4, -2e-4)]),
    "widest": ("pairs", SHIFT, [(1e-4, -1 + 2e-4), (1 - 3e-4, 2e-4)]),
    "paths": ("pairs", POTENTIAL, [(-1e-4, -1 + 2e-4)]),
    "grid": ("grid", POTENTIAL, [(1e-4, -1 + 2e-4), (3e-4, -1 - 2e-4)]),
}


def _ideal(name: str) -> Off:
    """The step that each of these models nearly is."""
    kinds = len(MODELS[name][2])
    return Off(0.0, "up", ((torch.minimum,),) * kinds, kinds)


def test_epsilon_of_a_model_is_that_of_its_slopes() -> None:
    for schedule, symmetry, slopes in MODELS.values():
        found = error_bound(with_slopes(schedule, symmetry, slopes), 7)
        assert found.epsilon == pytest.approx(max(abs(s - round(s)) for row in slopes for s in row), rel=1e-9)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("schedule", ["scan", "bitonic"])
def test_computed_numbers_stay_within_the_bound_with_rounding(schedule: str, dtype: torch.dtype) -> None:
    length = 200
    model = with_slopes(*MODELS[schedule]).to(dtype)
    x = (5 + 2 * torch.randn(8, length, 1, generator=torch.Generator().manual_seed(0))).to(dtype)
    with torch.no_grad():
        found = model(x).double()
    wanted = x.double().cummin(1).values if schedule == "scan" else x.double().sort(1).values
    bound = error_bound(model, length, rounding=True)
    error = float(((found - wanted).abs() / x.double().abs().amax(1, keepdim=True)).max())
    assert bound.of == "max|x|"
    assert error <= bound.value
    with torch.no_grad():  # the same slopes in float64: what is left is rounding
        rounded = float((found - model.double()(x.double())).abs().max() / x.abs().max())
    assert rounded > torch.finfo(dtype).eps / 32


@torch.no_grad()
def test_the_rounding_of_one_step_is_within_its_bound_and_not_far_from_it() -> None:
    """Slopes that go part of the way, the rest of which bfloat16 holds exactly: all that is off is rounding."""
    model = with_slopes("scan", SHIFT, [(3 / 8 + 1 / 64, -5 / 8 - 1 / 64)]).to(torch.bfloat16)
    ((up, down),) = law(model, evaluated=True).factors
    x = torch.randn(100_000, 2, 1, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    own, d = x.double()[:, 1], x.double()[:, 0] - x.double()[:, 1]
    exact = own + float(up) * d.relu() + float(down) * (-d).relu()
    error = float(((model(x).double()[:, 1] - exact).abs() / x.double().abs().amax(1)).max())
    bound = compare_bound(0.0, 1, unit=2.0**-8)
    assert bound / 5 <= error <= bound


@torch.no_grad()
@pytest.mark.parametrize("name", ["paths", "grid"])
def test_computed_paths_stay_within_the_bound_with_rounding(name: str) -> None:
    """Against minima in float64, and with errors larger than one step's ε: rounding is a part of what is seen."""
    model, side, dtype = with_slopes(*MODELS[name]), 4, torch.float16
    shape = (64, side * side, 3 if name == "grid" else 1)
    x = (1 + torch.rand(*shape, generator=torch.Generator().manual_seed(0))).to(dtype)
    if name == "paths":
        x = x * (1 - torch.eye(side, dtype=dtype)).reshape(1, -1, 1)
    computed, exact = model.to(dtype)(x).double(), final(SCHEDULES[MODELS[name][0]], x.double(), _ideal(name))
    bound, error = error_bound(model, side, rounding=True), (computed - exact).abs()
    if name == "paths":
        shares = []
        for weights, off, length in zip(x.double(), error, exact, strict=True):
            inner = weights > 0
            shares.append(float((off / length)[inner].max() * weights[inner].min() / weights.max()))
        share = max(shares)
    else:
        share = float((error.amax((1, 2)) / x.double().amax((1, 2))).max())
    assert share <= bound.value
    assert share > error_bound(with_slopes(*MODELS[name]), side).epsilon


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_computed_sums_stay_within_the_bound_with_rounding(dtype: torch.dtype) -> None:
    seeded = torch.Generator().manual_seed(0)
    model = LoopedPositionalTransformer(symmetry=("scale", "linear"), hidden_dim=8, generator=seeded)
    with torch.no_grad():  # make its factors 1 and 1: the last layer maps both hidden numbers of s and o to 1
        shares = model.logits.softmax(-1)[0, :, 1:].double()
        before = model.layers[1].weight.double() @ model.layers[0].weight.double() @ shares  # type: ignore[operator]
        model.layers[2].weight.data = torch.linalg.lstsq(before.T, torch.ones(2, 1).double()).solution.T.float()
    model = model.to(dtype)
    x = torch.rand(8, 100, 1, generator=torch.Generator().manual_seed(1)).to(dtype)
    bound = error_bound(model, 100, rounding=True)
    assert bound.of == "Σ|x|"
    assert bound.value < 1
    with torch.no_grad():
        error = (model(x).double() - x.double().cumsum(1)).abs().amax(1) / x.double().abs().sum(1)
    assert float(error.max()) <= bound.value


def test_bounds_of_polished_models_are_as_small_as_they_should_be() -> None:
    """1e-10 of the range for the minimum and 1e-9 for sorting 65,536 numbers, at ε = 1e-12."""
    assert compare_bound(1e-12, 16) < 1e-10
    assert compare_bound(1e-12, 136) < 1e-9
    assert compare_bound(0.0, 136) == 0.0
    assert compare_bound(1e300, 136) == math.inf
    assert path_bound(0.01, 30) == math.inf


def test_the_median_rounds_once_more() -> None:
    model = LoopedPositionalTransformer(schedule="bitonic", symmetry=SHIFT, reads="median", hidden_dim=4, mlp_layers=2)
    made = with_slopes(*MODELS["bitonic"])
    model.double().load_state_dict(made.state_dict())
    assert error_bound(model, 100).value == error_bound(made, 100).value
    assert error_bound(model, 100, rounding=True).steps == error_bound(made, 100, rounding=True).steps + 1


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (with_slopes("scan", SHIFT, [(1.5, 0.0)]), "leaves the segment"),
        (with_slopes("pairs", POTENTIAL, [(0.5, -0.5)]), "not to the smaller of D_ij"),
        (LoopedPositionalTransformer(schedule="pairs"), "two numbers"),
        (LoopedPositionalTransformer(state_dim=3), "one number per node"),
        (LoopedPositionalTransformer(symmetry=("shift",)), "two numbers"),
    ],
)
def test_where_nothing_is_proved_an_error_says_why(model: LoopedPositionalTransformer, message: str) -> None:
    with pytest.raises(PosattnError, match=message):
        error_bound(model, 8)


def test_rounding_is_measured_from_the_step_that_is_named() -> None:
    """The slope is 0.8949, and near 7/8; as evaluated it is 0.89502, which alone would count as 1."""
    model = LoopedPositionalTransformer(
        schedule="scan", symmetry=("scale", "shift"), hidden_dim=1, heads=1, mlp_layers=2
    ).bfloat16()
    values = {"logits": [[[-1000.0, 0.0]]], "layers.0.weight": [[230 / 256]], "layers.1.weight": [[255 / 256]]}
    model.load_state_dict({name: torch.tensor(value, dtype=torch.bfloat16) for name, value in values.items()})
    exact, rounded = error_bound(model, 2), error_bound(model, 2, rounding=True)
    assert rounded.target == exact.target == "role 0: carrier + 7/8·relu(d) + 0·relu(−d)"
    ((up, _),) = law(model, evaluated=True).factors
    assert snap(up) == 1
    assert exact.epsilon < 1 / 50 < rounded.epsilon == pytest.approx(float(up) - 7 / 8, rel=1e-12)
    with torch.no_grad():
        found = float(model(torch.tensor([[[1.0], [0.0]]], dtype=torch.bfloat16))[0, 1, 0])
    assert abs(found - 7 / 8) <= rounded.value
