"""A study's results as a table: ours beside the published figure, with the spread over seeds and the ratio."""

import math

from posattn.studies.core.results import Point, Results

#: Of a study that follows its trials through training, the shares of all steps that its table shows.
MILESTONES = (0.0, 0.1, 0.3, 0.5, 1.0)

HEADER = ("task", "model", "test set", "ours", "spread", "published", "ratio")


def cells(results: Results) -> list[tuple[str, ...]]:
    """One row a point, as text. Nothing published shows as –."""
    layout = {"by_scale": _by_scale(results), "counted": _counted(results), "share": results.study.metric == "metric"}
    return [_row(point, **layout) for point in shown(results)]


def rows(results: Results) -> list[dict[str, str | float | None]]:
    """The table's points for programs: numbers, and none where there is none or where it is not finite."""
    return [
        {
            "task": point.task,
            "model": point.arm,
            "x": point.x,
            "test set": point.test_set,
            "ours": _finite(point.median),
            "lowest": _finite(min(point.ours)),
            "highest": _finite(max(point.ours)),
            "seeds": len(point.ours),
            "published": _finite(point.published_median),
            "ratio": _finite(point.ratio),
        }
        for point in shown(results)
    ]


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def shown(results: Results) -> list[Point]:
    """All points; of those that were followed through training, the ones at some shares of all steps."""
    if not results.study.panels(results.preset):
        return list(results.points)
    arms = dict.fromkeys(point.arm for point in results.points)
    last = {arm: max(point.x for point in results.points if point.arm == arm) for arm in arms}
    steps = {arm: {round(share * end) for share in MILESTONES} for arm, end in last.items()}
    scores = dict.fromkeys(panel.score for panel in results.study.panels(results.preset))
    return [
        point for score in scores for point in results.points if point.test_set == score and point.x in steps[point.arm]
    ]


def header(results: Results) -> tuple[str, ...]:
    """The columns' names; where the axis is not the test sets' scale, it has a column of its own.

    So has the number of seeds where models differ in it.
    """
    axis = () if _by_scale(results) else (results.study.axis,)
    seeds = ("seeds",) if _counted(results) else ()
    what = "score" if results.study.panels(results.preset) else HEADER[2]
    return (*HEADER[:2], *axis, what, *HEADER[3:5], *seeds, *HEADER[5:])


def _counted(results: Results) -> bool:
    return len({point.seeds for point in results.points}) > 1


def _by_scale(results: Results) -> bool:
    return all(case.x is None for case in results.cases) and not results.study.panels(results.preset)


def _row(point: Point, *, by_scale: bool, counted: bool, share: bool) -> tuple[str, ...]:
    published, ratio = point.published_median, point.ratio

    def written(value: float, digits: int = 2) -> str:
        return f"{value:.4f}" if share or point.test_set.startswith("cosine") else f"{value:.{digits}e}"

    ours, lowest, highest = written(point.median), written(min(point.ours), 1), written(max(point.ours), 1)
    spread = f"{lowest}…{highest}" if len(set(point.ours)) > 1 else "–"
    return (
        point.task,
        point.arm,
        *(() if by_scale else (f"{point.x:g}",)),
        point.test_set,
        ours,
        spread,
        *((str(len(point.ours)),) if counted else ()),
        "–" if published is None else written(published),
        "–" if ratio is None else f"{ratio:.3g}",
    )


def footnotes(results: Results) -> list[str]:
    """What has to be said under every table of the study."""
    notes = [
        *(f"Command: {command}" for command in results.commands),
        f"Device: {', '.join(results.devices)}. Ours is the median over {_seeds(results)}, the spread goes from the "
        "lowest to the highest of them; none is left out.",
    ]
    if results.preset != "paper":
        notes.append(f"The {results.preset} preset trains less than the paper did, so absolute figures differ.")
    if results.diverged:
        notes.append(f"{results.diverged} trials diverged and count with the weights they had before.")
    notes += [f"No {arm}: {why}" for arm, why in results.record.left_out.items()]
    for arm, (bad, of) in results.unparseable.items():
        infinite = any(point.arm == arm and math.isinf(point.median) for point in results.points)
        none = " Where none does, its loss is inf." if infinite else ""
        notes.append(f"{bad} of {of} answers of {arm} hold no number; the others make its figures.{none}")
    return notes + results.study.remarks()


def _seeds(results: Results) -> str:
    seeds = results.points[0].seeds
    if _counted(results) or seeds != tuple(range(len(seeds))):
        return "the seeds that are finished"
    return "seed 0" if len(seeds) == 1 else f"seeds 0 … {len(seeds) - 1}"


def markdown(results: Results) -> str:
    """The table in Markdown."""
    names = header(results)
    lines = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    lines += [f"| {' | '.join(row)} |" for row in cells(results)]
    return "\n".join(lines) + "\n\n" + "\n".join(f"- {note}" for note in footnotes(results)) + "\n"


def csv(results: Results) -> str:
    """Every seed's figure, one row each, as comma-separated values."""
    lines = ["study,preset,task,arm,x,test_set,seed,value,published_median"]
    for point in results.points:
        reference = "" if point.published_median is None else repr(point.published_median)
        for seed, value in zip(point.seeds, point.ours, strict=True):
            lines.append(
                f'{results.study.name},{results.preset},{point.task},"{point.arm}",{point.x:g},{point.test_set},'
                f"{seed},{value!r},{reference}"
            )
    return "\n".join(lines) + "\n"
