"""Tables, figures and the HTML page of a study. Nothing here is typed by hand: all of it is read from the store."""

import os
import re
from pathlib import Path

from torch import Tensor

from posattn import checks
from posattn.engine import Store
from posattn.files import make_folder, write_whole
from posattn.nn import PositionalTransformer, Selector, load
from posattn.report.figures import FORMATS, attention_map, curves, rendered, weight_maps
from posattn.report.page import page
from posattn.studies.core import table
from posattn.studies.core.results import Results
from posattn.train.streams import stream


def write(results: Results, out: str | os.PathLike[str] = "runs") -> Path:
    """Write a study's report below `out`/reports and give back the path of its page."""
    checks.instance("results", results, Results, fix="pass what posattn.studies.core.results.run gives")
    folder = Store(out).folder / "reports" / results.study.name
    make_folder(folder)
    write_whole(folder / "table.md", table.markdown(results).encode())
    write_whole(folder / "figures.csv", table.csv(results).encode())
    figure = curves(results)
    for kind in FORMATS:
        write_whole(folder / f"curves.{kind}", rendered(figure, kind))
    computed = any(not case.trial.trained for case in results.cases)
    dotted = "; dotted: computed, not trained" if computed else ""
    caption = f"Median over seeds with a band from the lowest to the highest; dashed: published{dotted}."
    learned = _learned(results, out)
    for name, (_, picture) in learned.items():
        write_whole(folder / f"{name}.png", picture)
    shown = page(results, (caption, rendered(figure, "png")), list(learned.values()))
    write_whole(folder / "report.html", shown.encode())
    return folder / "report.html"


def _learned(results: Results, out: str | os.PathLike[str]) -> dict[str, tuple[str, bytes]]:
    """What the models of seed 0 have learned: a caption and a picture by the name of its file.

    Of positional models one picture per task; of selectors all.
    """
    pictures: dict[str, tuple[str, bytes]] = {}
    for case in results.cases:
        path = Store(out).path(case.seeded(0)) / "weights.safetensors"
        if not path.is_file():  # a store that was passed on without weights
            continue
        what, name = f"{case.arm} on {case.task}", f"attention-{case.task}"
        if case.arm == "positional" and name not in pictures:
            model = load(path)
            if isinstance(model, PositionalTransformer):
                caption = f"Learned attention, {what}, seed 0: row i shows where node i reads from."
                pictures[name] = caption, rendered(attention_map(model.attention(), what), "png")
        elif isinstance(case.trial.architecture, Selector) and results.study.panels(results.preset):
            caption = (
                f"Weights before and after training, {what}, seed 0. W has a column for every dimension of e_query, "
                "V a row for every output; lines part tokens from positions."
            )
            sizes = case.trial.architecture
            figure = weight_maps(_before_and_after(sizes, path), what, dim=sizes.dim)
            pictures["weights-" + re.sub(r"[^\w=]+", "-", case.arm)] = caption, rendered(figure, "png")
    return pictures


def _before_and_after(sizes: Selector, path: Path) -> dict[str, Tensor]:
    """W and V of a selector, as drawn for seed 0 and as trained."""
    found: dict[str, Tensor] = {}
    shown = 4 * sizes.dim  # columns of V: a picture of all would not show the few that matter
    for when, held in (("start", sizes.init(stream(0, "weights"))), ("end", load(path).weights())):
        matrices = sizes.matrices({name: tensor.unsqueeze(0) for name, tensor in held.items()})
        found |= {f"W, {when}": matrices[0][0], f"V, {when}, first {shown} columns": matrices[1][0, :, :shown]}
    return dict(sorted(found.items(), key=lambda entry: (entry[0][0] == "V", "end" in entry[0])))
