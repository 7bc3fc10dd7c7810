"""A study with changed trials: own results, own report, names that stay true, and nothing of the unchanged one."""

import csv
import io
import itertools
import json
import shlex
import shutil
from typing import Any

import pytest

from posattn import PosattnError, engine, report, studies
from posattn.engine import training
from posattn.errors import NoSuchField
from posattn.report import figures, table
from posattn.studies.core import record, results
from posattn.studies.core.case import Case
from posattn.studies.core.record import FORMAT
from posattn.studies.core.results import Results
from posattn.studies.core.study import Study
from posattn.train import Trial
from posattn.train.changes import apply, parse

LR = {"optimiser.lr": 3e-3}
NAME = "ood-scale+optimiser.lr=0.003"


def run(folder: Any, changes: dict[str, Any], study: str = "ood-scale", **options: Any) -> Results:
    wanted: dict[str, Any] = {"preset": "smoke", "tasks": ("sum",), "seeds": 2} | options
    asked = studies.get(study).setting(changes)
    return results.run(asked, out=folder, device="cpu", reporter=engine.Lines(), **wanted)


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[Trial]:
    """All trials that are trained from here on."""
    found: list[Trial] = []
    fleet = training.Fleet

    def watched(trials: list[Trial], **options: Any) -> Any:
        found.extend(trials)
        return fleet(trials, **options)

    monkeypatch.setattr(training, "Fleet", watched)
    return found


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Results, Results]:
    """One store: the study as it is, then changed."""
    folder = tmp_path_factory.mktemp("both")
    return folder, run(folder, {}), run(folder, LR)


# ---- results


def test_a_changed_run_has_none_of_the_unchanged_trials_and_scores_as_in_a_store_of_its_own(
    both: tuple[Any, Results, Results], tmp_path: Any
) -> None:
    _, usual, changed = both
    assert run(tmp_path / "usual", {}).points == usual.points
    assert run(tmp_path / "changed", LR).points == changed.points
    ids = [
        {case.seeded(seed).id for case in found.cases if case.trial.trained for seed in (0, 1)} for found in both[1:]
    ]
    assert len(ids[0]) == len(ids[1]) == 6
    assert not ids[0] & ids[1]
    trained = [point for point in changed.points if point.arm != "compiled"]
    assert not {point.ours for point in trained} & {point.ours for point in usual.points}
    assert {case.trial.optimiser.lr for case in changed.cases if isinstance(case.trial, Trial)} == {3e-3}


def test_both_are_read_back_apart(both: tuple[Any, Results, Results]) -> None:
    folder, usual, changed = both
    assert record.recorded(engine.Store(folder)) == ["ood-scale", NAME]
    assert results.results("ood-scale", folder).points == usual.points
    assert results.results(NAME, folder).points == changed.points
    assert results.results(NAME, folder).record == changed.record
    assert changed.record.changes == LR
    assert usual.record.changes == {}


@pytest.mark.parametrize(
    "other", [{"tasks": ("sort",)}, {"arms": ("standard", "compiled")}, {"seeds": 2}], ids=["task", "model", "seeds"]
)
def test_what_a_change_leaves_as_it_is_does_not_show_in_the_unchanged_report(
    tmp_path: Any, other: dict[str, Any]
) -> None:
    """A compiled model has no learning rate, so its trials are the same in both runs: other tasks, models, seeds."""
    asked: dict[str, Any] = {"seeds": 1, "arms": ("standard",) if "arms" in other else ("standard", "compiled")}
    usual = run(tmp_path, {}, **asked)
    changed = run(tmp_path, LR, **asked | other)
    assert "compiled" in {point.arm for point in changed.points}
    assert results.results("ood-scale", tmp_path).points == usual.points


