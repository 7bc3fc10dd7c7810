"""Updates are those of torch.optim, a replica at a time; what diverges is frozen and touches nobody."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from posattn.nn import FullyConnected, GPTArchitecture, MixedPositional, Positional, Selector
from posattn.train import Fleet, Optimiser
from posattn.train.fleet.optimiser import Update
from posattn.train.fleet.parameters import FlatParameters
from posattn.train.fleet.pieces import PiecePasses

from .small import MODEL, difference, identical, score_difference, small_trial, trained

GPT = GPTArchitecture(vocabulary=5, length=4, embed_dim=6, layers=2)
#: Matrices of linear maps; embeddings and biases are not decayed.
GPT_MATRICES = {
    "query_weight", "key_weight", "value_weight", "output_weight", "mlp_in_weight", "mlp_out_weight", "decoder_weight",
}  # fmt: skip
RATES = [1e-3, 0.2, 3e-2]


def drawn(shape: tuple[int, ...], seed: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def parameters_of(architectures: list[Any]) -> FlatParameters:
    tensors = [
        architecture.init(torch.Generator().manual_seed(seed)) for seed, architecture in enumerate(architectures)
    ]
    doubles = [{name: tensor.double() for name, tensor in held.items()} for held in tensors]
    return FlatParameters(architectures, doubles, chunk=2)


def torch_optimiser(o: Optimiser, lr: float, leaves: dict[str, Tensor]) -> torch.optim.Optimizer:
    groups: list[dict[str, Any]] = [
        {"params": [leaf for name, leaf in leaves.items() if name in GPT_MATRICES], "weight_decay": o.weight_decay},
        {"params": [leaf for name, leaf in leaves.items() if name not in GPT_MATRICES], "weight_decay": 0.0},
    ]
    if o.name == "sgd":
        return torch.optim.SGD(groups, lr=lr, momentum=o.momentum)
    return {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[o.name](groups, lr=lr, betas=o.betas, eps=o.eps)


@pytest.mark.parametrize(
    "options",
    [
        {"name": "adam"},
        {"name": "adam", "betas": (0.5, 0.7), "eps": 1e-3, "weight_decay": 0.1},
        {"name": "adamw", "betas": (0.9, 0.95), "weight_decay": 0.1},
        {"name": "sgd"},
        {"name": "sgd", "momentum": 0.9, "weight_decay": 0.1},
        {"name": "adam", "clip": 1.0},
        {"name": "adamw", "clip": 20.0, "weight_decay": 0.5},
        {"name": "sgd", "clip": 0.5, "momentum": 0.5},
    ],
    ids=str,
)
def test_every_step_is_that_of_torch(options):
    o = Optimiser(steps=9, **options)
    parameters = parameters_of([GPT] * 3)
    leaves = [{name: leaf.requires_grad_() for name, leaf in parameters.replica(k).items()} for k in range(3)]
    update, rates = Update(o, parameters), torch.tensor(RATES, dtype=torch.float64)
    theirs = [torch_optimiser(o, lr, leaves[k]) for k, lr in enumerate(RATES)]
    alive, clipped = torch.ones(3, dtype=torch.bool), 0
    for step in range(8):
        for at, name in enumerate(parameters.shapes):
            # Gradients of very different sizes, over replicas and steps: some are clipped and some are not.
            gradient = drawn((3, *parameters.shapes[name]), 100 * step + at) * 10.0 ** (step % 3 - 2)
            parameters.view(parameters.grad, name).copy_(gradient)
            for k in range(3):
                leaves[k][name].grad = gradient[k].clone()
        assert update.healthy().all()
        update.apply(torch.tensor(step), rates, alive)
        for k in range(3):
            if o.clip is not None:
                clipped += torch.nn.utils.clip_grad_norm_(leaves[k].values(), o.clip).item() > o.clip
            theirs[k].step()
            mine = parameters.replica(k)
            assert difference(mine, {name: leaves[k][name].detach() for name in mine}) < 1e-12
    assert o.clip is None or 0 < clipped < 24


#: By model, what decays: the matrices of linear maps, and the selector's two. Written out, not asked of the model.
DECAYING = [
    (GPT, GPT_MATRICES),
    (Positional(length=5, embed_dim=4, hidden_dim=5, layers=1), GPT_MATRICES | {"encoder_weight"}),
    (MixedPositional(length=98, embed_dim=4, hidden_dim=5, layers=1), GPT_MATRICES | {"encoder_weight"}),
    (Selector(length=5, dim=2, encoding="near-orthogonal", encoding_dim=4, deviation=0.5), {"key_query", "value"}),
    (FullyConnected(length=4, dim=2, widths=(3,)), {"layer0_weight", "layer1_weight"}),
]


@pytest.mark.parametrize(("model", "decaying"), DECAYING, ids=lambda value: getattr(value, "kind", ""))
def test_adamws_decay_reaches_matrices_and_neither_embeddings_nor_biases(model, decaying):
    o = Optimiser(steps=9, name="adamw", lr=0.05, weight_decay=0.5)
    parameters = parameters_of([model])
    leaves = {name: leaf for name, leaf in parameters.replica(0).items() if name in parameters.shapes}
    assert decaying < leaves.keys() or model.kind == "selector"
    groups = [
        {"params": [leaf for name, leaf in leaves.items() if (name in decaying) is decays], "weight_decay": decay}
        for decays, decay in ((True, o.weight_decay), (False, 0.0))
    ]
    theirs = torch.optim.AdamW([group for group in groups if group["params"]], lr=o.lr, betas=o.betas, eps=o.eps)
    update, rate = Update(o, parameters), torch.tensor([o.lr], dtype=torch.float64)
    for step in range(3):
        for at, name in enumerate(parameters.shapes):
            gradient = drawn(parameters.shapes[name], 100 * step + at)
            parameters.view(parameters.grad, name).copy_(gradient)
            leaves[name].grad = gradient.clone()
        update.healthy()
        update.apply(torch.tensor(step), rate, torch.tensor([True]))
        theirs.step()
        assert difference({name: parameters.replica(0)[name] for name in leaves}, leaves) < 1e-12


def test_a_bias_that_a_replica_does_not_have_stays_zero_and_is_not_in_its_norm():
    with_bias, without = MODEL, Positional(length=5, embed_dim=6, hidden_dim=7, layers=2, bias=False)
    parameters = parameters_of([with_bias, without])
    update = Update(Optimiser(steps=1, name="sgd", clip=1.0), parameters)
    held = parameters.replica(1)
    for name in parameters.shapes:
        parameters.view(parameters.grad, name).fill_(1.0)
    update.healthy()
    update.apply(torch.tensor(0), torch.ones(2, dtype=torch.float64), torch.ones(2, dtype=torch.bool))
    after = parameters.replica(1)
    assert after.keys() == held.keys() < parameters.replica(0).keys()
    learned = [name for name in held if name in parameters.shapes]
    count = sum(held[name].numel() for name in learned)
    for name in learned:
        torch.testing.assert_close(after[name], held[name] - 1 / math.sqrt(count), rtol=0, atol=1e-6)
    assert not parameters.view(parameters.values, "encoder_bias")[1].any()


def test_padding_between_parameters_stays_zero():
    fleet = trained(
        [small_trial(bias=bias, optimiser={"name": "adamw", "weight_decay": 0.1}) for bias in (True, False)]
    )
    used = torch.zeros_like(fleet.parameters.learned)
    for name in fleet.parameters.shapes:
        fleet.parameters.view(used, name).fill_(True)
    assert (~used).any()
    assert not fleet.parameters.values[~used].any()


def states(trials: list[Any]) -> tuple[Fleet, list[list[dict[str, Tensor]]]]:
    """Train, noting all weights before every step and at the end."""
    fleet = Fleet(trials, device="cpu")
    noted = [[fleet.weights(k) for k in range(len(trials))]]
    for _ in fleet.run():
        noted.append([fleet.weights(k) for k in range(len(trials))])
    return fleet, noted


@pytest.mark.parametrize(
    "options",
    [
        {"lr": 1e30},
        {"lr": 1e30, "schedule": "plateau", "patience": 0},
        {"lr": 1e30, "name": "adamw", "weight_decay": 0.1, "clip": 1.0},
        {"lr": 1e9, "name": "sgd", "momentum": 0.9, "weight_decay": 0.1},
    ],
    ids=str,
)
def test_what_diverges_is_frozen_at_its_last_finite_weights_and_touches_nobody(options):
    sane = {"lr": 1e-3}
    wild = [small_trial(seed=k, precision="float32", optimiser=options | ({} if k == 1 else sane)) for k in range(3)]
    tame = [small_trial(seed=k, precision="float32", optimiser=options | sane) for k in range(3)]
    fleet, noted = states(wild)
    at = fleet.divergence()[1]
    assert fleet.divergence() == [None, at, None]
    assert at is not None
    assert 0 < at < 10
    assert all(torch.isfinite(tensor).all() for tensor in noted[at][1].values())
    assert all(identical(noted[at][1], later[1]) for later in noted[at:])
    assert not identical(noted[at - 1][1], noted[at][1])
    calm, _ = states(tame)
    for k in (0, 2):
        assert identical(fleet.weights(k), calm.weights(k))
        assert score_difference(fleet.scores()[k], calm.scores()[k]) == 0


def assert_frozen(fleet: Fleet, at: int) -> None:
    """Replica 1 stays for ever as it was before this step, and the others are where they would be anyway."""
    calm, calmer = trained(fleet.trials), trained(fleet.trials, until=at)
    assert fleet.divergence() == [None, at, None]
    assert [identical(fleet.weights(k), calm.weights(k)) for k in range(3)] == [True, False, True]
    assert identical(fleet.weights(1), calmer.weights(1))


def test_data_that_is_no_number_freezes_for_good_the_replica_that_meets_it():
    fleet = Fleet([small_trial(seed=k) for k in range(3)], device="cpu")
    target = fleet.data.parts[0].tensors[-1]
    healthy = target[1].clone()
    for step in fleet.run():
        if step == 7:
            target[1] = math.nan
        if step == 9:  # numbers again: too late
            target[1] = healthy
    assert_frozen(fleet, 7)


def test_a_gradient_that_is_no_number_freezes_even_where_the_loss_is_one(monkeypatch):
    monkeypatch.setattr("posattn.train.fleet.fleet.chunk_size", lambda trial, replicas, form: replicas)
    fleet = Fleet([small_trial(seed=k) for k in range(3)], device="cpu")
    passes = fleet.passes
    assert isinstance(passes, PiecePasses)
    apply = passes.forward.apply

    def kinked(maps: Any, *inputs: Tensor) -> Tensor:
        """At step 7, √0 is added to what replica 1 answers: nothing, with a derivative of ∞·0."""
        root = (0 * maps["decoder"][1].sum()).sqrt()
        bump = torch.stack([torch.zeros_like(root), root, torch.zeros_like(root)])
        return apply(maps, *inputs) + bump.view(3, 1, 1, 1) if fleet.step == 7 else apply(maps, *inputs)

    passes.forward = replace(passes.forward, apply=kinked)
    for step in fleet.run():
        assert fleet.loss.isfinite().all(), step
    assert_frozen(fleet, 7)


def test_a_gradient_too_large_for_its_norm_counts_as_diverged():
    parameters = parameters_of([GPT] * 2)
    parameters.grad[0, 0] = 1e200
    assert Update(Optimiser(steps=1), parameters).healthy().tolist() == [False, True]
