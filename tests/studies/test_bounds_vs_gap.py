"""The study's figures against the formulas, from the store's own files."""

import json

import pytest

from posattn import engine, nn, studies
from posattn.studies.core import results
from posattn.theory import bounds


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    study = studies.get("bounds-vs-gap")
    options = {"preset": "smoke", "tasks": ("sum",), "seeds": 1, "out": folder, "device": "cpu"}
    return results.run(study, reporter=engine.Lines(), **options), folder


def test_gap_and_bound_are_those_of_the_trained_models(found):
    made, folder = found
    for case in made.cases:
        trial = case.seeded(0)
        scores = json.loads((folder / trial.id / "metrics.json").read_text())["scores"]
        losses = {score["set"]: score["loss"] for score in scores}
        terms = bounds.terms(nn.load(folder / trial.id / "weights.safetensors"), samples=trial.data.samples)
        figures = {p.test_set: p.ours[0] for p in made.points if (p.task, p.arm, p.x) == (case.task, case.arm, case.x)}
        assert figures["gap"] == pytest.approx(abs(losses["c=1"] - losses["train"]))
        assert figures["bound"] == pytest.approx(10**terms.total)
        assert figures["norm factor"] == pytest.approx(10**terms.norm_factor)
        assert figures["query-key factor"] == pytest.approx(10**terms.query_key_factor)
        assert (figures["query-key factor"] == 1.0) == (case.arm == "positional")


def test_the_three_sweeps_change_one_thing_each(found):
    made, _ = found
    by_sweep = {}
    for case in made.cases:
        trial = case.trial
        told = (trial.data.samples, trial.model.layers, trial.optimiser.steps)
        by_sweep.setdefault(case.task, set()).add(told)
        assert trial.optimiser.schedule == "constant"
    for task, changing in (("sum by samples", 0), ("sum by layers", 1), ("sum by steps", 2)):
        columns = list(zip(*by_sweep[task], strict=True))
        assert [len(set(column)) > 1 for column in columns] == [place == changing for place in range(3)]
        xs = {case.x for case in made.cases if case.task == task}
        assert xs == set(columns[changing])


def test_paper_preset_goes_from_one_to_six_layers_and_through_the_papers_samples():
    cases = studies.get("bounds-vs-gap").cases("sum", "paper")
    assert {case.x for case in cases if case.task == "sum by layers"} == set(range(1, 7))
    assert {case.x for case in cases if case.task == "sum by samples"} == set(range(5_000, 50_001, 5_000))
