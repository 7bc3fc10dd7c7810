"""Scores are those of each replica's own model on each of its own test sets."""

import math

import pytest
import torch

from posattn import tasks
from posattn.nn import model_of
from posattn.train import Fleet
from posattn.train.random_streams import stream

from .small import small_trial, trained

SETS = {
    "near": {"length": 5},
    "short": {"length": 2},
    "far": {"length": 5, "low": -20.0, "high": 20.0, "avoid": (-2.0, 2.0)},
}


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_scores_are_those_of_the_model_by_itself(precision):
    """11 samples a set in batches of 6: sets of one shape share a pass, and passes end within a set."""
    trials = [
        small_trial(task=task, seed=seed, bias=bias, precision=precision, evaluation={"sets": SETS})
        for task, seed, bias in [("sum", 0, True), ("median", 1, False), ("sum", 2, True)]
    ]
    fleet = trained(trials)
    scores = fleet.scores()
    for replica, trial in enumerate(trials):
        task, model = tasks.get(trial.task), model_of(trial.model, fleet.weights(replica))
        assert scores[replica].keys() == {"train", *SETS}
        for name, options in SETS.items():
            x, y = task.sample(11, **options, generator=stream(trial.seed, f"test set {name}"))
            x, y = x.to(fleet.loss.dtype), y.to(fleet.loss.dtype)
            guess = model(x).detach()
            # Some hundred roundings in an answer, twice that in its square, ten times that where most of it cancels.
            tolerance = 2**13 * torch.finfo(x.dtype).eps
            assert scores[replica][name].loss == pytest.approx((guess - y).square().mean().item(), rel=tolerance)
            solved = [bool(((g - t).abs() <= 0.1 + 0.1 * t.abs()).all()) for g, t in zip(guess, y, strict=True)]
            assert scores[replica][name].metric == pytest.approx(sum(solved) / 11)


def test_the_training_loss_is_the_mean_of_the_last_whole_epoch():
    fleet, losses = Fleet([small_trial()], device="cpu"), []
    for step in fleet.run():
        losses.append(fleet.loss.item())
        whole = step // 4 * 4
        train = fleet.scores()[0]["train"]
        assert math.isnan(train.metric)
        if whole:
            assert train.loss == pytest.approx(math.fsum(losses[whole - 4 : whole]) / 4, rel=1e-12)
        else:
            assert math.isnan(train.loss)


def test_looking_at_scores_changes_nothing():
    quiet, asked = trained([small_trial()]), Fleet([small_trial()], device="cpu")
    for _ in asked.run():
        asked.scores()
        asked.weights(0)
        asked.divergence()
    assert torch.equal(quiet.parameters.values, asked.parameters.values)


def test_a_fleet_without_test_sets_has_its_training_loss():
    assert trained([small_trial(evaluation={"sets": {}})]).scores()[0].keys() == {"train"}
