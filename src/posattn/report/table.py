"""A study's results as a table: ours beside the published figure, with the spread over seeds and the ratio."""

import csv as comma_separated
import io
import math
from collections.abc import Sequence

from posattn.errors import counted
from posattn.studies.core.points import Point
from posattn.studies.core.results import Results

#: Of the columns, those that hold numbers: they read badly when broken into lines.
NUMBERS = ("ours", "spread", "seeds", "published", "ratio")
#: A bar in a cell would end it, and a backslash would hide what follows.
IN_MARKDOWN = str.maketrans({"|": r"\|", "\\": r"\\"})
CSV_COLUMNS = ("study", "preset", "task", "arm", "x", "test_set", "seed", "value", "published_median")


def header(results: Results) -> tuple[str, ...]:
    """The columns' names. The axis has a column where the view says so, the seeds where models differ in them."""
    view = results.study.view
    axis = (view.axis,) if view.axis_column else ()
    seeds = ("seeds",) if _counted(results) else ()
    return ("task", "model", *axis, view.column, "ours", "spread", *seeds, "published", "ratio")


def _counted(results: Results) -> bool:
    return len({point.seeds for point in results.points}) > 1


def cells(results: Results, points: Sequence[Point] | None = None) -> list[tuple[str, ...]]:
    """One row per point, as text; of those that the view puts into tables, or of others. Nothing published shows –."""
    view, several = results.study.view, _counted(results)
    return [
        (
            point.task,
            point.arm,
            *((f"{point.x:g}",) if view.axis_column else ()),
            point.test_set,
            _written(point, point.median),
            f"{_written(point, min(point.ours), 1)}…{_written(point, max(point.ours), 1)}"
            if len(set(point.ours)) > 1
            else "–",
            *((str(len(point.ours)),) if several else ()),
            "–" if point.published_median is None else _written(point, point.published_median),
            "–" if point.ratio is None else f"{point.ratio:.3g}",
        )
        for point in (view.tabled(results.preset, results.points) if points is None else points)
    ]


def every(results: Results) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """A header and a row for every point, with the figure of each seed where there are several."""
    several = any(len(point.seeds) > 1 for point in results.points)
    rows = cells(results, results.points)
    if not several:
        return header(results), rows
    seeds = [" ".join(_written(point, value) for value in point.ours) for point in results.points]
    return (*header(results), "every seed"), [(*row, held) for row, held in zip(rows, seeds, strict=True)]


def _written(point: Point, value: float, digits: int = 2) -> str:
    return f"{value:.4f}" if point.share else f"{value:.{digits}e}"


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
        for point in results.study.view.tabled(results.preset, results.points)
    ]


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def footnotes(results: Results) -> list[str]:
    """What has to be said under every table of the study."""
    seeds = results.points[0].seeds
    over = "seed 0" if len(seeds) == 1 else f"seeds 0 … {len(seeds) - 1}"
    if _counted(results) or seeds != tuple(range(len(seeds))):
        over = "the seeds that are finished"
    notes = [
        *(f"Command: {command}" for command in results.commands),
        f"Device: {', '.join(results.devices)}. Ours is the median over {over}; the spread runs from the lowest to "
        "the highest, and no seed is left out.",
    ]
    notes = [*(f"Changed: {change}." for change in results.changes), *notes]
    published = any(point.published for point in results.points)
    if results.changes and published:
        notes.append("Published figures are of the unchanged protocol: ratios compare two different experiments.")
    if results.preset != "paper" and published:
        notes.append(f"The {results.preset} preset trains less than the paper did, so absolute figures differ.")
    if results.diverged:
        lost = len(results.diverged)
        count, had = ("counts", "it") if lost == 1 else ("count", "they")
        notes.append(f"{counted(lost, 'diverged trial')} {count} with the last finite weights {had} had.")
    notes += [f"No {arm}: {why}" for arm, why in results.record.left_out.items()]
    for arm, (bad, of) in results.unparseable.items():
        infinite = any(point.arm == arm and math.isinf(point.median) for point in results.points)
        none = " Where none does, its loss is inf." if infinite else ""
        notes.append(f"{bad} of {of} answers of {arm} hold no number; the others make its figures.{none}")
    remarks = results.study.remarks()
    if results.changes and remarks:
        notes.append("What follows is said of the unchanged study.")
    return notes + remarks


def markdown(results: Results) -> str:
    """The table in Markdown."""
    names = header(results)
    rows = ["| " + " | ".join(cell.translate(IN_MARKDOWN) for cell in row) + " |" for row in (names, *cells(results))]
    lines = [rows[0], f"|{'---|' * len(names)}", *rows[1:], "", *(f"- {note}" for note in footnotes(results))]
    return "\n".join(lines) + "\n"


def csv(results: Results) -> str:
    """Every seed's figure, one row each, as comma-separated values."""
    text = io.StringIO()
    writer = comma_separated.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for point in results.points:
        head = (results.record.name, results.preset, point.task, point.arm, f"{point.x:g}", point.test_set)
        for seed, value in zip(point.seeds, point.ours, strict=True):
            writer.writerow((*head, seed, value, point.published_median))
    return text.getvalue()
