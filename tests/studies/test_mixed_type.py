"""GPT-2 in the mixed-type study: a model like the others where it can be had, and a note where it cannot."""

import csv
import json
import math
import shutil
import statistics
import sys
from typing import Any

import pytest

from posattn import PosattnError, engine, published, studies, tasks
from posattn.engine import training
from posattn.report import table
from posattn.report.compact import compact
from posattn.studies.core import results
from posattn.studies.positional.numeric_protocol import published_losses
from posattn.train.language import fine_tune as language
from posattn.train.random_streams import stream

OTHERS = {"standard": 1, "positional": 1, "homogeneous": 1, "gated": 1, "compiled": 1}


class Saying(engine.Lines):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def say(self, message: str) -> None:
        self.said.append(message)


def run(folder: Any, model: object = None, **options: Any) -> results.Results:
    study = studies.get("mixed-type")
    wanted: dict[str, Any] = {"preset": "smoke", "tasks": ("mixed-min",), "seeds": 1, "out": folder, "device": "cpu"}
    wanted["reporter"] = Saying()
    return results.run(study if model is None else study.choosing({"gpt2": str(model)}), **wanted | options)


def answering(loss: float | None, bad: int = 0) -> Any:
    """In place of fine-tuning: every set has this loss."""

    def fine_tune(trial: language.LanguageTrial, **_: Any) -> list[dict[str, Any]]:
        row = {"step": trial.steps, "loss": loss, "metric": loss, "unparseable": bad, "answers": trial.test_samples}
        return [{"set": name} | row for name in (one.name for one in trial.test_sets)]

    return fine_tune


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language, "fine_tune", answering(0.25))


@pytest.fixture
def out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)


def points(found: results.Results, arm: str = "GPT-2") -> dict[str, results.Point]:
    return {point.test_set: point for point in found.points if point.arm == arm}


def test_gpt2_is_fine_tuned_once_and_stands_beside_the_others(tiny_gpt2, tmp_path, monkeypatch):
    found = run(tmp_path, tiny_gpt2, seeds=2)
    assert list(dict.fromkeys(point.arm for point in found.points)) == [*OTHERS, "GPT-2"]
    assert list(points(found)) == list(points(found, "standard")) == ["validation", "c=1", "c=2"]
    (case,) = [case for case in found.cases if case.arm == "GPT-2"]
    answers = {"unparseable": 0, "answers": 0}
    for seed in range(2):
        scores = json.loads((tmp_path / case.seeded(seed).id / "metrics.json").read_text())["scores"]
        assert [score["set"] for score in scores] == ["validation", "c=1", "c=2"]
        for score in scores:
            kept = math.inf if score["loss"] is None else score["loss"]
            assert points(found)[score["set"]].ours[seed] == kept
            answers = {name: count + score[name] for name, count in answers.items()}
    assert found.unparseable == {"GPT-2": tuple(answers.values())}
    assert answers["answers"] == 2 * 3 * 8
    assert found.commands == [
        f"posattn run mixed-type --task mixed-min --preset smoke --seeds 2 --option gpt2={tiny_gpt2}"
    ]
    monkeypatch.setattr(training, "Fleet", None)
    monkeypatch.setattr(language, "fine_tune", None)  # nothing can be trained any more
    assert run(tmp_path, tiny_gpt2, seeds=2).points == found.points


def test_its_figures_are_those_of_the_answers_that_hold_a_number(tiny_gpt2, tmp_path, monkeypatch):
    """Every other answer is 2.50, the rest are words."""

    def continued(model: Any, asked: list[Any]) -> list[str]:
        return [" 002.50" if row % 2 else " CatB " for row in range(len(asked))]

    monkeypatch.setattr(language, "continued", continued)
    found = run(tmp_path, tiny_gpt2, arms=("GPT-2",), seeds=3)
    options = {"low": 0.0, "high": 10.0, "held_out": True}
    for seed in range(3):
        _, target = tasks.get("mixed-min").sample(8, **options, generator=stream(seed, "test set c=2"))
        truth = [round(number, 2) for number in target.flatten().tolist()]
        by_hand = statistics.fmean((number - 2.5) ** 2 for number in truth[1::2])
        assert points(found)["c=2"].ours[seed] == pytest.approx(by_hand, rel=1e-9)
    assert found.unparseable == {"GPT-2": (36, 72)}
    assert "36 of 72 answers of GPT-2 hold no number; the others make its figures." in table.footnotes(found)


