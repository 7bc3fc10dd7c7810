"""Views: points stand where their places say, whatever test sets are called, and figures are drawn from them."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest

from posattn.nn import Positional
from posattn.report import figures
from posattn.studies.core.case import Case, Place
from posattn.studies.core.points import Finished, Level, Point
from posattn.studies.core.record import Record
from posattn.studies.core.results import Results
from posattn.studies.core.study import Study
from posattn.studies.core.views import Curves, CurvesOverCases, Derived, Panel, ThroughTraining, View
from posattn.train import Data, Evaluation, Optimiser, Trial


def case(*test_sets: str, **fields: Any) -> Case:
    trial = Trial(
        task="sum",
        model=Positional(),
        data=Data(samples=4, batch=2),
        optimiser=Optimiser(steps=10),
        evaluation=Evaluation(samples=2, sets={name: {} for name in test_sets}),
    )
    return Case(task="sum", arm="positional", trial=trial, **fields)


def finished(one: Case, *seeds: dict[str, float | None]) -> Finished:
    """A case whose seeds have these losses at the end; the metric is ten times the loss."""
    rows = tuple(
        [{"set": name, "step": 10, "loss": loss, "metric": loss and 10 * loss} for name, loss in seed.items()]
        for seed in seeds
    )
    return Finished(one, tuple(range(len(seeds))), rows, rows, (Path(),) * len(seeds))


def points(view: View, *held: Finished) -> list[Point]:
    return view.points("a-study", "smoke", held)


def test_a_point_stands_where_its_place_says_whatever_its_test_sets_are_called():
    places = {
        "c=99, length 1": (Place("near", 3.0),),
        "c=7": (Place("near", 3.0),),
        "T=5": (Place("far", 4.0, "another panel"), Place("far", 8.0)),
        "validation": (Place("inside"),),
    }
    found = points(
        Curves(axis="scale"),
        finished(
            case(*places, places=places, published={"near": (5.0, 7.0)}),
            {"c=99, length 1": 1.0, "c=7": 3.0, "T=5": 7.0, "validation": 9.0, "train": 0.0},
            {"c=99, length 1": 2.0, "c=7": None, "T=5": 8.0, "validation": 9.5, "train": 0.0},
        ),
    )
    assert [(p.task, p.test_set, p.x, p.ours, p.published, p.drawn) for p in found] == [
        ("sum", "near", 3.0, (2.0, math.inf), (5.0, 7.0), True),
        ("another panel", "far", 4.0, (7.0, 8.0), (), True),
        ("sum", "far", 8.0, (7.0, 8.0), (), True),
        ("sum", "inside", 0.0, (9.0, 9.5), (), False),
    ]


def test_places_are_no_part_of_a_trial_or_its_id():
    plain, placed = case("c=3"), case("c=3", places={"c=3": (Place("far", 7.0),)}, x=3.0, published={"far": (1.0,)})
    assert plain.seeded(1).id == placed.seeded(1).id


def test_a_curve_runs_through_the_test_sets_or_through_the_cases():
    across = [
        finished(
            case("near", "far", places={"near": (Place("near", 1.0),), "far": (Place("far", 2.0),)}),
            {"near": 1.0, "far": 4.0},
        )
    ]
    view = Curves(axis="scale", levels={"sum": Level(0.5, "published")})
    (picture,) = view.pictures("smoke", points(view, *across))
    (curve,) = picture.curves
    assert (curve.label, [(p.x, p.median) for p in curve.points]) == ("positional", [(1.0, 1.0), (2.0, 4.0)])
    assert (picture.level, picture.log, picture.ticks) == (Level(0.5, "published"), True, (1.0, 2.0))
    each = [finished(case("near", "far", x=x), {"near": float(x), "far": 10.0 * x}) for x in (5, 2)]
    over = CurvesOverCases(axis="layers", score="metric", measure="accuracy", share=True)
    (picture,) = over.pictures("smoke", points(over, *each))
    assert {curve.label: [(p.x, p.median) for p in curve.points] for curve in picture.curves} == {
        "positional, near": [(2, 20.0), (5, 50.0)],
        "positional, far": [(2, 200.0), (5, 500.0)],
    }
    assert (picture.log, picture.y_label, picture.ticks) == (False, "accuracy", (2, 5))


def test_a_table_through_training_shows_milestones_and_its_picture_every_step():
    view = ThroughTraining(panels=lambda _: (Panel(title="1/loss", score="near", inverse=True, log=False),))
    rows = [{"set": "near", "step": step, "loss": 1 / (1 + step)} for step in range(11)]
    rows += [{"set": "other", "step": 10, "loss": 1.0}]
    found = points(view, Finished(case("near"), (0,), (rows,), ([],), (Path(),)))
    assert [p.x for p in view.tabled("smoke", found)] == [0, 1, 3, 5, 10]
    (picture,) = view.pictures("smoke", found)
    assert [p.x for p in picture.curves[0].points] == list(range(1, 11))  # 1/loss is compared with a line from 0
    assert [p.median for p in picture.curves[0].points] == pytest.approx(range(2, 12))


def test_derived_figures_are_stored_beside_the_scores_and_only_some_are_drawn(tmp_path):
    asked = []

    def derive(one: Case, rows: list[dict[str, Any]], weights: Path) -> dict[str, float]:
        asked.append(weights)
        return {"twice": 2 * rows[0]["loss"], "half": rows[0]["loss"] / 2}

    view = Derived(axis="width", figures=("twice", "half"), drawn=("half",), derive=derive)
    held = dataclasses.replace(finished(case("near", x=3), {"near": 4.0}), folders=(tmp_path,))
    found = points(view, held)
    assert [(p.test_set, p.x, p.ours, p.drawn) for p in found] == [
        ("twice", 3, (8.0,), False),
        ("half", 3, (2.0,), True),
    ]
    assert points(view, held) == found
    assert asked == [tmp_path / "weights.safetensors"]
    (picture,) = view.pictures("smoke", found)
    assert [p.test_set for curve in picture.curves for p in curve.points] == ["half"]


def test_a_study_of_which_nothing_has_a_place_on_the_axis_still_has_a_figure():
    class Placeless(Study):
        name = "placeless"
        view = Curves(axis="nothing")

        def cases(self, task: str, preset: str) -> list[Case]:
            return []

    study = Placeless()
    found = points(study.view, finished(case("near"), {"near": 1.0}))
    made = Record(study="placeless", preset="smoke", tasks=(), seeds={"positional": 1})
    results = Results(study, made, tuple(found), (), ("cpu",), (), (), [], {})
    assert len(figures.rendered(figures.curves(results), "png")) > 500
