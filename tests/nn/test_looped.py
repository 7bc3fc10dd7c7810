"""Looped models: what their wiring computes, and that symmetries hold for any weights, scales and shifts."""

import math

import numpy as np
import pytest
import torch

import posattn
from looped_models import with_slopes
from posattn import PosattnError
from posattn.nn import Action, Looped, LoopedPositionalTransformer, from_json, model_of
from posattn.nn.fast.any_model import mapped

#: 28 steps, each of which rounds two sums of numbers up to 5 in float64.
ROUNDED = 28 * 2 * 5 * 2.0**-52
SMALLER, LARGER = (0.0, -1.0), (1.0, 0.0)  # slopes of the step that takes the smaller or the larger of two numbers


def model(seed: int = 0, **options) -> LoopedPositionalTransformer:
    return LoopedPositionalTransformer(**options, generator=torch.Generator().manual_seed(seed)).double()


def exact(*slopes: tuple[float, float], **options) -> LoopedPositionalTransformer:
    """A model whose roles have these slopes: head r sees role r alone, and the MLP gives each its own."""
    roles = len(slopes)
    made = model(heads=roles, hidden_dim=2 * roles, mlp_layers=2, **options)
    weights = {name: torch.zeros_like(held) for name, held in made.weights().items()}
    weights["logits"] = torch.full((roles, roles, 2), 800.0).double()
    for role, (up, down) in enumerate(slopes):
        weights["logits"][role, role, 0] = -800.0  # all of its attention
        weights["logits"][role, [r for r in range(roles) if r != role], 1] = -800.0  # nothing but itself
        weights["layer0_weight"][role, 2 * role], weights["layer0_weight"][role, 2 * role + 1] = 1.0, -1.0
        weights["layer1_weight"][2 * role, 0], weights["layer1_weight"][2 * role + 1, 0] = up, down
    weights["logits"][..., 1] = torch.where(torch.eye(roles).bool(), 800.0, -800.0).double()
    found = model_of(made.architecture, weights)
    assert isinstance(found, LoopedPositionalTransformer)
    return found


