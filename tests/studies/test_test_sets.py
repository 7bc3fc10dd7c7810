"""Every study's test sets are those it always had, though sets inherit the options of the training data."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from posattn import studies, tasks
from posattn.tasks.base import sample_options
from posattn.train import Trial, identity
from posattn.train.fleet.evaluate import FleetTests
from posattn.train.random_streams import stream

LATER = (("blocks", False), ("graph", "sparse"))  # sparse: of reachability
#: By study and preset, a hash of what every case's test sets were drawn with before sets inherited anything.
BEFORE = json.loads((Path(__file__).parent / "test_sets.json").read_text())


def drawn_with(trial: Any) -> dict[str, Any] | None:
    """All options of every test set, the task's own defaults among them; None for what draws no samples."""
    if not hasattr(trial, "seed"):
        return None
    usual = sample_options(tasks.get(trial.task))
    found = {one.name: usual | dict(one.options) for one in trial.test_sets}
    # options that came later, where they ask for nothing
    return {
        name: {key: value for key, value in held.items() if (key, value) not in LATER} for name, held in found.items()
    }


def test_the_record_has_every_study_and_preset():
    assert BEFORE.keys() == studies.REGISTRY.keys()
    assert all(list(presets) == list(studies.PRESETS) for presets in BEFORE.values())


@pytest.mark.parametrize("name", BEFORE)
def test_a_study_keeps_its_test_sets(name):
    study = studies.get(name)
    for preset, before in BEFORE[name].items():
        cases = [case for task in study.tasks for case in study.cases(task, preset)]
        found = [[case.task, case.arm, case.x, drawn_with(case.trial)] for case in cases]
        text = identity.dumps([row for row in found if row[-1] is not None])
        assert hashlib.sha256(text.encode()).hexdigest()[:16] == before, preset


PLACES = {"places": 32, "placed": "first"}
SIZES = {"length": 12, "subset_size": 2, "dim": 2}


@pytest.mark.parametrize(
    ("name", "arm", "test_set", "options"),
    [
        ("ood-scale", "positional", "validation", {"length": 8, "low": -2, "high": 2}),
        ("ood-scale", "positional", "c=3", {"length": 8, "low": -6, "high": 6, "avoid": (-2, 2)}),
        ("variable-length", "standard", "c=3, length 5", {"length": 5, "low": -6, "high": 6, "avoid": (-2, 2)}),
        ("stochastic-length", "fixed", "length 12", PLACES | {"length": 12, "low": -2, "high": 2}),
        ("khop-ood", "positional", "held-out letters", {"held_out": True}),
        ("mixed-type", "standard", "c=2", {"low": 0, "high": 10, "held_out": True}),
        ("sts-choices", "redraw=step", "validation", SIZES),
        ("sts-choices", "redraw=step", "T=15", SIZES | {"length": 15}),
        ("sts-fcn", "deep", "validation", SIZES | {"length": 8}),
    ],
)  # fmt: skip
def test_the_drawn_tensors_are_those_of_the_options_that_a_set_once_had(name, arm, test_set, options):
    study = studies.get(name)
    case = next(case for case in study.cases(study.tasks[0], "smoke") if case.arm == arm)
    trial = case.seeded(1)
    assert isinstance(trial, Trial)
    sets = FleetTests([trial], device=torch.device("cpu"), dtype=torch.float32)
    inputs, target = tasks.get(trial.task).sample(
        trial.evaluation.samples, **options, generator=stream(1, f"test set {test_set}")
    )
    once = [*inputs, target] if isinstance(inputs, tuple) else [inputs, target]
    (names, joined) = next((names, tensors) for names, tensors in sets.groups if test_set in names)
    at, count = names.index(test_set), trial.evaluation.samples
    for before, now in zip(once, joined, strict=True):
        assert torch.equal(now[0, at * count : (at + 1) * count], before)