@pytest.mark.usefixtures("made_up")
def test_its_published_figures_are_those_of_the_fine_tuned_gpt2_large(tmp_path):
    found = points(run(tmp_path, "gpt2", tasks=("mixed-sum",)))
    with (published.resources.files("posattn.published") / "positional.csv").open() as file:
        runs = [
            float(row["loss"])
            for row in csv.DictReader(file)
            if (row["experiment"], row["task"]) == ("mixed_type_scale", "sum")
            and (row["arch"], row["scale_c"], row["split"]) == ("gpt2_large_finetuned", "2", "test")
        ]
    assert len(runs) == 10
    assert found["c=2"].published_median == pytest.approx(statistics.median(runs))
    assert found["c=2"].ratio == pytest.approx(0.25 / statistics.median(runs))
    assert found["validation"].published_median is None


@pytest.mark.usefixtures("made_up")
def test_gpt2_is_added_to_the_other_models_and_they_to_it(tmp_path):
    assert run(tmp_path).record.seeds == OTHERS
    added = run(tmp_path, "gpt2", arms=("GPT-2",), seeds=2)
    assert added.record.seeds == OTHERS | {"GPT-2": 2}
    # Where none is chosen, it stays the language model of this table.
    again = run(tmp_path, arms=("standard",), seeds=2)
    assert again.record.seeds == OTHERS | {"GPT-2": 2, "standard": 2}
    assert again.record.choices == {"gpt2": "gpt2"}
    assert run(tmp_path, arms=("GPT-2",), seeds=3).record.seeds == OTHERS | {"GPT-2": 3, "standard": 2}
    # Another one takes its place.
    other = run(tmp_path, "distilgpt2", arms=("homogeneous",))
    assert other.record.seeds == OTHERS | {"standard": 2}
    assert run(tmp_path).record == results.Record(
        study="mixed-type",
        preset="smoke",
        tasks=("mixed-min",),
        choices={"gpt2": "distilgpt2"},
        seeds=OTHERS | {"standard": 2},
    )


@pytest.mark.parametrize("model", ["", " ", "a\0b"])
def test_a_language_model_without_a_name_is_refused(tmp_path, model):
    with pytest.raises(PosattnError, match="a folder or a name on the hub") as caught:
        run(tmp_path, model)
    assert repr(model) in str(caught.value)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("model", ["/nonexistent", "./nonexistent", "~/nonexistent", "~nobody-here/x", "a/b/c"])
def test_what_can_only_be_a_folder_must_be_one(model):
    with pytest.raises(PosattnError, match=r"no such folder.*config\.json") as caught:
        studies.get("mixed-type").choosing({"gpt2": model})
    assert f"gpt2={model}" in str(caught.value)