def draw(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("length", [*range(1, 20), 64, 100])
@pytest.mark.parametrize("differentiated", [False, True])
def test_the_wiring_sorts_and_scans_at_every_length(length, differentiated):
    x = draw(3, length, 1)
    with torch.set_grad_enabled(differentiated):
        sort = exact(SMALLER, LARGER, schedule="bitonic", symmetry=("scale", "shift"))
        assert sort.slopes().tolist() == [list(SMALLER), list(LARGER)]
        torch.testing.assert_close(sort(x), x.sort(1).values, rtol=0, atol=ROUNDED)
        scan = exact(SMALLER, schedule="scan", symmetry=("scale", "shift"))
        torch.testing.assert_close(scan(x), x.cummin(1).values, rtol=0, atol=ROUNDED)
        middle = exact(SMALLER, LARGER, schedule="bitonic", symmetry=("scale", "shift"), reads="median")
        torch.testing.assert_close(
            middle(x), x.quantile(0.5, dim=1, keepdim=True).expand(x.shape), rtol=0, atol=ROUNDED
        )


@pytest.mark.parametrize("side", [1, 2, 3, 6, 9])
def test_pairs_are_floyd_and_warshall(side):
    x = draw(2, side * side, 1).abs()
    distance, width = x.reshape(2, side, side).clone(), x.reshape(2, side, side).clone()
    for k in range(side):
        distance = torch.minimum(distance, distance[:, :, k : k + 1] + distance[:, k : k + 1])
        width = torch.maximum(width, torch.minimum(width[:, :, k : k + 1], width[:, k : k + 1]))
    shortest = exact(SMALLER, schedule="pairs", symmetry=("scale", "potential"))
    torch.testing.assert_close(shortest(x).flatten(1), distance.flatten(1), rtol=0, atol=1e-13)
    widest = exact(SMALLER, LARGER, schedule="pairs", symmetry=("scale", "shift"))
    torch.testing.assert_close(widest(x).flatten(1), width.flatten(1), rtol=0, atol=1e-13)


@pytest.mark.parametrize("side", [1, 2, 3, 7])
def test_a_grid_is_filled_by_the_best_of_three(side):
    x = draw(2, side * side, 3).abs()
    table = np.zeros((2, side, side))
    cost = x.numpy().reshape(2, side, side, 3)
    for i in range(side):
        for j in range(side):
            candidates = []
            if i and j:
                candidates.append(table[:, i - 1, j - 1] + cost[:, i, j, 0])
            if i:
                candidates.append(table[:, i - 1, j] + cost[:, i, j, 1])
            if j:
                candidates.append(table[:, i, j - 1] + cost[:, i, j, 2])
            table[:, i, j] = np.min(candidates, axis=0) if candidates else cost[:, 0, 0, 0]
    grid = exact(SMALLER, SMALLER, schedule="grid", symmetry=("scale", "potential"))
    np.testing.assert_allclose(grid(x).detach().numpy().reshape(table.shape), table, rtol=0, atol=1e-13)


def test_a_linear_step_adds():
    made = model(schedule="scan", symmetry=("linear",))
    x, y = draw(2, 8, 1), draw(2, 8, 1, seed=7)
    torch.testing.assert_close(made(x + y), made(x) + made(y), rtol=0, atol=1e-12)
    torch.testing.assert_close(made(-x), -made(x), rtol=0, atol=0)


@pytest.mark.parametrize(("schedule", "symmetry", "length"), [
    ("bitonic", ("scale", "shift"), 37), ("scan", ("scale",), 37), ("scan", (), 9), ("pairs", ("scale",), 25),
    ("pairs", ("scale", "shift"), 25), ("pairs", ("scale", "potential"), 25),
])  # fmt: skip
def test_inference_is_the_differentiated_pass(schedule, symmetry, length, monkeypatch):
    monkeypatch.setattr("posattn.nn.looped.CHUNK", 256)
    made = model(schedule=schedule, symmetry=symmetry)
    x = draw(3, length, 1)
    with torch.no_grad():
        fast = made(x)
    torch.testing.assert_close(fast, made(x), rtol=0, atol=1e-12)


def test_every_answer_on_the_way_is_there_and_the_last_one_is_the_answer():
    made = model(schedule="bitonic", symmetry=("scale", "shift"))
    x = draw(2, 8, 1)
    every = made(x, every=True)
    assert every.shape == (2, 8, 3)
    torch.testing.assert_close(every[..., 2:], made(x), rtol=0, atol=0)
    for level, size in ((0, 2), (1, 4)):  # blocks know nothing of each other
        torch.testing.assert_close(every[:, :size, level : level + 1], made(x[:, :size]), rtol=0, atol=1e-12)


def test_a_fleet_computes_what_each_model_computes():
    made = [model(seed, schedule="scan", symmetry=("scale",), state_dim=3) for seed in range(3)]
    x = draw(3, 2, 8, 1)
    stacked = {name: torch.stack([m.weights()[name] for m in made]) for name in made[0].weights()}
    found = mapped(made[0].architecture, {"every": True})(stacked, x)
    for replica, one in enumerate(made):
        torch.testing.assert_close(found[replica], one(x[replica], every=True), rtol=0, atol=1e-13)


def test_a_file_and_a_text_give_the_model_back(tmp_path):
    own = Action(((1,), (1,), (1,)))
    made = model(schedule="scan", symmetry=("scale", own))
    made.save(tmp_path / "m.safetensors")
    back = posattn.load(tmp_path / "m.safetensors")
    assert back.architecture == made.architecture == from_json(made.architecture.to_json())
    x = draw(1, 5, 1)
    torch.testing.assert_close(back(x), made(x), rtol=0, atol=0)
    torch.testing.assert_close(back(x), model(schedule="scan", symmetry=("scale", "shift"))(x), rtol=0, atol=0)


def test_it_is_exported_for_a_length():
    made = model(schedule="bitonic", symmetry=("scale", "shift"))
    x = draw(2, 8, 1)
    exported = torch.export.export(made, (x,)).module()
    torch.testing.assert_close(exported(x), made(x), rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"schedule": "scam"}, "did you mean 'scan'"),
        ({"schedule": "scan", "symmetry": ("scale", "potential")}, "it is about pairs"),
        ({"schedule": "grid", "symmetry": ("scale", "shift")}, "knows one translation, 'potential'"),
        ({"schedule": "grid", "symmetry": ("scale",)}, "Name a translation"),
        ({"schedule": "scan", "symmetry": ("scale", "shift"), "state_dim": 4}, "invariant from the start"),
        ({"schedule": "scan", "symmetry": (Action(((1,), (1,), (0,), (1,))),)}, "rows for 3 numbers"),
        ({"reads": "medial"}, "did you mean 'median'"),
        ({"schedule": "scan", "reads": "median"}, "the middle is that of sorted numbers"),
        ({"mlp_layers": 1}, "mlp_layers=1"),
    ],
)
def test_what_cannot_be_built_is_refused(options, said):
    with pytest.raises(PosattnError, match=said):
        LoopedPositionalTransformer(**options)
    with pytest.raises(PosattnError, match=said):
        Looped(**options)


