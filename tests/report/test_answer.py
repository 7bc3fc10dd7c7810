"""What a report opens with: the answer from trained models, what to bear in mind, and a table at a glance."""

import dataclasses
import math
from typing import Any

import pytest
from matplotlib.figure import Figure

from posattn import studies
from posattn.report import figures
from posattn.report.answer import answer, caveats
from posattn.report.compact import Compact, Line, compact
from posattn.studies.core.points import Point
from posattn.studies.core.record import Record
from posattn.studies.core.results import Results


def made(
    rows: dict[tuple[str, str], dict[str, tuple[float, ...]]], *, study: str = "ood-scale", preset: str = "quick",
    published: float | None = None, **changed: Any,
) -> Results:  # fmt: skip
    """Results with these scores of every seed: (task, arm), test set."""
    points = tuple(
        Point(
            task, arm, name, float(name[2:] if name[:2] == "c=" else 0), values,
            (published,) if published is not None and arm == "standard" else (), tuple(range(len(values))),
            drawn=name != "validation",
        )
        for (task, arm), scores in rows.items()
        for name, values in scores.items()
    )  # fmt: skip
    asked = studies.get(study)
    arms = {arm for _, arm in rows}
    cases = [case for task in {task for task, _ in rows} for case in asked.cases_of(task, preset) if case.arm in arms]
    record = Record(study=study, preset=preset, tasks=(), seeds=dict.fromkeys(arms, 1))
    finished = tuple((case, (0,)) for case in cases)
    found = Results(asked, record, points, finished, ("cpu",), (), (), [], {})
    return dataclasses.replace(found, **changed)


SUM = {
    ("sum", "standard"): {"validation": (1e-5,), "c=1": (2e-5,), "c=10": (100.0,)},
    ("sum", "positional"): {"validation": (4e-5,), "c=1": (3e-5,), "c=10": (0.5,)},
    ("sum", "compiled"): {"validation": (1e-15,), "c=1": (1e-15,), "c=10": (3e-14,)},
}


def test_the_answer_leaves_out_what_was_not_trained():
    rows = {key: scores for key, scores in SUM.items() if key[1] != "positional"}
    assert answer(made(rows)) == "At ten times the training range “standard” has a loss of 100 on sum."


def test_where_nothing_was_trained_the_answer_is_about_what_was_computed():
    rows = {key: scores for key, scores in SUM.items() if key[1] == "compiled"}
    assert answer(made(rows)) == "At ten times the training range “compiled” has a loss of 3.0e-14 on sum."


LOST = {
    ("sum", "standard"): {"c=1": (2.0,), "c=10": (100.0,)},
    ("sum", "positional"): {"c=1": (1.0,), "c=10": (0.5,)},
    ("sort", "standard"): {"c=1": (2.0,), "c=10": (9.0,)},
    ("sort", "positional"): {"c=1": (1.0,), "c=10": (1.0,)},
}


@pytest.mark.parametrize("loss", [math.inf, math.nan, 1e30])
def test_a_model_that_diverged_is_named_and_never_compared(loss):
    found = answer(made(LOST | {("sum", "standard"): {"c=1": (2.0,), "c=10": (loss,)}}))
    ratio = "At ten times the training range the standard model's loss is 9 times the positional one's on sort."
    assert found == f"{ratio} “standard” diverged on sum."
    every = {key: {"c=10": (loss,)} if key[1] == "standard" else scores for key, scores in LOST.items()}
    left = "At ten times the training range “positional” has a loss of 0.5 to 1 on sum and sort."
    assert answer(made(every)) == f"{left} “standard” diverged on sum and sort."
    assert answer(made({key: {"c=10": (loss,)} for key in LOST})).startswith("Every model diverged")


def test_a_model_that_diverged_is_not_compared_by_its_last_finite_weights():
    found = made(LOST)
    (case,) = [case for case in found.cases if (case.task, case.arm) == ("sum", "standard")]
    said = answer(dataclasses.replace(found, diverged=((case, 0, 3),)))
    assert said.endswith("is 9 times the positional one's on sort. “standard” diverged on sum.")


def test_one_diverged_seed_of_three_leaves_the_median():
    rows = {key: {"c=10": (*scores["c=10"] * 2, 3.0)} for key, scores in LOST.items()}
    rows["sum", "standard"] = {"c=10": (100.0, 100.0, math.inf)}
    assert "diverged" not in answer(made(rows))


def test_a_model_whose_answers_hold_no_number_is_not_said_to_have_diverged():
    rows = LOST | {("sum", "standard"): {"c=10": (math.inf,)}}
    assert "diverged" not in answer(made(rows, unparseable={"standard": (3, 3)}))


def test_caveats_say_one_seed_and_a_short_preset():
    assert caveats(made(SUM)) == ["One seed", "the quick preset trains less than the paper preset does"]


def test_caveats_of_the_papers_protocol_count_the_seeds():
    rows = SUM | {("sum", "standard"): {"c=10": (1.0, 2.0, 3.0)}}
    assert caveats(made(rows, preset="paper")) == ["Medians of 1 to 3 seeds"]
    assert caveats(made({("sum", "standard"): {"c=10": (1.0, 2.0)}}, preset="paper")) == ["Medians of 2 seeds"]


