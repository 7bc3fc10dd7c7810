"""A study's results at a glance: one row per task and model, one column per test set, medians alone."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from posattn.studies.core.points import Point
from posattn.studies.core.results import Results
from posattn.studies.core.sentence import brief

#: A row without its figures: its task, its model, and where columns are places on the axis its test set.
Key = tuple[str, str, str]


@dataclass(frozen=True, kw_only=True)
class Line:
    """One row: what it is of, its figures, and the columns in which it is the best trained model of its task."""

    head: tuple[str, ...]
    cells: tuple[str, ...]
    published: bool = False
    best: frozenset[int] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Compact:
    """Tasks that share their columns. `names` are those of the heads, `columns` those of the figures."""

    names: tuple[str, ...]
    columns: tuple[str, ...]
    lines: tuple[Line, ...]

    def narrowed(self, most: int) -> "Compact":
        """The same with so many columns at most: the first, the last, and others evenly between them."""
        if len(self.columns) <= most:
            return self
        last, gaps = len(self.columns) - 1, max(1, most - 1)
        kept = sorted({round(step * last / gaps) for step in range(gaps + 1)})[-max(1, most) :]
        lines = tuple(
            Line(
                head=line.head,
                cells=tuple(line.cells[place] for place in kept),
                published=line.published,
                best=frozenset(at for at, place in enumerate(kept) if place in line.best),
            )
            for line in self.lines
        )
        return Compact(names=self.names, columns=tuple(self.columns[place] for place in kept), lines=lines)


def compact(results: Results) -> list[Compact]:
    """The table, in as many parts as tasks have different columns."""
    view, over_x = results.study.view, results.study.view.across == "x"
    points = view.summarised(results.points)
    counted = len({len(point.seeds) for point in points}) > 1
    held: dict[str, dict[Key, dict[str, Point]]] = {}
    for point in points:
        key = (point.task, point.arm, point.test_set if over_x else "")
        column = f"{point.x:,g}" if over_x else point.test_set
        held.setdefault(point.task, {}).setdefault(key, {})[column] = point
    computed = {case.arm for case in results.cases if not case.trial.trained}
    parts: dict[tuple[str, ...], list[Line]] = {}
    for task, rows in held.items():
        columns = tuple(dict.fromkeys(column for row in rows.values() for column in row))
        if over_x:
            columns = tuple(sorted(columns, key=lambda column: float(column.replace(",", ""))))
        lines = parts.setdefault(columns, [])
        lines.extend(_lines(rows, columns, over_x=over_x, counted=counted, computed=computed))
        if results.record.left_out and not over_x:
            lines.extend(_out_of_reach(results, task, columns, counted=counted))
    names = ("task", "model", *((view.column,) if over_x else ()), *(("seeds",) if counted else ()))
    return [Compact(names=names, columns=columns, lines=tuple(lines)) for columns, lines in parts.items()]


def _lines(
    rows: dict[Key, dict[str, Point]], columns: Sequence[str], *, over_x: bool, counted: bool, computed: set[str]
) -> list[Line]:
    """The rows of one task, each followed by its published figures."""
    found = []
    for key, row in rows.items():
        beside = ((key[2],) if over_x else ()) + ((str(len(next(iter(row.values())).seeds)),) if counted else ())
        rivals = [other for name, other in rows.items() if name[2] == key[2] and name[1] not in computed]
        compares = len(rivals) > 1 and row in rivals
        best = frozenset(p for p, column in enumerate(columns) if compares and _is_best(column, row, rivals))
        cells = tuple(_cell(row.get(column)) for column in columns)
        found.append(Line(head=(*key[:2], *beside), cells=cells, best=best))
        if any(point.published for point in row.values()):
            cells = tuple(_cell(row.get(column), published=True) for column in columns)
            blank = beside[:1] if over_x else ()
            head = (key[0], "  published", *blank, *(("",) if counted else ()))
            found.append(Line(head=head, cells=cells, published=True))
    return found


def _out_of_reach(results: Results, task: str, columns: Sequence[str], *, counted: bool) -> list[Line]:
    """The published figures of models that could not be had here; the footnotes say why."""
    found = []
    for case in results.study.cases_of(task, results.preset):
        if case.arm in results.record.left_out and case.published:
            losses = [case.published.get(column) for column in columns]
            cells = tuple(brief(statistics.median(of)) if of else "–" for of in losses)
            head = (task, f"{case.arm}, published (weights not available)", *(("",) if counted else ()))
            found.append(Line(head=head, cells=cells, published=True))
    return found


def _is_best(column: str, row: dict[str, Point], rivals: Sequence[dict[str, Point]]) -> bool:
    """Whether no other row of the task is better in a column, to the digits that are shown.

    Higher is better for shares, lower for losses.
    """
    if column not in row or not math.isfinite(row[column].median):
        return False
    others = [other[column] for other in rivals if column in other]
    best = (max if row[column].share else min)(others, key=lambda point: point.median)
    return _cell(row[column]) == _cell(best)


def _cell(point: Point | None, *, published: bool = False) -> str:
    value = None if point is None else point.published_median if published else point.median
    if point is None or value is None:
        return "–"
    return f"{value:.3f}" if point.share else brief(value)