def test_a_folder_that_has_gone_since_still_has_its_report(tiny_gpt2, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(tiny_gpt2, folder)
    found = run(tmp_path / "runs", folder)
    shutil.rmtree(folder)
    assert results.results("mixed-type", tmp_path / "runs").points == found.points


def test_a_record_that_named_its_language_model_elsewhere_is_read_as_the_option(tmp_path, made_up):
    found = run(tmp_path, "gpt2")
    path = tmp_path / "studies" / "mixed-type.json"
    held = json.loads(path.read_text())
    assert held["choices"] == {"gpt2": "gpt2"}
    path.write_text(json.dumps(held | {"format": 3, "choices": {}, "language_model": "gpt2"}))
    again = results.results("mixed-type", tmp_path)
    assert (again.points, again.record, again.commands) == (found.points, found.record, found.commands)


def test_another_study_takes_no_language_model():
    with pytest.raises(PosattnError, match="option gpt2=gpt2: study 'ood-scale' leaves nothing to choose"):
        studies.get("ood-scale").choosing({"gpt2": "gpt2"})


# ---- out of reach


@pytest.mark.usefixtures("out_of_reach")
def test_a_model_out_of_reach_is_said_once_and_the_study_goes_on(tmp_path):
    reporter = Saying()
    found = run(tmp_path, "gpt2", tasks=("mixed-min", "mixed-sum"), seeds=2, reporter=reporter)
    (said,) = reporter.said
    assert said.startswith("model 'gpt2' needs transformers (")
    assert {point.arm for point in found.points} == set(OTHERS)
    assert all(len(point.ours) == 2 for point in found.points)
    (note,) = [note for note in table.footnotes(found) if note.startswith("No GPT-2: ")]
    assert note == f"No GPT-2: {found.record.left_out['GPT-2']}"
    assert "pip install 'posattn[gpt2]'" in note
    assert found.unparseable == {}
    lines = [line for part in compact(found) for line in part.lines if "not available" in line.head[1]]
    assert [line.head[0] for line in lines] == ["mixed-min", "mixed-sum"]
    (columns,) = {part.columns for part in compact(found)}
    for line in lines:
        losses = published_losses("mixed_type_scale", line.head[0], "gpt2_large_finetuned", (1, 2))
        shown = dict(zip(columns, line.cells, strict=True))
        assert line.head[1] == "GPT-2, published (weights not available)"
        assert shown["validation"] == "–"
        for test_set in ("c=1", "c=2"):
            assert float(shown[test_set]) == pytest.approx(statistics.median(losses[test_set]), rel=0.05)
    # The command gives this table, also where the model is within reach.
    models = " ".join(f"--model {arm}" for arm in OTHERS)
    command = f"posattn run mixed-type --task mixed-min --task mixed-sum {models} --preset smoke --seeds 2"
    assert found.commands == [f"{command} --option gpt2=gpt2"]


def test_a_model_that_comes_within_reach_is_added_and_the_note_goes(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "transformers", None)
        run(tmp_path, "gpt2")
    monkeypatch.setattr(language, "fine_tune", answering(None, bad=8))
    found = run(tmp_path, "gpt2", arms=("GPT-2",))
    assert found.record.seeds == OTHERS | {"GPT-2": 1}
    assert not [note for note in table.footnotes(found) if note.startswith("No GPT-2")]


@pytest.mark.usefixtures("out_of_reach")
def test_where_nothing_else_was_asked_for_there_is_no_table_and_no_record(tmp_path):
    with pytest.raises(PosattnError, match=r"nothing of study 'mixed-type' could be run, GPT-2 was all .*no --model"):
        run(tmp_path, "gpt2", arms=("GPT-2",))
    with pytest.raises(PosattnError, match="has no finished run"):
        results.results("mixed-type", tmp_path)
    run(tmp_path, "gpt2")
    found = run(tmp_path, "gpt2", arms=("GPT-2",))  # now there are others to show
    assert (found.record.seeds, list(found.record.left_out)) == (OTHERS, ["GPT-2"])


# ---- no number at all


@pytest.mark.parametrize("seeds", [1, 2])
def test_where_no_answer_is_a_number_the_loss_counts_as_infinite(tmp_path, monkeypatch, seeds):
    if seeds == 2:  # one seed whose answers are numbers
        monkeypatch.setattr(language, "fine_tune", answering(0.25))
        run(tmp_path, "gpt2", arms=("GPT-2",))
    monkeypatch.setattr(language, "fine_tune", answering(None, bad=8))
    found = run(tmp_path, "gpt2", seeds=seeds)
    rows = [dict(zip(table.header(found), row, strict=True)) for row in table.cells(found)]
    shown = {row["test set"]: row for row in rows if row["model"] == "GPT-2"}
    assert {row["ours"] for row in shown.values()} == {"inf"}
    assert {row["spread"] for row in shown.values()} == {"2.5e-01…inf" if seeds == 2 else "–"}
    assert (shown["validation"]["ratio"], shown["c=1"]["ratio"]) == ("–", "inf")
    (note,) = [note for note in table.footnotes(found) if "hold no number" in note]
    assert note == (
        f"24 of {24 * seeds} answers of GPT-2 hold no number; the others make its figures. "
        "Where none does, its loss is inf."
    )
    kept = [row for row in csv.DictReader(table.csv(found).splitlines()) if row["arm"] == "GPT-2"]
    assert [float(row["value"]) for row in kept] == [0.25, math.inf][-seeds:] * 3
