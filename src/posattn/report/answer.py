"""The answer to a study's question in one sentence, and what to bear in mind when reading it."""

import math
from collections.abc import Sequence
from dataclasses import replace

from posattn.errors import counted
from posattn.studies.core.points import Point
from posattn.studies.core.results import Results
from posattn.studies.core.sentence import listed


def answer(results: Results) -> str:
    """The study's own sentence, made of the rows of trained models; of what is computed where nothing was trained.

    Models that diverged are named and not compared: a ratio to what they lose would say nothing.
    """
    computed = {case.arm for case in results.cases if not case.trial.trained}
    trained = [point for point in results.points if point.arm not in computed] or list(results.points)
    lost = diverged(results, trained)
    if not lost:
        return results.study.sentence(trained)
    gone = {_model(results, point) for point in lost}
    left = [point for point in trained if _model(results, point) not in gone]
    if not left:
        return "Every model diverged, so there is nothing to compare."
    return f"{results.study.sentence(left)} {_named(results, lost)}"


def diverged(results: Results, points: Sequence[Point]) -> list[Point]:
    """Of the points that decide, those of models of which half the seeds or more diverged, or ended as if they had."""
    view = results.study.view
    marked = [_marked(results, point) for point in points if point.arm not in results.unparseable]
    decisive = view.decisive(marked) or marked
    return [point for point in decisive if not point.median < view.most]


def _marked(results: Results, point: Point) -> Point:
    """The same with inf for the seeds that diverged: what they score is that of their last finite weights."""
    lost = {
        seed
        for case, seed, _ in results.diverged
        if case.arm == point.arm
        and point.task in {place.panel or case.task for place in case.placed()}
        and (case.x is None or case.x == point.x)
    }
    scores = zip(point.seeds, point.ours, strict=True)
    return replace(point, ours=tuple(math.inf if seed in lost else value for seed, value in scores)) if lost else point


def _model(results: Results, point: Point) -> tuple[str, str, float | None]:
    """What was trained: where the axis runs through the cases, every place on it is a model of its own."""
    return point.task, point.arm, point.x if results.study.view.across == "x" else None


def _named(results: Results, lost: Sequence[Point]) -> str:
    """As in: “standard” diverged on sum and sort."""
    found = []
    for arm in dict.fromkeys(point.arm for point in lost):
        mine = [point for point in lost if point.arm == arm]
        where = f" on {listed(list(dict.fromkeys(point.task for point in mine)))}"
        if results.study.view.across == "x":
            places = ", ".join(f"{x:,g}" for x in sorted({point.x for point in mine}))
            where += f" ({results.study.view.axis}: {places})"
        found.append(f"“{arm}” diverged{where}")
    return f"{'; '.join(found)}."


def caveats(results: Results) -> list[str]:
    """What makes the answer weaker: few seeds, a short preset, changes, and models that diverged or are not there."""
    counts = sorted({len(point.seeds) for point in results.points})
    several = f"{counts[0]} to {counts[-1]} seeds" if len(counts) > 1 else counted(counts[0], "seed")
    found = ["One seed" if counts == [1] else f"Medians of {several}"]
    if results.preset == "smoke":
        found.append("the smoke preset only shows that everything runs")
    elif results.preset != "paper":
        whose = "the paper did" if any(point.published for point in results.points) else "the paper preset does"
        found.append(f"the {results.preset} preset trains less than {whose}")
    if results.changes:
        found.append(f"{counted(len(results.changes), 'setting')} changed")
    if results.diverged:
        found.append(f"{counted(len(results.diverged), 'trial')} diverged")
    if results.record.left_out:
        found.append(f"without {', '.join(results.record.left_out)}")
    return found
