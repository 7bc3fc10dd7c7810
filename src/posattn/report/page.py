"""A study's report as one HTML page."""

from posattn.html import png, render
from posattn.report import table
from posattn.studies.core.results import Results

Captioned = tuple[str, bytes]


def page(results: Results, curves: Captioned, maps: list[Captioned], learned: list[Captioned]) -> str:
    """The report of a study. Pictures are (caption, PNG): curves, maps, and what the models have learned."""
    return render(
        "report.html",
        study=results.study,
        preset=results.preset,
        changes=[str(change) for change in results.changes],
        versions=results.versions,
        curves=_picture(*curves),
        maps=[_picture(*picture) for picture in maps],
        learned=[_picture(*picture) for picture in learned],
        header=table.header(results),
        rows=table.cells(results),
        notes=table.footnotes(results),
    )


def _picture(caption: str, picture: bytes) -> dict[str, str]:
    return {"caption": caption, "source": png(picture)}
