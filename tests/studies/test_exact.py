"""Compiled programs among a study's models: right at every scale, on the test sets that trained models meet."""

import json

import pytest
import torch

from posattn import engine, tasks
from posattn.engine import Store
from posattn.nn import Positional
from posattn.studies.positional.compiled_programs import PROGRAMS, ExactTrial
from posattn.train import Data, Evaluation, Optimiser, Trial
from posattn.train.fleet.evaluate import FleetTests


def evaluate(trial: ExactTrial, store: Store) -> None:
    engine.run([trial], out=store.folder, device="cpu", reporter=engine.Lines())


SETS = {"c=1": {"length": 8}, "c=10": {"length": 8, "low": -20.0, "high": 20.0, "avoid": (-2.0, 2.0)}}


@pytest.mark.parametrize("task", PROGRAMS)
def test_a_compiled_model_is_right_at_every_scale(task, tmp_path):
    trial = ExactTrial(task=task, length=8, domain=20.0, samples=200, sets=SETS)
    evaluate(trial, Store(tmp_path))
    scores = json.loads((tmp_path / trial.id / "metrics.json").read_text())["scores"]
    assert [score["set"] for score in scores] == list(SETS)
    for score, most in zip(scores, (2.0, 20.0), strict=True):
        assert score["loss"] <= (1e-6 * 8 * most) ** 2  # sums of eight numbers


def test_it_meets_the_samples_that_a_trained_model_of_that_seed_meets(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(ExactTrial, "compiled", lambda _: lambda x: (seen.append(x), tasks.get("sum").target(x))[1])
    evaluate(ExactTrial(task="sum", length=8, domain=20.0, samples=5, sets=SETS, seed=3), Store(tmp_path))
    trained = Trial(
        task="sum",
        model=Positional(),
        data=Data(samples=10, batch=5),
        optimiser=Optimiser(steps=1),
        evaluation=Evaluation(samples=5, sets=SETS),
        seed=3,
    )
    ((names, (x, _)),) = FleetTests([trained], device=torch.device("cpu"), dtype=torch.float32).groups
    assert names == list(SETS)
    assert torch.equal(torch.cat(seen), x[0])


def test_what_the_store_holds_is_not_evaluated_again(tmp_path, monkeypatch):
    trial = ExactTrial(task="min", length=8, domain=20.0, samples=5, sets=SETS)
    evaluate(trial, Store(tmp_path))
    monkeypatch.setattr(ExactTrial, "compiled", lambda _: pytest.fail("compiled again"))
    evaluate(trial, Store(tmp_path))
    rows = Store(tmp_path).rows({trial.id})
    assert {row["task"] for row in rows} == {"min"}
    assert all(row["step"] == row["optimiser.steps"] == 0 for row in rows)


def test_other_trials_have_other_ids():
    base = ExactTrial(task="min", length=8, domain=20.0, samples=5, sets=SETS)
    others = [
        ExactTrial(task="max", length=8, domain=20.0, samples=5, sets=SETS),
        ExactTrial(task="min", length=8, domain=20.0, samples=5, sets=SETS, seed=1),
        ExactTrial(task="min", length=8, domain=21.0, samples=5, sets=SETS),
    ]
    assert len({trial.id for trial in (base, *others)}) == 4
    assert base.id == ExactTrial(task="min", length=8, domain=20, samples=5, sets=SETS).id
