"""Cutting replicas and samples into pieces changes the order of sums, and nothing else."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from posattn import tasks
from posattn.nn import Positional, Standard
from posattn.tasks.numeric import NumericTask
from posattn.train import Fleet
from posattn.train.fleet import pieces
from posattn.train.fleet.passes import FormulaPasses
from posattn.train.fleet.pieces import PiecePasses, is_mean

from .small import small_trial

EXACT = 1e-12  # float64, and no sum here has more than a few hundred terms
MODELS = [
    Positional(length=5, embed_dim=6, hidden_dim=7, layers=3, mlp_layers=3, constants="sinusoidal"),
    Positional(length=5, embed_dim=6, hidden_dim=7, layers=1, bias=False),
    Standard(length=5, embed_dim=6, hidden_dim=7, layers=3, mlp_layers=3),
    Standard(length=5, embed_dim=6, hidden_dim=7, layers=2, bias=False, constants="sinusoidal"),
]


@given(
    replicas=st.integers(1, 9),
    batch=st.integers(0, 40),
    kept=st.integers(1, 30),
    limit=st.integers(1, 500),
    whole=st.booleans(),
)
def test_pieces_hold_every_sample_of_every_replica_once(replicas, batch, kept, limit, whole):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "KEPT_NUMBERS", limit)
        found = list(pieces.pieces(replicas, batch, kept, whole=whole))
    seen = torch.zeros(replicas, batch)
    for at, samples in found:
        for part in samples:
            seen[at, part] += 1
            numbers = (at.stop - at.start) * (part.stop - part.start) * kept
            assert numbers <= limit or (at.stop - at.start == 1 and (whole or part.stop - part.start == 1))
    assert (seen == 1).all()
    if whole and batch:
        assert all(len(samples) == 1 for _, samples in found)


def gradients(fleet: Fleet, passes: FormulaPasses) -> tuple[Tensor, list[Tensor]]:
    fleet.data.parts[0].prepare(0)
    batch = fleet.data.parts[0].take(fleet.visits[0])
    loss, found = passes.gradient(0, tuple(batch.inputs), batch.target)
    names = fleet.parameters.shapes
    zeros = [torch.zeros_like(fleet.parameters.chunks[0][name]) for name in names]
    return loss, [zero if grad is None else grad for zero, grad in zip(zeros, found, strict=True)]


@pytest.mark.parametrize("limit", [1, 700, 3000, 10**9], ids=["each sample", "some", "a replica", "all at once"])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: f"{model.kind}-{model.layers}")
def test_loss_and_every_gradient_are_those_of_the_whole_batch(model: Any, limit: int, monkeypatch) -> None:
    monkeypatch.setattr("posattn.train.fleet.fleet.chunk_size", lambda trial, replicas, form: replicas)
    trials = [replace(small_trial(model=model, seed=seed), precision="float64") for seed in range(3)]
    fleet = Fleet(trials, device="cpu")
    assert isinstance(fleet.passes, PiecePasses)
    loss, expected = gradients(fleet, FormulaPasses(fleet.parameters, fleet.passes.forward, fleet.task))
    monkeypatch.setattr(pieces, "KEPT_NUMBERS", limit)
    found_loss, found = gradients(fleet, fleet.passes)
    assert (found_loss - loss).abs().max() < EXACT * loss.abs().max()
    largest = max(float(grad.abs().max()) for grad in expected)
    assert largest > 1e-3
    for name, one, other in zip(fleet.parameters.shapes, found, expected, strict=True):
        assert (one - other).abs().max() < EXACT * largest, name


def test_answers_in_pieces_are_those_at_once(monkeypatch) -> None:
    for model in MODELS:
        monkeypatch.setattr("posattn.train.fleet.fleet.chunk_size", lambda trial, replicas, form: replicas)
        trials = [replace(small_trial(model=model, seed=seed), precision="float64") for seed in range(3)]
        fleet = Fleet(trials, device="cpu")
        x = fleet.data.parts[0].tensors[0][:, :11]
        assert isinstance(fleet.passes, PiecePasses)
        whole = fleet.passes.forward(fleet.parameters.chunks[0], x)
        for limit in (1, 700, 3000, 10**9):
            monkeypatch.setattr(pieces, "KEPT_NUMBERS", limit)
            with torch.no_grad():
                assert (fleet.passes.predict(0, (x,)) - whole).abs().max() < EXACT * whole.abs().max()


def worst(prediction: Tensor, target: Tensor) -> Tensor:
    """A loss that is no mean: the largest error of a batch."""
    return (prediction - target).abs().amax(dim=(-3, -2, -1))


@dataclass(frozen=True)
class Worst(NumericTask):
    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        return worst(prediction, target)


@dataclass(frozen=True)
class Given(NumericTask):
    """Its loss is a field."""

    loss: Any = worst


@pytest.mark.parametrize("kind", [Worst, Given])
def test_a_batch_whose_loss_is_no_mean_stays_whole(kind: Any, monkeypatch) -> None:
    task = kind("worst", "sums, by their worst", lambda x: x.cumsum(-1))
    target = torch.zeros(1, 4, 5, 1)
    assert not is_mean(task, target)
    monkeypatch.setattr(pieces, "KEPT_NUMBERS", 1)
    fleet = Fleet([replace(small_trial(), precision="float64")], device="cpu")
    assert isinstance(fleet.passes, PiecePasses)
    loss, expected = gradients(fleet, FormulaPasses(fleet.parameters, fleet.passes.forward, task))
    found_loss, found = gradients(fleet, PiecePasses(fleet.parameters, fleet.passes.forward, task))
    assert (found_loss - loss).abs().max() < EXACT * loss.abs().max()
    assert all((one - other).abs().max() < EXACT for one, other in zip(found, expected, strict=True))


def test_the_usual_losses_are_means_but_for_targets_that_may_be_unknown() -> None:
    """Of samples that differ in what they lose, for every task whose batches may be cut."""
    generator = torch.Generator().manual_seed(0)
    cut = 0
    for name in tasks.names():
        task = tasks.get(name)
        prediction, target = (torch.randn(1, 6, 5, 1, dtype=torch.float64, generator=generator) for _ in range(2))
        if is_mean(task, target):
            cut += 1
            parts = [
                task.loss(prediction[:, :2], target[:, :2]) / 3,
                task.loss(prediction[:, 2:], target[:, 2:]) * 2 / 3,
            ]
            assert (sum(parts) - task.loss(prediction, target)).abs().max() < EXACT
    assert cut >= 10
    assert not is_mean(tasks.get("sum"), torch.zeros(1, 4, 5, 2))


def test_a_tensor_of_the_loss_gets_no_gradient(monkeypatch) -> None:
    """Only the weights are differentiated for, whatever else wants a gradient."""
    other = torch.ones((), requires_grad=True)
    fleet = Fleet([small_trial()], device="cpu")
    loss = fleet.task.loss
    monkeypatch.setattr(fleet.passes, "loss", lambda prediction, target: loss(prediction * other, target))
    next(fleet.run())
    assert other.grad is None
