"""The selection studies: what their trials are, and their computed lines against what they stand for."""

import json
import math

import numpy as np
import pytest

from posattn import report, studies
from posattn.errors import PosattnError
from posattn.nn import FullyConnected, FullyConnectedNetwork, Selector
from posattn.report import table
from posattn.studies.core import record, results
from posattn.studies.selection.closed_form import Descent, Floor
from posattn.studies.selection.protocol import CHOICES
from posattn.studies.selection.sts_fcn import fresh_loss
from posattn.theory import selection
from posattn.train import Trial

STS = [name for name in studies.REGISTRY if name.startswith("sts-")]


def trials(name: str, preset: str = "paper") -> dict[str, Trial]:
    found = {case.arm: case.trial for case in studies.get(name).chosen((), preset)}
    return {arm: trial for arm, trial in found.items() if isinstance(trial, Trial)}


def test_the_paper_preset_is_the_papers():
    for encoding, trial in trials("sts-length").items():
        model = trial.model
        assert isinstance(model, Selector)
        assert (model.dim, model.width, model.keys, model.query, model.deviation) == (
            5,
            170,
            "tokens",
            "certificate",
            0,
        )
        assert model.length == {"stochastic": 200, "fixed near-orthogonal": 400}[encoding]
        assert trial.data.options == {"length": 200, "subset_size": 3, "dim": 5, "redraw": "sample"}
        assert (trial.data.batch, trial.data.fresh) == (256, True)
        o = trial.optimiser
        assert (o.name, o.lr, o.steps, o.schedule, o.decay_from, o.factor) == ("sgd", 1, 100_000, "drop", 0.5, 1 / 3)
        lengths = {options["length"] for options in (one.options for one in trial.test_sets)}
        assert lengths == {200, 250, 300, 350, 400}


def test_one_hot_encodings_are_not_asked_for_more_tokens():
    sets = trials("sts-convergence")["one-hot"].test_sets
    assert {one.options["length"] for one in sets} == {200}


def test_what_one_study_has_trained_the_others_find():
    held = {trial.id for trial in trials("sts-convergence").values()}
    assert {trial.id for name in ("sts-length", "sts-ood") for trial in trials(name).values()} <= held


@pytest.mark.parametrize("preset", ["smoke", "quick", "paper"])
def test_networks_go_from_d_to_td_and_all_train_in_one_fleet_a_depth(preset):
    cases = studies.get("sts-fcn").chosen((), preset)
    models = [case.trial.model for case in cases if isinstance(case.trial, Trial)]
    networks = [model for model in models if isinstance(model, FullyConnected)]
    widths = [network.widths[0] for network in networks]
    assert (min(widths), max(widths)) == (networks[0].dim, networks[0].dim * networks[0].length)
    assert len({network.family() for network in networks}) == 2


@pytest.mark.parametrize("name", [name for name in STS if studies.get(name).choices])
def test_every_choice_changes_the_trials_and_is_said_in_the_notes(name):
    study = studies.get(name)
    before = {case.seeded(0).id for case in study.chosen((), "smoke")}
    for choice, offered in CHOICES.items():
        assert study.choosing({choice: offered.default}).chosen_values == {}
        assert f"{choice}={offered.default}" in " ".join(study.remarks())
        for value in (*offered.values[1:], *(("0.3",) if offered.kind else ())):
            changed = study.choosing({choice: value})
            assert before.isdisjoint(
                case.seeded(0).id for case in changed.chosen((), "smoke") if isinstance(case.trial, Trial)
            )
            assert f"{choice}={value}" in " ".join(changed.remarks())


def test_choices_are_kept_with_the_results_and_other_ones_begin_anew(tmp_path):
    study = studies.get("sts-length")
    options = {"preset": "smoke", "seeds": 1, "out": tmp_path, "device": "cpu"}
    results.run(study.choosing({"query": "sum"}), **options)
    found = results.results("sts-length", tmp_path)
    assert found.study.choice("query") == "sum"
    assert found.commands == ["posattn run sts-length --preset smoke --seeds 1 --option query=sum"]
    assert "query=sum" in table.markdown(found)
    again = results.run(study, arms=("stochastic",), **options)
    assert again.record.seeds == {"stochastic": 1}
    assert again.record.choices == {}


def test_a_choice_that_is_none_is_one_clear_error():
    for name, values, words in (
        ("sts-length", {"kye": "tokens"}, "'kye'.*keys"),
        ("sts-length", {"keys": "tokes"}, "did you mean 'tokens'"),
        ("sts-length", {"query_scale": "-1"}, "'-1'.*auto, a number"),
        ("sizes", {"keys": "tokens"}, "leaves nothing to choose, leave it out"),
    ):
        with pytest.raises(PosattnError, match=words):
            studies.get(name).choosing(values)


