"""A study's answer, from rows made by hand: what the sentence says can be worked out on paper."""

import math

import pytest

from posattn import studies
from posattn.studies.core.points import Point
from posattn.studies.core.sentence import Versus, compared, ranked


def points(rows: dict[tuple[str, str], dict[str, float]], *, share: bool = False) -> list[Point]:
    """(task, arm): scores by test set, of which c=10 stands at 10; validation is in tables alone."""
    return [
        Point(
            task, arm, name, float(name[2:] if name[:2] == "c=" else 0), (value,), (), (0,),
            drawn=name != "validation", share=share,
        )
        for (task, arm), scores in rows.items()
        for name, value in scores.items()
    ]  # fmt: skip


BOTH = {
    ("sum", "standard"): {"validation": 1.0, "c=1": 1.0, "c=10": 104.0},
    ("sum", "positional"): {"validation": 9.0, "c=1": 3.0, "c=10": 2.0},
    ("sort", "standard"): {"validation": 1.0, "c=1": 1.0, "c=10": 690.0},
    ("sort", "positional"): {"validation": 9.0, "c=1": 3.0, "c=10": 1.0},
    ("sort", "homogeneous"): {"validation": 9.0, "c=1": 3.0, "c=10": 0.5},
}


def said(study: str, rows: dict[tuple[str, str], dict[str, float]], *, share: bool = False) -> str:
    return studies.get(study).sentence(points(rows, share=share))


def test_ood_scale_compares_both_models_at_the_largest_scale():
    expected = "At ten times the training range the standard model's loss is 52 to 690 times the positional one's"
    assert said("ood-scale", BOTH) == f"{expected} on sum and sort."


def test_one_task_gives_one_ratio():
    rows = {key: scores for key, scores in BOTH.items() if key[0] == "sum"}
    assert said("ood-scale", rows).endswith("the standard model's loss is 52 times the positional one's on sum.")


def test_where_one_arm_is_there_the_sentence_says_what_there_is():
    rows = {key: scores for key, scores in BOTH.items() if key[1] == "standard"}
    assert said("ood-scale", rows) == (
        "At ten times the training range “standard” has a loss of 104 to 690 on sum and sort."
    )


def test_a_task_without_one_of_the_arms_does_not_count():
    rows = {key: scores for key, scores in BOTH.items() if key != ("sum", "positional")}
    assert said("ood-scale", rows).endswith("is 690 times the positional one's on sort.")


def test_the_last_place_is_the_last_that_both_have():
    rows = {("sum", "standard"): {"c=1": 8.0, "c=3": 9.0}, ("sum", "positional"): {"c=1": 2.0}}
    assert said("ood-scale", rows) == (
        "At the training range the standard model's loss is 4 times the positional one's on sum."
    )


def test_shares_are_compared_as_they_are():
    rows = {("sum", "standard"): {"c=10": 0.021}, ("sum", "positional"): {"c=10": 0.875}}
    assert said("accuracy", rows, share=True) == (
        "At ten times the training range the standard model's accuracy is 2.1 %, the positional one's 87.5 % on sum."
    )


@pytest.mark.parametrize(("usual", "other"), [(math.inf, 1.0), (1.0, 0.0)])
def test_a_ratio_that_does_not_exist_is_not_written(usual, other):
    rows = {("sum", "standard"): {"c=10": usual}, ("sum", "positional"): {"c=10": other}}
    text = said("ood-scale", rows)
    assert "times the positional" not in text
    assert f"loss is {usual:g}, the positional one's {other:g}" in text


def test_a_study_without_two_arms_names_the_best_and_how_far_the_worst_is():
    rows = {("sum", "M0"): {"c=10": 0.5}, ("sum", "M1"): {"c=10": 0.25}, ("sum", "M2"): {"c=10": 4.0}}
    assert said("ablation", rows) == (
        "At ten times the training range the lowest loss is that of “M1”, 0.25; the highest is that of “M2”, 16 times "
        "as high."
    )
    more = rows | {("min", "M0"): {"c=10": 1.0}, ("min", "M1"): {"c=10": 0.5}}
    assert said("ablation", more) == (
        "At ten times the training range the lowest loss is that of “M1” on 2 of 2 tasks; the highest is 2 to 16 times "
        "as high."
    )


def test_where_everything_diverged_the_sentence_says_so():
    rows = {("sum", "M0"): {"c=10": math.inf}, ("sum", "M1"): {"c=10": math.inf}}
    assert said("ablation", rows) == "At ten times the training range no model has a finite loss."


def test_more_than_five_tasks_are_counted():
    rows = {(f"t{i}", arm): {"c=2": value} for i in range(6) for arm, value in (("a", 4.0), ("b", 2.0))}
    found = compared(points(rows), Versus(usual="a", other="b"), at="At {x}", measure="loss")
    assert found == "At 2 the a model's loss is 2 times the b one's on 6 tasks."


def test_the_best_of_shares_is_the_highest():
    rows = {("sum", "a"): {"c=2": 0.25}, ("sum", "b"): {"c=2": 0.75}}
    found = ranked(points(rows, share=True), at="At {x}", measure="accuracy")
    assert found == "At 2 the highest accuracy is that of “b”, 75 %; the lowest is that of “a”, 25 %."


def through(rows: dict[tuple[str, str, int], float]) -> list[Point]:
    return [Point("selection", arm, name, float(step), (v,), (), (0,)) for (arm, name, step), v in rows.items()]


