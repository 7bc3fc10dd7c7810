"""A study's report as one HTML page."""

from collections.abc import Iterable

from posattn.errors import counted
from posattn.html import csv, picture, render
from posattn.report import table
from posattn.report.answer import answer, caveats
from posattn.report.compact import compact
from posattn.report.figures import curves, rendered
from posattn.studies.core.results import Results

Captioned = tuple[str, bytes]


def page(results: Results, drawn: bytes, *, maps: Iterable[Captioned], learned: Iterable[Captioned]) -> str:
    """The report of a study. Pictures are PNGs: its curves; maps and what was learned with captions."""
    every, caption = table.every(results), "Median over seeds with a band from the lowest to the highest"
    if any(point.published for point in results.points):
        caption += "; dashed: published"
    if any(not case.trial.trained for case in results.cases):
        caption += "; dotted, or ↓ where it is far below: computed, not trained"
    return render(
        "report.html",
        study=results.study,
        preset=results.preset,
        changes=[str(change) for change in results.changes],
        versions=results.versions,
        curves=picture(f"{caption}.", drawn, narrow=rendered(curves(results, narrow=True), "png")),
        maps=[picture(*one) for one in maps],
        learned=[picture(*one) for one in learned],
        answer=answer(results),
        caveats=caveats(results),
        compact=compact(results),
        axis=results.study.view.axis if results.study.view.across == "x" else None,
        measure=results.study.view.measure,
        every=every,
        rows=counted(len(every[1]), "row"),
        csv=csv(table.csv(results)),
        file=f"{results.record.name}.csv",
        notes=table.footnotes(results),
    )
