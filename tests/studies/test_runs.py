"""Runs that are continued, changed, unfinished or damaged: a clean continuation or a clear error, no mixed table."""

import json

import pytest

from posattn import PosattnError, engine, studies
from posattn.engine import local
from posattn.studies import results


def run(folder, **options):
    wanted = {"preset": "smoke", "tasks": ("sum",), "seeds": 1} | options
    return results.run(studies.get("ood-scale"), out=folder, device="cpu", reporter=engine.Lines(), **wanted)


def test_more_seeds_train_only_what_is_missing(tmp_path, monkeypatch):
    before = run(tmp_path)
    trained = []
    fleet = local.Fleet

    def watched(trials, **options):
        trained.extend(trials)
        return fleet(trials, **options)

    monkeypatch.setattr(local, "Fleet", watched)
    after = run(tmp_path, seeds=3)
    assert {trial.seed for trial in trained} == {1, 2}
    assert [point.ours[0] for point in after.points] == [point.ours[0] for point in before.points]


def test_other_tasks_make_a_table_of_those_alone(tmp_path):
    run(tmp_path)
    assert {point.task for point in run(tmp_path, tasks=("sort",)).points} == {"sort"}
    assert {point.task for point in results.results("ood-scale", tmp_path).points} == {"sort"}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"preset": "quik"}, "unknown preset 'quik': did you mean 'quick'"),
        ({"tasks": ("sotr",)}, "unknown task of study 'ood-scale' 'sotr': did you mean 'sort'"),
        ({"seeds": 0}, "seeds=0"),
    ],
)
def test_a_mistake_is_named_before_anything_is_trained(tmp_path, options, reason):
    with pytest.raises(PosattnError, match=reason):
        run(tmp_path, **options)
    assert not any(tmp_path.iterdir())


def test_an_unknown_study_is_answered_with_the_nearest():
    with pytest.raises(PosattnError, match="unknown study 'ood-scal': did you mean 'ood-scale'"):
        studies.get("ood-scal")


def test_a_study_that_was_never_run_says_how_to_run_it(tmp_path):
    with pytest.raises(PosattnError, match="posattn run ood-scale"):
        results.results("ood-scale", tmp_path)


def test_a_trial_that_is_missing_is_named(tmp_path):
    found = run(tmp_path)
    (tmp_path / found.cases[1].seeded(0).id / "metrics.json").unlink()
    with pytest.raises(PosattnError, match=r"1 trials of study 'ood-scale' are not finished .*positional on sum"):
        results.results("ood-scale", tmp_path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [("{", "cannot be read"), (json.dumps({"format": 1}), "cannot be read"), ("newer", "newer version")],
)
def test_a_damaged_or_newer_record_is_named(tmp_path, content, reason):
    run(tmp_path)
    record = tmp_path / "studies" / "ood-scale.json"
    if content == "newer":
        content = json.dumps(json.loads(record.read_text()) | {"format": 99})
    record.write_text(content)
    with pytest.raises(PosattnError, match=reason) as caught:
        results.results("ood-scale", tmp_path)
    assert str(record) in str(caught.value)