@pytest.mark.parametrize(
    ("schedule", "x", "said"),
    [
        ("scan", torch.zeros(1, 0, 1), "at least one node"),
        ("scan", torch.full((1, 3, 1), math.inf), "infinite|finite"),
        ("scan", torch.tensor([[[3e38], [-3e38]]]), "holds 3e.38: .* overflow in torch.float32"),
        ("scan", torch.zeros(1, 3, 2), r"\(batch, length, 1\)"),
        ("pairs", torch.zeros(1, 5, 1), "n·n"),
        ("grid", torch.zeros(1, 5, 3), "square table"),
    ],
)
def test_what_it_cannot_take_is_refused(schedule, x, said):
    translation = "shift" if schedule == "scan" else "potential"
    made = LoopedPositionalTransformer(schedule=schedule, symmetry=("scale", translation))
    with pytest.raises(PosattnError, match=said):
        made(x)


@pytest.mark.parametrize("schedule", ["scan", "bitonic", "pairs", "grid"])
def test_no_inputs_have_no_answers(schedule):
    made = model(
        schedule=schedule, symmetry=("scale", "potential") if schedule in ("pairs", "grid") else ("scale", "shift")
    )
    with torch.no_grad():
        assert made(torch.zeros(0, 9, 3 if schedule == "grid" else 1, dtype=torch.float64)).shape == (0, 9, 1)


def test_slopes_are_those_of_a_step_and_others_have_none():
    made = model(schedule="bitonic", symmetry=("scale", "shift"))
    values = torch.tensor([[[[5.0], [8.0]], [[5.0], [4.0]]]], dtype=torch.float64)
    for role in (0, 1):
        up, down = made.slopes()[role].tolist()
        torch.testing.assert_close(
            made._step(values, 0, role).flatten().tolist(), [5 + 3 * up, 5 + down], rtol=1e-12, atol=1e-12
        )
    with pytest.raises(PosattnError, match="sees one number and no bias"):
        model(schedule="scan", symmetry=("scale",)).slopes()


@torch.no_grad()
def test_what_a_large_carrier_does_not_hold_of_the_invariant_is_not_lost():
    """10⁸ + 100·1, by an action of one's own. Two sums round, near 10⁸, where float32 holds every eighth number."""
    own = Action(((1,), (0,), (1,)))
    made = with_slopes("scan", ("scale", own), [(100.0, -100.0)]).float()
    found = made(torch.tensor([[[1.0], [1e8]]]))[0, 1].item()
    assert abs(found - 100_000_100) <= 8