def test_caveats_name_what_diverged_and_what_is_not_there():
    found = made(SUM, preset="paper")
    case = found.cases[0]
    record = dataclasses.replace(found.record, left_out={"GPT-2": "why"})
    found = dataclasses.replace(found, diverged=((case, 0, 3), (case, 1, 3)), record=record)
    assert caveats(found) == ["One seed", "2 trials diverged", "without GPT-2"]


# ---- the table at a glance


def test_one_row_per_task_and_model_and_one_column_per_test_set():
    (part,) = compact(made(SUM))
    assert part.names == ("task", "model")
    assert part.columns == ("validation", "c=1", "c=10")
    assert [(line.head, line.cells) for line in part.lines] == [
        (("sum", "standard"), ("1.0e-5", "2.0e-5", "100")),
        (("sum", "positional"), ("4.0e-5", "3.0e-5", "0.5")),
        (("sum", "compiled"), ("1.0e-15", "1.0e-15", "3.0e-14")),
    ]


def test_the_best_trained_model_of_a_column_is_marked():
    (part,) = compact(made(SUM))
    assert [line.best for line in part.lines] == [{0, 1}, {2}, frozenset()]


def test_models_that_are_equal_to_the_digits_shown_are_both_marked():
    rows = {("sum", arm): {"c=1": (loss,)} for arm, loss in
            (("standard", 0.1949), ("positional", 0.1904), ("homogeneous", 0.1951))}  # fmt: skip
    (part,) = compact(made(rows))
    assert [(line.cells, line.best) for line in part.lines] == [(("0.19",), {0}), (("0.19",), {0}), (("0.2",), set())]


def test_published_figures_stand_below_their_model():
    (part,) = compact(made(SUM, published=7.0))
    assert [line.published for line in part.lines] == [False, True, False, False]
    assert (part.lines[1].head, part.lines[1].cells) == (("sum", "  published"), ("7", "7", "7"))


def test_medians_are_shown_and_seeds_where_models_differ_in_them():
    rows = SUM | {("sum", "standard"): {"c=10": (1.0, 9.0, 3.0)}}
    (part,) = compact(made(rows))
    assert part.names == ("task", "model", "seeds")
    assert part.lines[0].head == ("sum", "standard", "3")
    assert part.lines[0].cells[part.columns.index("c=10")] == "3"


def test_tasks_with_other_columns_have_a_table_of_their_own():
    parts = compact(made(SUM | {("min", "standard"): {"c=3": (1.0,)}}))
    assert [part.columns for part in parts] == [("validation", "c=1", "c=10"), ("c=3",)]


def test_where_the_axis_runs_through_the_cases_columns_are_places_on_it():
    points = tuple(
        Point("sum", "standard", name, x, (x / 1000,), (), (0,)) for x in (5000.0, 1000.0) for name in ("c=1", "c=3")
    )
    (part,) = compact(made({("sum", "standard"): {}}, study="sample-complexity", points=points))
    assert (part.names, part.columns) == (("task", "model", "test set"), ("1,000", "5,000"))
    assert [line.head[-1] for line in part.lines] == ["c=1", "c=3"]
    assert part.lines[1].cells == ("1", "5")


@pytest.mark.parametrize(
    ("most", "kept"), [(2, "a e"), (3, "a c e"), (4, "a b d e"), (5, "a b c d e"), (9, "a b c d e")]
)
def test_a_narrow_table_keeps_the_first_and_the_last_column(most, kept):
    line = Line(head=("t", "m"), cells=tuple("12345"), best=frozenset({0, 1, 4}))
    part = Compact(names=("task", "model"), columns=tuple("abcde"), lines=(line,)).narrowed(most)
    assert part.columns == tuple(kept.split())
    assert part.lines[0].cells == tuple(str("abcde".index(name) + 1) for name in part.columns)
    assert {part.columns[place] for place in part.lines[0].best} == {*"abe"} & {*part.columns}


# ---- the floor


def panel(rows: dict[tuple[str, str], dict[str, tuple[float, ...]]]) -> Any:
    figure: Figure = figures.curves(made(rows))
    return figure.axes[0]


def test_what_is_computed_far_below_is_named_and_does_not_stretch_the_axis():
    drawn = panel(SUM)
    assert {line.get_label() for line in drawn.get_lines()} == {"standard", "positional"}
    assert [text.get_text() for text in drawn.texts] == ["↓ compiled: 1.0e-15 to 3.0e-14"]
    low, high = drawn.get_ylim()
    assert 1e-9 < low < 2e-5
    assert 100 < high < 1e4


def test_the_band_lies_below_every_curve():
    drawn = panel(SUM)
    (band,) = drawn.patches
    top = band.get_y() + band.get_height()  # in shares of the panel's height
    low, high = map(math.log10, drawn.get_ylim())
    assert (math.log10(2e-5) - low) / (high - low) > top > 0


def test_what_is_computed_among_the_others_is_drawn():
    near = SUM | {("sum", "compiled"): {"c=1": (1e-6,), "c=10": (1e-4,)}}
    drawn = panel(near)
    assert "compiled" in {line.get_label() for line in drawn.get_lines()}
    assert not drawn.texts


def test_a_floor_alone_is_a_curve():
    drawn = panel({key: scores for key, scores in SUM.items() if key[1] == "compiled"})
    assert {line.get_label() for line in drawn.get_lines()} == {"compiled"}
    assert not drawn.texts
