"""The report of a sweep: the best settings, the response to each field, and every setting that was tried."""

import csv as comma_separated
import io
import math
import os
from pathlib import Path
from typing import Any

from posattn import checks
from posattn.engine import Store
from posattn.errors import counted
from posattn.files import make_folder, write_whole
from posattn.html import picture, render
from posattn.report.figures import FORMATS, panels, rendered
from posattn.report.table import IN_MARKDOWN
from posattn.studies.core.case import Case
from posattn.studies.sweep.response import named, pictures
from posattn.studies.sweep.tried import Sweep, Tried
from posattn.train.changes import written

CAPTION = (
    "Best median at each value, whatever the other fields are, with a band from the lowest to the highest of its "
    "seeds; settings that were stopped early are not drawn."
)


def write_sweep(sweep: Sweep, out: str | os.PathLike[str] = "runs") -> Path:
    """Write a sweep's report below `out`/reports and return the path of its page."""
    checks.instance("sweep", sweep, Sweep, fix="pass what posattn.studies.sweep.sweep gives")
    folder = Store(out).folder / "reports" / sweep.request.name
    make_folder(folder)
    shown, arms = pictures(sweep), list(dict.fromkeys(named(case.arm, case.x) for case in sweep.cases))
    figure, narrow = panels(shown, arms), panels(shown, arms, narrow=True)
    drawn = {kind: rendered(figure, kind) for kind in FORMATS}
    for kind, content in drawn.items():
        write_whole(folder / f"curves.{kind}", content)
    write_whole(folder / "settings.csv", csv(sweep).encode())
    write_whole(folder / "table.md", markdown(sweep).encode())
    page = render(
        "sweep.html",
        study=sweep.request.study,
        preset=sweep.request.preset,
        curves=picture(CAPTION, drawn["png"], narrow=rendered(narrow, "png")),
        header=header(sweep),
        best=best_cells(sweep),
        rows=cells(sweep),
        notes=notes(sweep),
    )
    write_whole(folder / "report.html", page.encode())
    return folder / "report.html"


def header(sweep: Sweep) -> tuple[str, ...]:
    return ("task", "model", *sweep.request.space.fields, "median", "spread", "note")


def _cells(case: Case, one: Tried, fields: list[str]) -> tuple[str, ...]:
    values = [written("", one.setting[path])[1:] for path in fields]
    if one.stopped is not None:
        return (case.task, named(case.arm, case.x), *values, f"{one.median:.2e}", "–", f"stopped at step {one.stopped}")
    spread = f"{min(one.losses):.1e}…{max(one.losses):.1e}"
    lost = f"{one.diverged} of {len(one.losses)} diverged" if one.diverged else ""
    return (case.task, named(case.arm, case.x), *values, f"{one.median:.2e}", spread, lost)


def best_cells(sweep: Sweep) -> list[tuple[str, ...]]:
    """The best setting of every case, as text; where none has a finite loss, it shows –."""
    fields = list(sweep.request.space.fields)
    found = []
    for case in sweep.cases:
        best = sweep.best(case)
        none = (case.task, named(case.arm, case.x), *["–"] * (len(fields) + 2), "no setting has a finite median")
        found.append(none if best is None else _cells(case, best, fields))
    return found


def cells(sweep: Sweep) -> list[tuple[str, ...]]:
    """Every setting of every case, the best ones first, those that were stopped last."""
    fields = list(sweep.request.space.fields)
    order = {id(case): at for at, case in enumerate(sweep.cases)}
    ranked = sorted(sweep.tried, key=lambda one: (order[id(one.case)], one.stopped is not None, one.median))
    return [_cells(one.case, one, fields) for one in ranked]


def notes(sweep: Sweep) -> list[str]:
    request = sweep.request
    found = [
        f"Command: {request.command}",
        f"Each setting is judged by the median over {counted(request.seeds, 'seed')} of its loss on the set "
        "“validation” after the last step; test sets have no part in it, and no seed is left out.",
    ]
    stopped = sum(one.stopped is not None for one in sweep.tried)
    if stopped:
        verb = "was" if stopped == 1 else "were"
        found.append(
            f"{stopped} of {counted(len(sweep.tried), 'setting')} {verb} stopped early and cannot be the best."
        )
    left = {case.arm for case in request.study.chosen(request.tasks, request.preset, request.arms)}
    left -= {case.arm for case in sweep.cases}
    if left:
        found.append(f"Without any of these fields, and so left out: {', '.join(sorted(left))}.")
    return found


def rows(sweep: Sweep) -> list[dict[str, Any]]:
    """Every setting of every case for programs; None where a number is not finite."""
    best = {id(case): sweep.best(case) for case in sweep.cases}
    return [
        {
            "task": one.case.task,
            "model": one.case.arm,
            "x": one.case.x,
            "setting": one.setting,
            "median": one.median if math.isfinite(one.median) else None,
            "losses": [loss if math.isfinite(loss) else None for loss in one.losses],
            "stopped": one.stopped,
            "diverged": one.diverged,
            "best": one is best[id(one.case)],
        }
        for one in sweep.tried
    ]


def csv(sweep: Sweep) -> str:
    """Every seed's validation loss, one row each; settings that were stopped have one row without a seed."""
    text = io.StringIO()
    writer = comma_separated.writer(text, lineterminator="\n")
    fields = list(sweep.request.space.fields)
    writer.writerow(("task", "arm", "x", *fields, "seed", "loss", "stopped_at"))
    for one in sweep.tried:
        x = "" if one.case.x is None else f"{one.case.x:g}"
        head = (one.case.task, one.case.arm, x, *(written("", one.setting[path])[1:] for path in fields))
        if one.stopped is not None:
            writer.writerow((*head, "", one.median, one.stopped))
        for seed, loss in enumerate(one.losses):
            writer.writerow((*head, seed, loss, ""))
    return text.getvalue()


def markdown(sweep: Sweep) -> str:
    """The best settings, then all, as tables in Markdown."""
    lines = ["## Best settings", ""]
    for title, table in (("", best_cells(sweep)), ("## Every setting", cells(sweep))):
        lines += [title, ""] if title else []
        shown = [header(sweep), *table]
        rows = ["| " + " | ".join(cell.translate(IN_MARKDOWN) for cell in row) + " |" for row in shown]
        lines += [rows[0], f"|{'---|' * len(header(sweep))}", *rows[1:], ""]
    return "\n".join([*lines, *(f"- {note}" for note in notes(sweep))]) + "\n"
