"""Every kind of trial keeps to one protocol, and nothing asks a trial for its kind."""

import ast
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from posattn import PosattnError, studies
from posattn.nn import Positional
from posattn.studies.core.computed import Computed
from posattn.studies.positional.compiled_programs import ExactTrial
from posattn.studies.selection.closed_form import Descent, Floor, Slope
from posattn.train import Data, Evaluation, Optimiser, TestSet, Trial, execute, identity
from posattn.train.language.trial import LanguageTrial
from posattn.train.runnable import Runnable
from posattn.train.sample_options import TestSets

SOURCE = Path(__file__).parents[2] / "src" / "posattn"
SETS = (TestSet("near", {"length": 3}), TestSet("far", {"length": 3, "high": 9.0}))
DESCENT: dict[str, Any] = {"T": 8, "q": 2, "d": 2, "eta": 0.5, "steps": 4, "every": 2}
EVERY_KIND: list[Runnable] = [
    Trial(
        task="sum",
        model=Positional(length=3, embed_dim=4, hidden_dim=4, layers=1),
        data=Data(samples=4, batch=2, options={"length": 3}),
        optimiser=Optimiser(steps=2),
        evaluation=Evaluation(samples=2, sets=SETS),
    ),
    LanguageTrial(task="mixed-min", samples=2, test_samples=2, sets=(TestSet("far", {"high": 9.0}),)),
    ExactTrial(task="sum", length=3, domain=9.0, samples=2, sets=SETS),
    Descent(**DESCENT),
    Slope(**DESCENT),
    Floor(width=1, T=8, q=2, d=2),
]
every_kind = pytest.mark.parametrize("trial", EVERY_KIND, ids=lambda trial: type(trial).__name__)


def test_the_list_has_every_kind():
    assert studies.REGISTRY  # they register theirs
    ours = {kind for kind in identity.KINDS.values() if kind.__module__.startswith("posattn.")}
    assert {type(trial) for trial in EVERY_KIND} == ours


@every_kind
def test_a_trial_is_read_back_from_its_json_with_its_id(trial):
    again = identity.read(trial.to_json())
    assert again == trial
    assert again.id == trial.id
    assert type(trial).from_json(trial.to_json()) == trial


@every_kind
def test_another_seed_is_another_trial_where_chance_has_a_part(trial):
    other = trial.seeded(5)
    assert type(other) is type(trial)
    assert (other.id != trial.id) == hasattr(trial, "seed")
    assert other.seeded(0) == trial
    assert trial.test_sets == other.test_sets


@every_kind
def test_what_is_executed_is_scored_on_every_test_set(trial, tiny_gpt2):
    if trial.needs is not None:
        trial = replace(trial, model=str(tiny_gpt2), epochs=1)
    outcome = execute(trial, device=torch.device("cpu"), report=lambda step, losses: None)
    names = [one.name for one in trial.test_sets]
    assert {row["set"] for row in outcome.scores} >= set(names)
    assert all({"set", "step", "loss", "metric"} <= row.keys() for row in outcome.scores)
    assert (outcome.weights is None) == (trial.architecture is None)
    json.dumps(outcome.scores, allow_nan=False)


@pytest.mark.usefixtures("as_users_run_it")
def test_an_object_that_nobody_can_run_is_refused_with_a_fix():
    wrong: Any = "a trial"
    with pytest.raises(PosattnError, match=r"trial is a str, .*@execute\.register"):
        execute(wrong, device=torch.device("cpu"), report=lambda step, losses: None)


def test_test_sets_are_values_and_a_mapping_is_short_for_them():
    typed = Evaluation(sets=[TestSet("near"), TestSet("far", {"high": 9})])
    short = Evaluation(sets={"near": {}, "far": {"high": 9}})
    assert typed == short == Evaluation(sets={"far": {"high": 9.0}, "near": {}})
    assert isinstance(typed.sets, TestSets)
    assert hash(typed.sets) == hash(short.sets)
    assert typed != Evaluation(sets={"far": {"high": 8}, "near": {}})


def test_two_test_sets_of_one_name_are_refused():
    with pytest.raises(PosattnError, match="two test sets are called 'far': give each a name"):
        Evaluation(sets=[TestSet("far"), TestSet("far", {"high": 9})])


def kinds_asked_for(tree: ast.AST) -> list[int]:
    """Lines where `isinstance` is called with a kind of trial."""
    kinds = {kind.__name__ for kind in identity.KINDS.values()} | {Computed.__name__}
    found = []
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("isinstance", "issubclass")
        ):
            names = {getattr(part, "id", getattr(part, "attr", None)) for part in ast.walk(node.args[1])}
            found += [node.lineno] if names & kinds else []
    return found


def test_nothing_asks_a_trial_for_its_kind():
    assert kinds_asked_for(ast.parse("isinstance(case.trial, (Trial, train.LanguageTrial))")) == [1]
    asked = {
        f"{path.relative_to(SOURCE)}:{line}"
        for part in ("train", "engine", "studies", "report", "cli")
        for path in (SOURCE / part).rglob("*.py")
        for line in kinds_asked_for(ast.parse(path.read_text()))
    }
    assert asked == set()
