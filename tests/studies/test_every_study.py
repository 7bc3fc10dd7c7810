"""Every study runs end to end in its smoke preset, and its table says what the store holds."""

import csv
import io
import json
import math
import statistics
from typing import Any

import pytest

from posattn import engine, published, studies
from posattn.report import figures, table
from posattn.studies.core import results
from posattn.studies.core.views import Derived, ThroughTraining
from posattn.studies.length.relative_errors import POLISHED, RelativeErrors


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


def smoke(name, folder, **options):
    study = studies.get(name)
    return results.run(
        study,
        preset="smoke",
        tasks=study.tasks[:1],
        seeds=2,
        out=folder,
        device="cpu",
        reporter=engine.Lines(),
        **options,
    )


FOLLOWED = [name for name, study in studies.REGISTRY.items() if isinstance(study.view, ThroughTraining)]


@pytest.mark.parametrize("name", FOLLOWED)
def test_what_is_followed_through_training_has_a_finite_figure_for_every_step_and_seed(name, folder):
    found = smoke(name, folder)
    assert isinstance(found.study.view, ThroughTraining)
    followed = {panel.score for panel in found.study.view.panels("smoke")}
    for case in found.cases:
        rows = [row for row in engine.Store(folder).rows({case.seeded(1).id}) if row["set"] in followed]
        points = {(p.test_set, p.x): p for p in found.points if p.arm == case.arm}
        assert len(points) == len(rows) >= 2
        for row in rows:
            point = points[row["set"], row["step"]]
            assert point.ours[1] == row["loss"]
            assert len(point.ours) == 2
            assert all(math.isfinite(value) for value in point.ours)
    ends = {point.x for point in found.study.view.tabled("smoke", found.points)}
    assert {0, 8} <= ends or name == "sts-bound"


@pytest.mark.parametrize("name", [name for name in studies.REGISTRY if name not in FOLLOWED])
def test_smoke_preset_gives_a_finite_figure_for_every_case_set_and_seed(name, folder):
    found = smoke(name, folder)
    view = found.study.view
    named: list[Any] = [(case, view.figures if isinstance(view, Derived) else case.placed()) for case in found.cases]
    if isinstance(view, RelativeErrors):
        named = [
            (case, [size.name + end for size in view.sizes(case, "smoke") for end in ("", POLISHED)[: 1 + again]])
            for case in found.cases
            for again in [view.polishes(case) is not None]
        ]
    groups = {(case.task, case.arm, case.x, name) for case, names in named for name in names}
    assert len(found.points) == len(groups)
    for point in found.points:
        assert len(point.ours) == 2
        assert all(0 <= value < float("inf") for value in point.ours)


@pytest.mark.parametrize("name", ["ood-scale", "accuracy", "khop-depth"])
def test_points_are_the_scores_that_the_metrics_files_hold(name, folder):
    found = smoke(name, folder)
    for case in found.cases:
        for seed in range(2):
            scores = json.loads((folder / case.seeded(seed).id / "metrics.json").read_text())["scores"]
            for score in scores:
                if score["set"] == "train":
                    continue
                (point,) = [
                    p for p in found.points if (p.arm, p.test_set) == (case.arm, score["set"]) and case.x in (None, p.x)
                ]
                assert point.ours[seed] == score["loss" if name == "ood-scale" else "metric"]


def test_variable_length_points_are_means_over_the_eight_lengths(folder):
    found = smoke("variable-length", folder)
    case = found.cases[0]
    scores = json.loads((folder / case.seeded(1).id / "metrics.json").read_text())["scores"]
    losses = [score["loss"] for score in scores if score["set"].startswith("c=3,")]
    assert len(losses) == 8
    (point,) = [p for p in found.points if (p.arm, p.test_set) == (case.arm, "c=3")]
    assert point.ours[1] == pytest.approx(statistics.fmean(losses), rel=1e-12)