def test_sts_length_compares_the_encodings_on_the_longest_inputs_at_the_end():
    fixed, stochastic = "fixed near-orthogonal", "stochastic"
    rows = {(fixed, "validation", 8): 9.0, (fixed, "T=18", 4): 5.0, (fixed, "T=18", 8): 3.0}
    rows |= {(stochastic, "validation", 8): 9.0, (stochastic, "T=18", 4): 5.0, (stochastic, "T=18", 8): 0.25}
    assert studies.get("sts-length").sentence(through(rows)) == (
        "At T=18 the fixed near-orthogonal model's loss is 12 times the stochastic one's on selection."
    )


def test_sts_heatmap_compares_the_blocks_that_survive_with_the_others():
    rows = {("stochastic", f"norm {block}", 8): value for block, value in
            {"W tokens": 0.5, "W positions": 4.0, "V tokens": 6.0, "V positions": 2.0}.items()}  # fmt: skip
    assert studies.get("sts-heatmap").sentence(through(rows)) == (
        "At the end of training W positions is 8 times as large as W tokens and V tokens is 3 times as large as "
        "V positions."
    )


def test_sts_fcn_gives_every_models_lowest_loss_and_its_width():
    made = [Point("selection", "deep", "loss", x, (v,), (), (0,)) for x, v in ((5.0, 0.5), (50.0, 0.25), (100.0, 0.3))]
    made += [Point("selection", "selector", "loss", 21.0, (0.002,), (), (0,))]
    assert studies.get("sts-fcn").sentence(made) == (
        "The lowest loss is 0.25 for “deep” (width 50) and 2.0e-3 for “selector” (width 21)."
    )


def test_bounds_vs_gap_counts_the_curves_on_which_both_move_alike():
    made = []
    for arm, gaps, bounds in (("standard", (4.0, 2.0), (400.0, 100.0)), ("positional", (1.0, 2.0), (30.0, 20.0))):
        for x, gap, bound in zip((1.0, 2.0), gaps, bounds, strict=True):
            made += [Point("sum by layers", arm, "gap", x, (gap,), (), (0,))]
            made += [Point("sum by layers", arm, "bound", x, (bound,), (), (0,))]
    assert studies.get("bounds-vs-gap").sentence(made) == (
        "From one end of its axis to the other, the bound moves the same way as the measured gap in 1 of 2 curves, and "
        "is 10 to 100 times as large."
    )


def test_length_scale_compares_all_symmetry_with_none_at_the_largest_size():
    def at(task: str, arm: str, x: float, value: float, *, drawn: bool = True) -> Point:
        return Point(task, arm, f"length {x:g}", x, (value,), (), (0,), drawn=drawn)

    made = [at("sort", "scale + shift", 8, 1e-3), at("sort", "scale + shift", 64, 1e-3)]
    made += [at("sort", "scale + shift, polished", 64, 2e-7), at("sort", "no symmetry", 64, 0.5)]
    made += [at("max-subarray", "scale, wide state", 64, 0.01), at("max-subarray", "no symmetry", 64, 2.0)]
    made += [at("sort", "no symmetry", 1000, 99.0, drawn=False)]
    assert studies.get("length-scale").sentence(made) == (
        "At size 64, trained on up to 8, the error of models with their task's symmetry is 1.0e-3 to 0.01 of the "
        "answer, without symmetry 0.5 to 2."
    )


@pytest.mark.parametrize(("step", "said"), [(1, "After 1 step the"), (8, "After 8 steps the")])
def test_one_step_is_no_steps(step, said):
    made = through({("one-hot", "validation", step): 0.25, ("stochastic", "validation", step): 0.5})
    assert studies.get("sts-convergence").sentence(made).startswith(said)


def test_khop_ood_is_about_held_out_letters():
    made = [
        Point("khop", arm, name, x, (value,), (), (0,))
        for arm, x, name, value in (
            ("standard", 3.0, "validation", 1.0), ("standard", 3.0, "held-out letters", 8.0),
            ("positional", 3.0, "held-out letters", 4.0), ("positional", 6.0, "held-out letters", 1.0),
        )
    ]  # fmt: skip
    assert studies.get("khop-ood").sentence(made) == (
        "On held-out letters, with 3 layers, the standard model's loss is 2 times the positional one's on khop."
    )


def test_sts_convergence_is_about_the_loss_and_not_about_a_share():
    made = through({("one-hot", "validation", 8): 0.25, ("stochastic", "validation", 8): 0.5})
    cosines = [Point("selection", "one-hot", "cosine W", 8.0, (0.9,), (), (0,), share=True)]
    assert studies.get("sts-convergence").sentence([*cosines, *made]) == (
        "After 8 steps the lowest loss is that of “one-hot”, 0.25; the highest is that of “stochastic”, 2 times as "
        "high."
    )


def test_sts_ood_compares_the_encodings_on_the_longest_inputs_that_both_have():
    rows = {("fixed near-orthogonal", 15): 4.0, ("fixed near-orthogonal", 18): 6.0, ("one-hot", 12): 9.0}
    rows |= {("stochastic", 15): 1.0, ("stochastic", 18): 2.0}
    made = [Point("by length T", arm, f"T={x}", float(x), (v,), (), (0,)) for (arm, x), v in rows.items()]
    made += [Point("by subset size q", arm, "q=3", 3.0, (1.0,), (), (0,)) for arm, _ in rows]
    assert studies.get("sts-ood").sentence(made) == (
        "At T=18 the fixed near-orthogonal model's loss is 3 times the stochastic one's on selection."
    )
