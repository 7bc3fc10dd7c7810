"""Tables, figures and the HTML page of a study. Nothing here is typed by hand: all of it is read from the store."""

import os
from pathlib import Path

from posattn.engine import Store
from posattn.files import make_folder, write_whole
from posattn.nn import PositionalTransformer, load
from posattn.report.figures import FORMATS, attention_map, curves, rendered
from posattn.report.page import page
from posattn.studies import table
from posattn.studies.results import Results


def write(results: Results, out: str | os.PathLike[str] = "runs") -> Path:
    """Write a study's report below `out`/reports and give back the path of its page."""
    folder = Store(out).folder / "reports" / results.study.name
    make_folder(folder)
    write_whole(folder / "table.md", table.markdown(results).encode())
    write_whole(folder / "figures.csv", table.csv(results).encode())
    figure = curves(results)
    for kind in FORMATS:
        write_whole(folder / f"curves.{kind}", rendered(figure, kind))
    caption = "Median over seeds with a band from the lowest to the highest; dashed: published."
    learned = _attention(results, out, folder)
    write_whole(folder / "report.html", page(results, (caption, rendered(figure, "png")), learned).encode())
    return folder / "report.html"


def _attention(results: Results, out: str | os.PathLike[str], folder: Path) -> list[tuple[str, bytes]]:
    """What the positional models of seed 0 have learned to read from, one picture a task."""
    pictures: list[tuple[str, bytes]] = []
    seen: set[str] = set()
    for case in results.cases:
        if case.task in seen or case.arm != "positional":
            continue
        model = load(Store(out).path(case.seeded(0)) / "weights.safetensors")
        if isinstance(model, PositionalTransformer):
            seen.add(case.task)
            caption = f"Learned attention, {case.arm} on {case.task}, seed 0: row i shows where node i reads from."
            figure = attention_map(model.attention(), f"{case.arm} on {case.task}")
            pictures.append((caption, rendered(figure, "png")))
            write_whole(folder / f"attention-{case.task}.png", pictures[-1][1])
    return pictures
