"""From slopes that are slightly off to a program that is proved; the model agrees with it within its bound."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch

from looped_models import with_slopes
from posattn.compile import compile, library, run
from posattn.compile.learned_program import agreement, learned_program
from posattn.compile.specification import Scan, Sorted
from posattn.errors import PosattnError
from posattn.nn import Action, LoopedPositionalTransformer
from posattn.theory.looped_errors import error_bound

SHIFT, POTENTIAL = ("scale", "shift"), ("scale", "potential")
MIN, MAX = (1e-4, -1 + 2e-4), (1 - 1e-4, -2e-4)


def adding() -> LoopedPositionalTransformer:
    """Nearly self + partner: one head for each number, whose share is nearly 1."""
    model = LoopedPositionalTransformer(symmetry=("scale", "linear"), hidden_dim=2, mlp_layers=2).double()
    model.logits.data = torch.tensor([[[-9.0, 0.0, -9.0], [-9.0, -9.0, 0.0]]], dtype=torch.float64)
    model.layers[0].weight.data = torch.eye(2, dtype=torch.float64)
    model.layers[1].weight.data = torch.ones(1, 2, dtype=torch.float64)
    return model


LEARNED = {
    "min": (with_slopes("scan", SHIFT, [MIN]), 7, Scan("min"), lambda x: np.minimum.accumulate(x, 1)),
    "max": (with_slopes("scan", SHIFT, [MAX]), 8, Scan("max"), lambda x: np.maximum.accumulate(x, 1)),
    "sum": (adding(), 5, Scan("sum"), lambda x: np.cumsum(x, 1)),
    "sort": (with_slopes("bitonic", SHIFT, [MIN, MAX]), 7, Sorted(), lambda x: np.sort(x, 1)),
}


@pytest.mark.parametrize("name", LEARNED)
def test_what_was_learned_is_proved_and_the_model_agrees_with_it(name: str) -> None:
    model, length, specification, oracle = LEARNED[name]
    program = learned_program(model, length)
    assert program.specification == specification
    x = np.random.default_rng(0).integers(-9, 10, (50, length, 1)).astype(float)
    assert (run(program, x) == oracle(x)).all()
    assert compile(program, domain=100).prove().holds
    bound = error_bound(model, length, rounding=True).value
    found = agreement(model, program, bound=bound, generator=torch.Generator().manual_seed(0))
    assert found.holds
    assert found.largest > found.bound / 100


def test_paths_are_proved_to_be_the_shortest_of_all() -> None:
    model, nodes = with_slopes("pairs", POTENTIAL, [MIN]), 4
    program = learned_program(model, nodes)
    weights = np.random.default_rng(1).integers(0, 20, (1, nodes, nodes)).astype(float)
    found = run(program, weights.reshape(1, -1, 1)).reshape(nodes, nodes)
    for i, j in itertools.permutations(range(nodes), 2):
        between = [k for k in range(nodes) if k not in (i, j)]
        paths = [(i, *p, j) for count in range(nodes - 1) for p in itertools.permutations(between, count)]
        assert found[i, j] == min(sum(weights[0, a, b] for a, b in itertools.pairwise(p)) for p in paths)
    assert compile(learned_program(model, 3), domain=100).prove().holds
    bound = error_bound(model, nodes, rounding=True).value
    assert agreement(model, program, bound=bound, generator=torch.Generator().manual_seed(0)).holds


def relaxed(x: np.ndarray) -> np.ndarray:
    """Widest paths, by relaxing n times whatever there is; the diagonal is a path of its own."""
    side = int(x.shape[1] ** 0.5)
    weights = width = x.reshape(-1, side, side)
    for _ in range(side):
        width = np.maximum(width, np.minimum(width[:, :, :, None], weights[:, None]).max(2))
    return width.reshape(x.shape)


def filled(x: np.ndarray) -> np.ndarray:
    """A table, cell by cell, with walls of infinity around it."""
    side = int(x.shape[1] ** 0.5)
    across, above, left = np.moveaxis(x.reshape(-1, side, side, 3), -1, 0)
    best = np.full((len(x), side + 1, side + 1), np.inf)
    best[:, 0, 0] = 0.0
    for i in range(side):
        for j in range(side):
            candidates = (
                best[:, i, j] + across[:, i, j],
                best[:, i, j + 1] + above[:, i, j],
                best[:, i + 1, j] + left[:, i, j],
            )
            best[:, i + 1, j + 1] = np.minimum.reduce(candidates)
            best[:, 0, 0] = np.inf  # the start is outside of the table, and left once
    return best[:, 1:, 1:].reshape(len(x), -1, 1)


@pytest.mark.parametrize(
    ("model", "sides", "proved", "width", "oracle"),
    [
        (with_slopes("pairs", SHIFT, [MIN, MAX]), (1, 2, 3, 5), 3, 1, relaxed),
        (with_slopes("grid", POTENTIAL, [MIN, MIN]), (1, 2, 3, 4), 3, 3, filled),
    ],
    ids=["widest paths", "tables"],
)
def test_the_best_of_all_paths_is_proved_and_the_model_agrees_with_it(
    model: LoopedPositionalTransformer,
    sides: tuple[int, ...],
    proved: int,
    width: int,
    oracle: Callable[..., np.ndarray],
) -> None:
    for side in sides:
        program = learned_program(model, side)
        x = np.random.default_rng(side).integers(-9, 10, (50, side * side, width)).astype(float)
        assert (run(program, x) == oracle(x)).all()
        bound = error_bound(model, side, rounding=True).value
        found = agreement(model, program, bound=bound, generator=torch.Generator().manual_seed(0))
        assert found.holds
        assert found.largest > found.bound / 100 or side == 1
    assert compile(learned_program(model, proved), domain=100).prove().holds
    with pytest.raises(PosattnError, match=f"length={sides[-1] + 1}: a specification writes out all .* at most"):
        learned_program(model, sides[-1] + 1)


def test_a_model_that_is_further_off_than_the_bound_is_seen() -> None:
    model = with_slopes("bitonic", SHIFT, [MIN, (1 - 5e-3, 0.0)])
    program = learned_program(model, 7)
    claimed = error_bound(LEARNED["sort"][0], 7, rounding=True).value
    assert not agreement(model, program, bound=claimed, generator=torch.Generator().manual_seed(0)).holds


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (with_slopes("bitonic", SHIFT, [MIN, MAX], reads="median"), "reads='median': programs are of"),
        (with_slopes("scan", ("scale", Action(((1,), (0,), (1,)))), [MIN]), "not of other actions"),
        (with_slopes("bitonic", ("scale", Action(((1,), (0,), (1,)))), [MIN, MAX]), "not of other actions"),
        (with_slopes("scan", SHIFT, [(0.473, -0.53)]), "0.47 away from .*the smaller of two.*: train the model longer"),
    ],
    ids=["the middle", "an action", "an action in a merge", "halfway"],
)
def test_what_no_program_says_is_refused(model: LoopedPositionalTransformer, said: str) -> None:
    with pytest.raises(PosattnError, match=said):
        learned_program(model, 4)


@pytest.mark.parametrize(
    "model",
    [
        with_slopes("scan", SHIFT, [(0.5, -0.5)]),
        with_slopes("bitonic", SHIFT, [MAX, MIN]),
        with_slopes("grid", POTENTIAL, [MIN, MAX]),
        with_slopes("pairs", SHIFT, [MAX, MIN]),
    ],
    ids=["an average", "descending", "the larger of two ways", "the narrowest path"],
)
def test_a_step_without_a_specification_is_refused(model: LoopedPositionalTransformer) -> None:
    with pytest.raises(PosattnError, match="no program with a specification"):
        learned_program(model, 4)


def test_a_program_of_another_step_and_a_large_graph_are_refused() -> None:
    with pytest.raises(PosattnError, match="not the one that the model has learned"):
        agreement(LEARNED["min"][0], library.get("cummax", 8), bound=1.0, generator=torch.Generator())
    with pytest.raises(PosattnError, match="at most 5 nodes"):
        learned_program(with_slopes("pairs", POTENTIAL, [MIN]), 6)
