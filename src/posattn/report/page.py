"""A study's report as one HTML page."""

from posattn.errors import counted
from posattn.html import csv, picture, render
from posattn.report import table
from posattn.report.answer import answer, caveats
from posattn.report.compact import compact
from posattn.studies.core.results import Results

Captioned = tuple[str, bytes]


def page(
    results: Results, curves: bytes, *, narrow: bytes, caption: str, maps: list[Captioned], learned: list[Captioned]
) -> str:
    """The report of a study. Pictures are PNGs: curves, wide and narrow; maps and what was learned with captions."""
    every = table.every(results)
    return render(
        "report.html",
        study=results.study,
        preset=results.preset,
        changes=[str(change) for change in results.changes],
        versions=results.versions,
        curves=picture(caption, curves, narrow=narrow),
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