def test_a_record_without_choices_is_read_as_one_of_the_defaults(tmp_path):
    held = {"format": 2, "study": "sizes", "preset": "smoke", "tasks": [], "seeds": {"standard": 1}, "left_out": {}}
    store = results.Store(tmp_path)
    path = record.path_of(store, "sizes")
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(held))
    found = record.read(store, "sizes")
    assert found is not None
    assert found.choices == {}


def test_descent_is_the_recursion_with_its_drop_at_every_size():
    trial = Descent(
        T=20, q=3, d=5, eta=0.8, steps=300, every=100, drop_from=0.5, factor=0.25, lengths=(30,), subsets=(2,)
    )
    found = {(score["set"], score["step"]): score["loss"] for score in trial.scores()}
    v = g = 0.0
    for step in range(301):
        if step % 100 == 0:
            for name, (tokens, q) in (("validation", (20, 3)), ("T=30", (30, 3)), ("q=2", (20, 2))):
                wanted = selection.loss(v, g, T=tokens, q=q, d=5)
                assert found[name, step] == pytest.approx(float(wanted), rel=1e-9)
        slope = selection.gradient(v, g, T=20, q=3, d=5)
        eta = 0.8 * (0.25 if step >= 150 else 1.0)
        v, g = v - eta * float(slope.v), g - eta * float(slope.g)
    w = np.eye(20) - np.ones((20, 20)) / 20
    assert found["cosine W", 300] == pytest.approx(np.trace(w) / np.linalg.norm(w) / math.sqrt(20))
    assert found["cosine W", 0] == found["cosine V", 0] == 0
    assert found["cosine V", 300] == 1


def test_there_is_no_closed_form_for_a_query_that_attends_to_itself_or_is_scaled():
    for name in ("sts-convergence", "sts-ood"):
        for values in ({"keys": "with-query"}, {"query_scale": "0.5"}):
            cases = studies.get(name).choosing(values).chosen((), "smoke")
            assert not any("closed form" in case.arm or "slope" in case.arm for case in cases)
        others = studies.get(name).choosing({"query": "sum"}).chosen((), "smoke")
        assert "closed form, one-hot" in {case.arm for case in others}


def test_losses_of_networks_are_estimated_without_bias_and_with_less_noise():
    options = {"length": 6, "subset_size": 2, "dim": 3}
    zero = FullyConnectedNetwork(length=6, dim=3, widths=(1,))
    for parameter in zero.parameters():
        parameter.data.zero_()
    assert fresh_loss(zero, options, samples=40_000) == pytest.approx(0.5 * 3 / 2, rel=0.01)

    class Mean(FullyConnectedNetwork):
        def forward(self, x, subset, key):
            return x.mean(1)

    floor = selection.fcn_floor(3, T=6, q=2, d=3)
    assert fresh_loss(Mean(length=6, dim=3), options, samples=500) == pytest.approx(floor, rel=1e-6)
    everything = {"length": 6, "subset_size": 6, "dim": 3}
    assert fresh_loss(zero, everything, samples=40_000) == pytest.approx(0.5 * 3 / 6, rel=0.03)


def test_a_store_without_weights_still_gives_tables_pictures_and_derived_figures(tmp_path):
    for name in ("sts-fcn", "sts-length"):
        before = results.run(studies.get(name), preset="smoke", seeds=1, out=tmp_path, device="cpu")
        for path in tmp_path.glob("*/weights.safetensors"):
            path.unlink()
        again = results.results(name, tmp_path)
        assert [point.ours for point in again.points] == [point.ours for point in before.points]
        assert report.write(again, tmp_path).is_file()


def test_a_derived_figure_that_is_half_written_is_derived_again(tmp_path):
    before = results.run(studies.get("sts-fcn"), preset="smoke", seeds=1, out=tmp_path, device="cpu")
    kept = sorted(tmp_path.glob("*/figures-sts-fcn.json"))
    assert len(kept) == len(before.points)
    kept[0].write_text('{"version"')
    assert [point.ours for point in results.results("sts-fcn", tmp_path).points] == [p.ours for p in before.points]


def test_the_floor_is_the_theorys():
    (score,) = Floor(width=40, T=20, q=3, d=5).scores()
    assert score["loss"] == pytest.approx(0.5 * (100 - 40) * 17 / (3 * 20 * 19))


def test_step_sizes_of_the_bound_cover_the_same_time():
    descents = [case.trial for case in studies.get("sts-bound").chosen((), "paper")]
    descents = [trial for trial in descents if isinstance(trial, Descent)]
    times = {trial.eta * trial.steps for trial in descents}
    assert len(descents) == 3
    assert max(times) - min(times) < 1e-6 * max(times)
    assert max(trial.steps for trial in descents) == 10_000_000