def published_by_hand(**wanted: str) -> list[float]:
    """The published losses by the csv module alone."""
    with (published.resources.files("posattn.published") / "positional.csv").open() as file:
        return [
            float(row["loss"])
            for row in csv.DictReader(file)
            if all(row[name] == value for name, value in wanted.items())
        ]


def test_published_column_is_the_median_of_the_published_runs(folder):
    found = smoke("ood-scale", folder)
    (point,) = [p for p in found.points if (p.arm, p.test_set) == ("positional", "c=3")]
    runs = published_by_hand(experiment="scale", task="sum", arch="positional", scale_c="3", split="test")
    assert len(runs) == 10
    assert point.published_median == pytest.approx(statistics.median(runs))
    assert point.ratio == pytest.approx(statistics.median(point.ours) / statistics.median(runs))


def test_published_variable_length_losses_are_divided_by_eight_but_for_validation(folder):
    found = smoke("variable-length", folder)
    where = {"experiment": "variable_length_scale", "task": "sum", "arch": "standard"}
    for test_set, columns, divisor in (
        ("c=3", {"scale_c": "3", "split": "test"}, 8),
        ("validation", {"split": "val"}, 1),
    ):
        (point,) = [p for p in found.points if (p.arm, p.test_set) == ("standard", test_set)]
        runs = published_by_hand(**where, **columns)
        assert point.published_median == pytest.approx(statistics.median(runs) / divisor)


def test_published_mixed_type_sample_runs_stand_at_their_number_of_samples():
    """Medians of ten runs each: the fifth and the sixth in the authors' files, averaged."""
    cases = {(case.arm, case.x): case for case in studies.get("mixed-type-samples").cases("mixed-min", "paper")}
    for arm, samples, test_set, fifth, sixth in (
        ("positional", 20_000, "c=3", 0.29788509011, 0.29862198234),
        ("standard", 50_000, "validation", 0.014697499573, 0.017310265452),
        ("standard", 100_000, "c=10", 79.281547546, 370.77258301),
    ):
        runs = cases[arm, samples].published[test_set]
        assert len(runs) == 10
        assert statistics.median(runs) == pytest.approx((fifth + sixth) / 2, rel=1e-9)
    for task in studies.get("mixed-type-samples").tasks:
        for case in studies.get("mixed-type-samples").cases(task, "paper"):
            wanted = 0 if case.arm == "homogeneous" else 10
            assert {name: len(runs) for name, runs in case.published.items()} == {
                "validation": wanted, "c=3": wanted, "c=10": wanted,
            }  # fmt: skip


def test_nothing_published_shows_as_a_dash(folder):
    found = smoke("ablation", folder)
    assert all(row[-2:] == ("–", "–") for row in table.cells(found))


def test_csv_holds_every_seed(folder):
    found = smoke("ood-scale", folder)
    rows = list(csv.DictReader(io.StringIO(table.csv(found))))
    assert len(rows) == 2 * len(found.points)
    first = found.points[0]
    assert [float(row["value"]) for row in rows[:2]] == list(first.ours)


def test_markdown_has_one_row_a_point_and_the_command(folder):
    found = smoke("sizes", folder)
    text = table.markdown(found)
    assert text.count("\n| ") == len(found.points)
    assert "posattn run sizes --task sum --preset smoke --seeds 2" in text


def test_khop_16_stands_beside_the_published_error_table(tmp_path):
    study = studies.get("khop-depth")
    found = results.run(
        study, preset="smoke", tasks=("khop-16",), seeds=1, out=tmp_path, device="cpu", reporter=engine.Lines()
    )
    (point,) = [p for p in found.points if (p.arm, p.x, p.test_set) == ("standard", 2, "k=8")]
    assert point.published_median == pytest.approx(1 - 0.658)
    (row,) = [row for row in table.cells(found) if row[1:4] == ("standard", "2", "k=8")]
    assert row[4] == f"{point.median:.4f}"  # shares are not written as powers of ten
    assert row[6] == "0.3420"
    (panel,) = figures.curves(found).axes
    assert panel.get_xticks().tolist() == [1, 2]
