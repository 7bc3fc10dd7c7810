"""Runs that are continued, changed, unfinished or damaged: a clean continuation or a clear error, no mixed table."""

import csv
import io
import json

import pytest

from posattn import PosattnError, engine, studies
from posattn.engine import training
from posattn.nn import Standard
from posattn.report import table
from posattn.studies.core import results
from posattn.train import Trial


def run(folder, **options):
    wanted = {"preset": "smoke", "tasks": ("sum",), "seeds": 1} | options
    return results.run(studies.get("ood-scale"), out=folder, device="cpu", reporter=engine.Lines(), **wanted)


@pytest.fixture
def trained(monkeypatch):
    """All trials that are trained from here on."""
    found: list[Trial] = []
    fleet = training.Fleet

    def watched(trials, **options):
        found.extend(trials)
        return fleet(trials, **options)

    monkeypatch.setattr(training, "Fleet", watched)
    return found


def counts(found) -> dict[str, int]:
    """How many seeds each model has, the same at every point; the table says so where models differ in it."""
    rows = {(point.arm, len(point.ours)) for point in found.points}
    assert len(rows) == len(dict(rows))
    if len(set(dict(rows).values())) > 1:
        place = table.header(found).index("seeds")
        assert {(row[1], int(row[place])) for row in table.cells(found)} == rows
    else:
        assert "seeds" not in table.header(found)
    return dict(rows)


def values(found, arm: str) -> list[tuple[float, ...]]:
    return [point.ours for point in found.points if point.arm == arm]


def test_more_seeds_train_only_what_is_missing(tmp_path, trained):
    before = run(tmp_path)
    trained.clear()
    after = run(tmp_path, seeds=3)
    assert {trial.seed for trial in trained} == {1, 2}
    assert [point.ours[0] for point in after.points] == [point.ours[0] for point in before.points]


def test_models_are_added_one_by_one_and_each_has_its_own_seeds(tmp_path, trained):
    first = run(tmp_path, arms=("positional",), seeds=1)
    assert counts(first) == {"positional": 1}
    trained.clear()
    second = run(tmp_path, arms=("standard",), seeds=3)
    assert {(type(trial.model), trial.seed) for trial in trained} == {(Standard, seed) for seed in range(3)}
    assert counts(second) == {"standard": 3, "positional": 1}
    assert values(second, "positional") == values(first, "positional")
    assert second.commands == [
        "posattn run ood-scale --task sum --model standard --preset smoke --seeds 3",
        "posattn run ood-scale --task sum --model positional --preset smoke --seeds 1",
    ]
    trained.clear()
    third = run(tmp_path, arms=("positional", "homogeneous"), seeds=2)
    assert len(trained) == 3  # seed 1 of the one, both of the other
    assert counts(third) == {"standard": 3, "positional": 2, "homogeneous": 2}
    assert values(third, "standard") == values(second, "standard")
    assert [ours[:1] for ours in values(third, "positional")] == values(second, "positional")
    assert results.results("ood-scale", tmp_path) == third


def test_what_the_store_has_is_shown_whichever_command_made_it(tmp_path, trained):
    run(tmp_path, arms=("standard",), seeds=3)
    run(tmp_path, arms=("positional",), seeds=2)
    trained.clear()
    assert counts(run(tmp_path, arms=("standard",), seeds=2)) == {"standard": 3, "positional": 2}
    assert not trained
    whole = run(tmp_path, seeds=1)
    assert counts(whole) == {"standard": 3, "positional": 2, "homogeneous": 1, "compiled": 1}
    assert len(trained) == 1
    assert "median over the seeds that are finished" in table.markdown(whole)


def test_a_task_after_another_is_added_to_the_report(tmp_path):
    """`posattn run --task sum`, then `--task min` into the same folder, then some seeds of one model of a third."""
    first = run(tmp_path, seeds=2)
    second = run(tmp_path, tasks=("min",), seeds=2)
    assert {point.task for point in second.points} == {"sum", "min"}
    assert [point for point in second.points if point.task == "sum"] == list(first.points)
    assert second.commands == ["posattn run ood-scale --task sum --task min --preset smoke --seeds 2"]
    third = run(tmp_path, tasks=("sort",), arms=("standard",))
    assert {(point.task, point.arm) for point in third.points if point.task == "sort"} == {("sort", "standard")}
    assert third.commands == [
        "posattn run ood-scale --task sum --task min --preset smoke --seeds 2",
        "posattn run ood-scale --task sort --model standard --preset smoke --seeds 1",
    ]
    assert results.results("ood-scale", tmp_path) == third
    rows = list(csv.DictReader(io.StringIO(table.csv(third))))
    assert {(row["task"], row["seed"]) for row in rows} == {
        ("sum", "0"), ("sum", "1"), ("min", "0"), ("min", "1"), ("sort", "0"),
    }  # fmt: skip