def test_a_run_that_goes_on_trains_only_what_is_missing_of_its_own(
    both: tuple[Any, Results, Results], tmp_path: Any, trained: list[Trial]
) -> None:
    folder = shutil.copytree(both[0], tmp_path / "runs")
    assert run(folder, LR).points == both[2].points
    assert not trained
    gone = both[2].cases[0].seeded(1)
    (folder / gone.id / "metrics.json").unlink()
    assert run(folder, LR).points == both[2].points
    assert [trial.id for trial in trained] == [gone.id]
    trained.clear()
    run(folder, LR, arms=("positional",), seeds=3)
    assert [(trial.seed, trial.optimiser.lr) for trial in trained] == [(2, 3e-3)]
    assert results.results("ood-scale", folder).points == both[1].points


def test_the_same_changes_in_another_order_or_form_are_the_same_run(tmp_path: Any, trained: list[Trial]) -> None:
    first = run(tmp_path, parse(["data.samples=32", "optimiser.lr=1e-2"]), arms=("positional",), seeds=1)
    count = len(trained)
    again = run(tmp_path, {"optimiser.lr": 0.01, "data.samples": 32}, arms=("positional",), seeds=1)
    assert (len(trained), again.points, again.record) == (count, first.points, first.record)


def test_models_and_tasks_are_added_to_a_changed_run_one_by_one(tmp_path: Any) -> None:
    run(tmp_path, LR, arms=("positional",), seeds=1)
    run(tmp_path, {}, tasks=("sort",), arms=("homogeneous",), seeds=1)
    found = run(tmp_path, LR, tasks=("min",), arms=("standard",), seeds=1)
    assert found.record.tasks == ("sum", "min")
    assert found.record.seeds == {"positional": 1, "standard": 1}
    assert {(point.task, point.arm) for point in found.points} == {("sum", "positional"), ("min", "standard")}


def test_changes_and_options_of_a_study_go_together() -> None:
    study = studies.get("sts-length").setting({"optimiser.lr": 0.5}).choosing({"query": "sum"})
    assert (study.changes, study.chosen_values) == ({"optimiser.lr": 0.5}, {"query": "sum"})
    trials = [case.trial for case in study.cases_of("selection", "smoke") if isinstance(case.trial, Trial)]
    assert {trial.optimiser.lr for trial in trials} == {0.5}
    assert {getattr(trial.model, "query") for trial in trials} == {"sum"}  # noqa: B009 (one kind of model has it)
    assert study.setting({}).changes == {}
    assert studies.get("sts-length").setting({}) is studies.get("sts-length")


def test_a_study_that_was_only_run_changed_says_so(tmp_path: Any) -> None:
    run(tmp_path, LR, arms=("positional",), seeds=1)
    with pytest.raises(
        PosattnError, match=r"start it, posattn run ood-scale\. There is 'ood-scale\+optimiser\.lr=0\.003'"
    ):
        results.results("ood-scale", tmp_path)
    with pytest.raises(PosattnError, match=r"unknown study 'ood-scale\+optimiser\.lr=1'"):
        results.results("ood-scale+optimiser.lr=1", tmp_path)


@pytest.mark.usefixtures("as_users_run_it")
def test_a_record_of_changes_that_cannot_be_read_is_named_with_the_way_out(tmp_path: Any) -> None:
    held = {"format": FORMAT, "study": "ood-scale", "preset": "smoke", "tasks": [], "seeds": {"standard": 1}}
    path = record.path_of(engine.Store(tmp_path), NAME)
    path.parent.mkdir()
    path.write_text(json.dumps(held | {"changes": [3]}))
    with pytest.raises(PosattnError, match=r"\(changes are a list.*posattn run ood-scale with the same --set, what is"):
        record.read(engine.Store(tmp_path), NAME)


def test_a_record_from_before_there_were_changes_has_none(tmp_path: Any) -> None:
    held = {"format": 4, "study": "ood-scale", "preset": "smoke", "tasks": [], "seeds": {"standard": 1}}
    path = record.path_of(engine.Store(tmp_path), "ood-scale")
    path.parent.mkdir()
    path.write_text(json.dumps(held | {"choices": {}, "left_out": {}}))
    found = record.read(engine.Store(tmp_path), "ood-scale")
    assert found is not None
    assert (found.changes, found.name) == ({}, "ood-scale")


