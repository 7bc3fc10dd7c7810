"""The files of a report: tables, figures and the page."""

import os
from pathlib import Path

from posattn import checks
from posattn.engine import Store
from posattn.files import make_folder, write_whole
from posattn.report import table
from posattn.report.figures import FORMATS, curves, rendered
from posattn.report.learned import learned
from posattn.report.maps import colour_map
from posattn.report.page import page
from posattn.studies.core.results import Results

#: A caption and a picture, by the name of its file.
Captioned = dict[str, tuple[str, bytes]]
GIVEN = "pass what posattn.studies.core.results.run gives"


def report_page(results: Results, out: str | os.PathLike[str] = "runs") -> str:
    """A study's report as one self-contained HTML page. Weights that it shows are read below `out`."""
    checks.instance("results", results, Results, fix=GIVEN)
    drawn = rendered(curves(results), "png")
    return page(results, drawn, maps=mapped(results).values(), learned=learned(results, out).values())


def mapped(results: Results) -> Captioned:
    """The study's maps: a caption and a picture by the name of its file."""
    caption = "Median over seeds, {}, one panel per model; hatched: not run there."
    return {
        f"map-{one.title}": (
            caption.format(f"{one.measure} over {one.x_label} and {one.y_label}, {one.title}"),
            rendered(colour_map(one), "png"),
        )
        for one in results.study.view.maps(results.preset, results.points)
    }


def write(results: Results, out: str | os.PathLike[str] = "runs") -> Path:
    """Write a study's report below `out`/reports and return the path of its page.

    A study with changed trials has a folder of its own, as reports/ood-scale+optimiser.lr=0.001.
    """
    checks.instance("results", results, Results, fix=GIVEN)
    folder = Store(out).folder / "reports" / results.record.name
    make_folder(folder)
    write_whole(folder / "table.md", table.markdown(results).encode())
    write_whole(folder / "figures.csv", table.csv(results).encode())
    figure = curves(results)
    drawn = {kind: rendered(figure, kind) for kind in FORMATS}
    for kind, content in drawn.items():
        write_whole(folder / f"curves.{kind}", content)
    maps, pictures = mapped(results), learned(results, out)
    for name, (_, picture) in (maps | pictures).items():
        write_whole(folder / f"{name}.png", picture)
    text = page(results, drawn["png"], maps=maps.values(), learned=pictures.values())
    write_whole(folder / "report.html", text.encode())
    return folder / "report.html"
