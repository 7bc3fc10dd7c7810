"""The paper presets are the paper's protocols: every number below stands on the paper's page."""

import sys
from typing import Any

import pytest

from posattn import PosattnError, studies
from posattn.nn import GPTArchitecture, HopTables, MixedPositional, Positional, Standard
from posattn.train.language.trial import LanguageTrial

HELD_OUT = {"held_out": True}


def paper(name, task) -> Any:
    """The cases, whose trials are of several kinds."""
    return studies.get(name).cases(task, "paper")


def sets_of(trial: Any) -> dict[str, Any]:
    """Options by test set."""
    return {one.name: one.options for one in trial.test_sets}


def test_scale_study_follows_the_paper():
    cases = {case.arm: case.trial for case in paper("ood-scale", "sort")}
    trial = cases["positional"]
    assert (trial.data.samples, trial.data.batch, trial.optimiser.steps) == (30_000, 1000, 2001 * 30)
    assert (trial.optimiser.name, trial.optimiser.lr, trial.optimiser.weight_decay) == ("adam", 5e-4, 0)
    assert (trial.optimiser.schedule, trial.optimiser.patience) == ("plateau", 50)
    assert (trial.optimiser.factor, trial.optimiser.floor) == (0.9, 1e-6)
    assert trial.data.options == {"length": 8, "low": -2, "high": 2}
    assert trial.evaluation.samples == 1000
    assert sets_of(trial)["c=1"] == {"length": 8, "low": -2, "high": 2}
    assert sets_of(trial)["c=7"] == {"length": 8, "low": -14, "high": 14, "avoid": (-2, 2)}
    assert list(sets_of(trial)) == ["validation", *(f"c={c}" for c in range(1, 11))]
    assert trial.model == Positional(layers=4)
    assert cases["standard"].model == Standard(layers=4)
    assert studies.get("ood-scale").seeds["paper"] == 10


def test_homogeneous_model_is_trained_by_the_papers_schedule_and_by_ours():
    cases = {case.arm: case.trial for case in paper("ood-scale", "sum")}
    assert cases["homogeneous"].optimiser == cases["positional"].optimiser
    ours = cases["homogeneous, decayed"].optimiser
    assert (ours.steps, ours.schedule) == (cases["positional"].optimiser.steps, "cosine")


def test_sample_study_fixes_epochs_not_steps():
    found = {
        case.trial.data.samples: case.trial for case in paper("sample-complexity", "sum") if case.arm == "standard"
    }
    assert list(found) == list(range(5_000, 50_001, 5_000))
    assert list(found) == [case.x for case in paper("sample-complexity", "sum") if case.arm == "standard"]
    for samples, trial in found.items():
        assert trial.optimiser.steps == 2001 * samples // 1000
        assert list(sets_of(trial)) == ["validation", "c=3"]


def test_sizes_study_has_a_layer_for_every_doubling():
    found = {case.x: case.trial for case in paper("sizes", "min") if case.arm == "positional"}
    layers = {2: 2, 4: 3, 8: 4, 16: 5, 32: 6, 64: 7}
    assert {x: trial.model for x, trial in found.items()} == {
        length: Positional(length=length, layers=count) for length, count in layers.items()
    }


def test_variable_length_study_follows_the_paper():
    trial = paper("variable-length", "sum")[0].trial
    assert (trial.data.samples, trial.data.batch, trial.optimiser.lr) == (500_000, 2048, 1e-4)
    assert trial.data.lengths == (1, 2, 3, 4, 5, 6, 7, 8)
    samples = trial.evaluation.samples * sum(name.startswith("c=3") for name in sets_of(trial))
    assert samples == 2000


def test_rotary_study_turns_by_nodes_on_both_inputs():
    cases = {case.arm: case.trial.model for case in paper("rotary", "sum")}
    assert cases["rotary, input X‖P"] == Standard(layers=4, rotary=True)
    assert cases["rotary, input X"] == Standard(layers=4, rotary=True, append_encoding=False)


def test_khop_studies_follow_the_paper_and_share_their_trials():
    trial = paper("khop-depth", "khop")[0].trial
    o = trial.optimiser
    assert (o.name, o.lr, o.betas, o.weight_decay, o.clip) == ("adamw", 5e-4, (0.9, 0.95), 0.1, 1.0)
    assert (o.steps, trial.data.batch, trial.data.samples, trial.evaluation.samples) == (100_000, 64, 50_000, 1000)
    assert trial.model == GPTArchitecture(embed_dim=60, heads=3, vocabulary=16, length=99, layers=1, gelu="tanh")
    depth = {case.trial.id for case in paper("khop-depth", "khop")}
    assert depth == {case.trial.id for case in paper("khop-ood", "khop")}