# ---- which cases are changed


@pytest.mark.parametrize("study", [study for study in studies.REGISTRY if study not in ("sts-bound",)])
@pytest.mark.parametrize("changes", [{"optimiser.lr": 0.0123}, {"evaluation.samples": 7}], ids=str)
def test_every_case_of_every_study_is_changed_by_its_trial_or_left(study: str, changes: dict[str, Any]) -> None:
    usual = studies.get(study)
    task = usual.tasks[0]
    before, after = usual.cases_of(task, "smoke"), usual.setting(changes).cases_of(task, "smoke")
    assert [(case.arm, case.x) for case in before] == [(case.arm, case.x) for case in after]
    for one, other in zip(before, after, strict=True):
        wanted = apply(one.trial, changes) if one.trial.trained else one.trial
        assert other.trial.id == wanted.id
        assert (other.trial.id != one.trial.id) == one.trial.trained


def test_a_language_model_is_changed_by_the_same_names() -> None:
    study = studies.get("mixed-type").choosing({"gpt2": "gpt2"}).setting({"data.samples": 24, "optimiser.name": "sgd"})
    found = [case for case in study.cases_of("mixed-min", "smoke") if case.trial.trained]
    cases = {case.arm: json.loads(case.trial.to_json()) for case in found}
    assert {arm: held["data"]["samples"] for arm, held in cases.items()} == dict.fromkeys(cases, 24)
    assert {arm for arm, held in cases.items() if held["optimiser"]["name"] == "sgd"} == set(cases) - {"GPT-2"}
    samples, name = study.described_changes("smoke", set(cases))
    assert str(samples) == "data.samples=24 (study: 32)"
    assert str(name) == "optimiser.name=sgd (study: adam); “GPT-2” has no such field and stays as it is"


def test_values_that_differ_between_models_are_all_told() -> None:
    study = studies.get("ood-scale").setting({"optimiser.clip": 2.0, "data.options.integers": True})
    arms = {case.arm for case in study.cases_of("sum", "paper")}
    integers, clip = study.described_changes("paper", arms)
    assert str(clip) == (
        "optimiser.clip=2 (study: null of “standard”, “positional”, “homogeneous”; 1 of “homogeneous, decayed”); "
        "“compiled” has no such field and stays as it is"
    )
    assert str(integers).startswith("data.options.integers=true (study: unset);")


@pytest.mark.parametrize(
    ("study", "change", "said"),
    [
        ("ood-scale", "model.bias=false", "'positional on sum' and 'homogeneous on sum' would be the same trial under"),
        ("ood-scale", "model.layres=3", r"--set model.layres=3: unknown field of the .* model 'layres': did you mean"),
        ("ood-scale", "kappa=3", r"--set kappa=3: unknown field 'kappa'"),
        ("ood-scale", "evaluation.sets={}", r"--set evaluation.sets: the study's tables and figures are made of its"),
        ("ood-scale", "evaluation.sets.far=3", r"--set evaluation.sets.far: the study's tables and figures are made"),
        (
            "ood-scale",
            "model.heads=3",
            r"standard on sum: --set model.heads=3: embed_dim=8 is not divisible by heads=3",
        ),
        ("ood-scale", "data.samples=3", r"standard on sum: --set data.samples=3: batch=16 is larger than the data"),
        ("ood-scale", "data.options.length=9", "the input has length 9 and the one-hot encoding of the model 8"),
        ("sample-complexity", "data.samples=64", r"data.samples is the axis of standard on sum, 32, 64. Set another"),
        ("sizes", "data.options.length=2", r"data.options.length is the axis of standard on sum, 2, 4"),
        ("sizes", "model.length=4", r"model.length is the axis of standard on sum"),
        ("khop-depth", "model.layers=6", r"model.layers is the axis of standard on khop"),
        ("bounds-vs-gap", "optimiser.steps=3", r"optimiser.steps is the axis of standard on sum by steps"),
        ("sts-bound", "optimiser.lr=3", r"--set optimiser.lr=3: '.*' is not trained, leave it as it is"),
    ],
)
def test_a_change_that_is_wrong_is_refused_before_anything_is_trained(
    tmp_path: Any, study: str, change: str, said: str
) -> None:
    with pytest.raises(PosattnError, match=said):
        run(tmp_path, parse([change]), study, tasks=())
    assert {path.name for path in tmp_path.iterdir()} <= {"store.json"}