def test_another_preset_has_a_table_of_its_own(tmp_path, monkeypatch):
    run(tmp_path)
    usual = type(studies.get("ood-scale"))

    class Short(usual):
        def cases(self, task, preset):
            return usual.cases(self, task, "smoke")[:1] if task == "sum" else []

    monkeypatch.setitem(studies.REGISTRY, "ood-scale", Short())
    found = run(tmp_path, preset="quick")
    assert found.preset == "quick"
    assert {point.arm for point in found.points} == {"standard"}


def test_a_task_that_is_named_twice_is_run_once(tmp_path):
    twice = run(tmp_path, tasks=("sum", "sum"), arms=("standard",))
    assert twice == run(tmp_path, arms=("standard",))
    assert len({(point.arm, point.test_set) for point in twice.points}) == len(twice.points)


def test_a_model_that_is_added_while_another_is_trained_is_not_lost(tmp_path, monkeypatch):
    """Two commands at once, one for each model: whoever ends last keeps both."""
    attempt = results.attempt

    def slow(*given, **options):
        monkeypatch.setattr(results, "attempt", attempt)
        run(tmp_path, arms=("standard",))
        return attempt(*given, **options)

    monkeypatch.setattr(results, "attempt", slow)
    assert counts(run(tmp_path, arms=("positional",))) == {"standard": 1, "positional": 1}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"preset": "quik"}, "unknown preset 'quik': did you mean 'quick'"),
        ({"tasks": ("sotr",)}, "unknown task of study 'ood-scale' 'sotr': did you mean 'sort'"),
        ({"seeds": 0}, "seeds=0"),
        (
            {"arms": ("standrad",)},
            "unknown model of study 'ood-scale', preset smoke 'standrad': did you mean 'standard'",
        ),
        ({"arms": ("standard", "GPT-2")}, "'GPT-2': Known: standard, positional, homogeneous"),
        ({"arms": ("homogeneous, decayed",)}, "preset smoke 'homogeneous, decayed'"),  # paper preset only
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


def test_a_trial_that_is_not_finished_is_not_shown_and_no_failure(tmp_path):
    """Seed 0 of one model is gone, and so are both seeds of another."""
    found = run(tmp_path, seeds=2)
    gone = [(1, 0), (2, 0), (2, 1)]
    for case, seed in gone:
        (tmp_path / found.cases[case].seeded(seed).id / "metrics.json").unlink()
    left = results.results("ood-scale", tmp_path)
    assert counts(left) == {"standard": 2, "positional": 1, "compiled": 2}
    (one,) = {point.seeds for point in left.points if point.arm == "positional"}
    assert one == (1,)
    assert values(left, "positional") == [ours[1:] for ours in values(found, "positional")]
    rows = list(csv.DictReader(io.StringIO(table.csv(left))))
    assert {row["seed"] for row in rows if row["arm"] == "positional"} == {"1"}
    assert "the seeds that are finished" in table.markdown(left)


def test_a_study_of_which_nothing_is_left_says_how_to_run_it(tmp_path):
    found = run(tmp_path)
    for case in found.cases:
        (tmp_path / case.seeded(0).id / "metrics.json").unlink()
    with pytest.raises(PosattnError, match=r"has no finished run below .*: start it, posattn run ood-scale"):
        results.results("ood-scale", tmp_path)


def test_a_damaged_trial_that_the_study_does_not_have_does_not_matter(tmp_path):
    found = run(tmp_path)
    (tmp_path / "not-a-trial").mkdir()
    (tmp_path / "not-a-trial" / "metrics.json").write_text('{"format": 99}')
    assert results.results("ood-scale", tmp_path) == found
    (tmp_path / found.cases[0].seeded(0).id / "metrics.json").write_text("{")
    with pytest.raises(PosattnError, match=rf"{found.cases[0].seeded(0).id}/metrics.json' cannot be read"):
        results.results("ood-scale", tmp_path)


#: Of the version before, which knew one number of seeds for all models.
OLDER = {"format": 1, "study": "ood-scale", "preset": "smoke", "tasks": ["sum"], "seeds": 1}


@pytest.mark.parametrize(
    ("content", "reason"),
    [("{", "cannot be read"), (json.dumps(OLDER), "it has format 1"), ("newer", "newer version")],
)
def test_a_damaged_older_or_newer_record_is_named(tmp_path, trained, content, reason):
    found = run(tmp_path)
    path = tmp_path / "studies" / "ood-scale.json"
    if content == "newer":
        content = json.dumps(json.loads(path.read_text()) | {"format": 99})
    path.write_text(content)
    trained.clear()
    for again in (lambda: results.results("ood-scale", tmp_path), lambda: run(tmp_path, arms=("standard",), seeds=2)):
        with pytest.raises(PosattnError, match=reason) as caught:
            again()
        assert str(caught.value).startswith(f"'{path}' ")
    assert not trained  # a model is not trained first and then found to have no place
    assert path.read_text() == content
    if reason != "newer version":  # then the message says to run it again
        assert run(tmp_path) == found
        assert not trained