@pytest.mark.parametrize("preset", studies.PRESETS)
def test_hops_by_tables_stand_beside_the_pair_at_their_own_depth(preset):
    cases: Any = studies.get("khop-depth").cases("khop", preset)
    (case,) = (one for one in cases if one.arm == "by tables")
    assert case.x == 10 == 1 + 3 * len([1, 5, 25])  # nodes that are read stand so far apart, and 125 ≥ 99
    assert case.trial.model == HopTables(letters=10, hops=3, heads=4)
    (pair, *_) = cases
    assert case.trial.data.samples == pair.trial.data.samples
    more = {"k=3": {"hops": 3}}
    assert sets_of(case.trial) == sets_of(pair.trial) | more == {"validation": {}, "held-out letters": HELD_OUT} | more
    assert "by tables" not in {one.arm for one in studies.get("khop-depth").cases("khop-16", preset)}


@pytest.mark.parametrize("name", ["khop-depth", "khop-ood"])
def test_the_standard_model_of_the_khop_studies_can_end_earlier(name):
    def depths(**chosen: str) -> dict[str, list[float | None]]:
        cases = studies.get(name).choosing(chosen).chosen(("khop",), "paper")
        return {arm: [case.x for case in cases if case.arm == arm] for arm in ("standard", "positional")}

    whole = list(range(1, 9))
    assert depths() == {"standard": whole, "positional": whole}
    assert depths(standard_layers="4") == {"standard": [1, 2, 3, 4], "positional": whole}
    with pytest.raises(PosattnError, match=r"unknown value of option standard_layers '2\.5'"):
        depths(standard_layers="2.5")
    with pytest.raises(PosattnError, match="standard_layers=1: the quick preset starts at 2, and none would be left"):
        studies.get(name).choosing({"standard_layers": "1"}).chosen(("khop",), "quick")


def test_mixed_study_follows_the_paper():
    trial = {case.arm: case.trial for case in paper("mixed-type", "mixed-sum")}["positional"]
    assert (trial.data.samples, trial.data.batch, trial.optimiser.steps) == (50_000, 1000, 2001 * 50)
    assert (trial.optimiser.lr, trial.optimiser.schedule, trial.optimiser.patience) == (5e-4, "plateau", 10)
    assert trial.model == MixedPositional(length=98, scratchpad=1, layers=3, heads=2, embed_dim=32, hidden_dim=32)
    assert sets_of(trial)["c=4"] == {"low": 0, "high": 20, "held_out": True}


def test_sample_study_of_the_mixed_type_experiment_fixes_epochs_not_steps():
    cases = [case for case in paper("mixed-type-samples", "mixed-min") if case.arm == "positional"]
    assert [case.x for case in cases] == [20_000, 35_000, 50_000, 75_000, 100_000]
    for case in cases:
        data, optimiser = case.trial.data, case.trial.optimiser
        assert (data.samples, data.batch, optimiser.steps) == (case.x, 1000, 2001 * case.x // 1000)
        assert (optimiser.lr, optimiser.schedule, optimiser.patience) == (5e-4, "plateau", 10)
        assert [place.group for place in case.placed()] == ["validation", "c=3", "c=10"]


@pytest.mark.parametrize("task", ["mixed-min", "mixed-sum", "mixed-multitask"])
def test_mixed_models_with_50000_samples_are_trained_once_for_both_studies(task):
    known = {case.arm: case.seeded(3).id for case in paper("mixed-type", task)}
    shared = {case.arm: case.seeded(3).id for case in paper("mixed-type-samples", task) if case.x == 50_000}
    assert list(shared) == ["standard", "positional", "homogeneous"]
    assert shared.items() <= known.items()


def test_gpt2_follows_the_paper_and_meets_what_the_others_meet():
    cases = {case.arm: case for case in paper("mixed-type", "mixed-sum")}
    read, other = cases["GPT-2"].trial, cases["positional"].trial
    assert (read.model, read.batch, read.epochs, read.lr, read.warm_up) == ("gpt2-large", 16, 3, 2e-5, 100)
    assert (read.samples, read.options) == (other.data.samples, other.data.options)
    assert (read.test_samples, read.sets) == (other.evaluation.samples, other.evaluation.sets)
    assert cases["GPT-2"].test_sets == cases["positional"].test_sets
    study = studies.get("mixed-type")
    arms = ["standard", "positional", "homogeneous", "gated", "compiled"]
    assert [case.arm for case in study.cases("mixed-sum", "quick")] == arms
    for preset in studies.PRESETS:
        *_, last = study.choosing({"gpt2": "gpt2"}).cases("mixed-sum", preset)
        assert isinstance(last.trial, LanguageTrial)
        assert (last.arm, last.trial.model) == ("GPT-2", "gpt2")
    assert study.chosen_values == {}  # the registered study is still the one without


@pytest.mark.parametrize("name", studies.REGISTRY)
def test_every_study_says_its_question_figure_and_costs(name):
    study = studies.get(name)
    assert study.question.endswith("?")
    assert study.answers
    assert study.view.axis
    assert set(study.cost) == set(studies.PRESETS) == set(study.seeds)
    assert f"posattn run {name}" in (sys.modules[type(study).__module__].__doc__ or "")