def test_a_field_that_no_trial_of_a_study_has_is_told_as_such(tmp_path: Any) -> None:
    with pytest.raises(NoSuchField):
        run(tmp_path, {"model.colour": 3})


class OfTwoTasks(Study):
    """A study whose tasks have different options: only selection has kappa."""

    name = "of-two-tasks"
    tasks = ("sum", "selection")

    def cases(self, task: str, preset: str) -> list[Case]:
        other = {"sum": "ood-scale", "selection": "sts-length"}[task]
        return studies.get(other).cases_of(task, preset)[:1]


def test_a_change_may_reach_one_task_and_leave_another() -> None:
    study = OfTwoTasks().setting({"task_options.kappa": 2.0})
    (left,), (reached,) = (study.chosen((task,), "smoke") for task in study.tasks)
    assert left.trial.id == OfTwoTasks().cases_of("sum", "smoke")[0].trial.id
    assert json.loads(reached.trial.to_json())["task_options"] == {"kappa": 2}


def test_a_change_that_is_wrong_for_a_task_is_refused_whichever_task_is_asked_for() -> None:
    """One task has 64 samples, the other 800."""
    study = OfTwoTasks().setting({"data.batch": 65})
    for task in study.tasks:
        with pytest.raises(PosattnError, match="batch=65 is larger than the data"):
            study.chosen((task,), "smoke")


# ---- the report


def test_the_report_says_what_was_changed_and_lies_beside_the_other(both: tuple[Any, Results, Results]) -> None:
    folder, usual, changed = both
    pages = [report.write(found, folder) for found in (usual, changed)]
    assert [page.parent.name for page in pages] == ["ood-scale", NAME]
    note = "Changed: optimiser.lr=0.003 (study: 0.001); “compiled” has no such field and stays as it is."
    published = "Published figures are of the unchanged protocol: ratios compare two different experiments."
    told = (pages[1].parent / "table.md").read_text()
    assert f"- {note}\n" in told
    assert f"- {published}\n" in told
    assert "--preset smoke --seeds 2 --set optimiser.lr=0.003\n" in told
    assert "<p><strong>Changed:</strong> optimiser.lr=0.003 (study: 0.001);" in pages[1].read_text()
    silent = (pages[0].parent / "table.md").read_text() + pages[0].read_text()
    assert "hanged" not in silent
    assert "--set" not in silent


def test_rows_and_figures_that_are_taken_out_of_a_report_say_it_too(both: tuple[Any, Results, Results]) -> None:
    _, usual, changed = both
    for found, name, title in ((usual, "ood-scale", ""), (changed, NAME, "changed: optimiser.lr=0.003")):
        assert {row["study"] for row in csv.DictReader(io.StringIO(table.csv(found)))} == {name}
        assert figures.curves(found).get_suptitle() == title


def test_the_commands_of_a_report_give_the_same_trials() -> None:
    changes = parse(["data.options.avoid=[-1, 1]", "optimiser.schedule=cosine", "optimiser.clip=null"])
    held = record.Record(study="ood-scale", preset="smoke", tasks=("sum",), seeds={"standard": 1}, changes=changes)
    study = studies.get("ood-scale").setting(changes)
    (command,) = held.commands(study, {"sum": {case.arm: 1 for case in study.cases_of("sum", "smoke")}})
    words = shlex.split(command)
    given = [value for word, value in itertools.pairwise(words) if word == "--set"]
    again = studies.get("ood-scale").setting(parse(given))
    for one, other in zip(study.cases_of("sum", "smoke"), again.cases_of("sum", "smoke"), strict=True):
        assert one.trial.id == other.trial.id
