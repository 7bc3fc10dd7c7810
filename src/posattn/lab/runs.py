"""Runs: what lies in the store, filtered, with curves; and the report of each study."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from posattn import report
from posattn.checks import choice
from posattn.engine import Held, Store, listing
from posattn.errors import PosattnError, plural, require
from posattn.lab.panels import Drawn, Table, panel
from posattn.lab.shown import Note, Page, Shown
from posattn.report import figures
from posattn.studies import REGISTRY
from posattn.studies.core import record, results
from posattn.studies.core.points import Picture, Point, over_places, scored

#: Trials in the table, and of these in the picture.
MOST_ROWS, MOST_CURVES = 200, 8
NUMBER = re.compile(r"\d+(\.\d+)?")
#: What scores on the samples of training are called: no test.
TRAINING = "train"


def runs(store: str, words: str | None, *, note: Note) -> Shown:
    """The trials whose line holds every word of the filter, and their losses by test set and by step."""
    note("reading the store")
    held = _listed(store)
    asked = str(words or "").lower().split()[:20]
    found = [one for one in held if all(word in " ".join(_row(one)).lower() for word in asked)]
    said = f"{len(found):,} of {len(held):,} {plural(len(held), 'trial')} below '{Path(store).name}'."
    shown = found[:MOST_ROWS]
    notes = (
        [f"The first {MOST_ROWS} are shown: filter by task, model, seed or state."] if len(found) > MOST_ROWS else []
    )
    table = Table(
        caption="Trials", header=("trial", "task", "model", "seed", "state", "losses"), rows=tuple(map(_row, shown))
    )
    note("drawing")
    finished = [one for one in shown if one.finished and any(loss is not None for loss in one.losses.values())]
    pictures = [drawn(store, finished[:MOST_CURVES], caption=_caption(finished))] if finished else []
    return Shown((panel("Runs", [said], tables=[table], pictures=pictures, notes=notes),))


def studies(store: str, *, note: Note) -> list[str]:
    """The studies that were run."""
    return record.recorded(Store(store)) if Path(store).is_dir() else []


def study_report(store: str, name: str | None, *, note: Note) -> Shown:
    """The report of a study, from what the store holds now."""
    known = studies(store, note=note)
    require(bool(known), f"no study was run in '{Path(store).name}': start one, posattn run STUDY --out {store}.")
    choice("study", name if isinstance(name, str) else repr(name), known)
    require(
        str(name).partition("+")[0] in REGISTRY,
        f"'{name}' is a study of your own, and the lab imports no files of yours: open "
        f"{Path(store) / 'reports' / str(name) / 'report.html'}, which posattn run wrote.",
    )
    note("reading the results")
    found = results.results(str(name), store)
    note("drawing the report")
    return Shown((Page(f"report of {name}", report.report_page(found, store)),))


def _listed(store: str) -> list[Held]:
    if not Path(store).is_dir():
        raise PosattnError(f"'{store}' is not there yet: train something, posattn train sum --out {store}.")
    return listing(Store(store))


def _row(one: Held) -> tuple[str, ...]:
    state = "finished" if one.finished else _progress(one)
    state = state if one.diverged_at is None else f"diverged at step {one.diverged_at}"
    losses = ", ".join(f"{name} {'inf' if loss is None else f'{loss:.2g}'}" for name, loss in one.losses.items())
    seed = "–" if one.seed is None else str(one.seed)
    return one.trial[:12], str(one.task or "–"), str(one.model or "–"), seed, state, losses or "–"


def _caption(finished: list[Held]) -> str:
    first = f"the first {MOST_CURVES}" if len(finished) > MOST_CURVES else "all"
    computed = any(not one.trained for one in finished[:MOST_CURVES])
    dotted = " Dotted, or ↓ where it is far below: computed, not trained." if computed else ""
    return f"Losses of {first} finished trials.{dotted}"


def _progress(one: Held) -> str:
    """How far an unfinished trial is. Of the steps since its last checkpoint the store knows nothing."""
    if not one.step:
        return "unfinished, no checkpoint yet"
    share = f" of {one.steps:,} ({one.step / one.steps:.0%})" if one.steps else ""
    return f"unfinished; as of the last checkpoint, step {one.step:,}{share}"


def drawn(store: str, finished: list[Held], *, caption: str) -> Drawn:
    """Losses by step, of trials that were evaluated at several, and by test set, as reports draw them."""
    labels = _labels(finished)
    every = sorted({name for one in finished for name in one.losses}, key=place)
    names = [name for name in every if name != TRAINING] or every
    rows = Store(store).rows(set(labels))
    steps = [_point(labels[row["trial"]], row["step"], row["loss"]) for row in rows if row["set"] == names[0]]
    sets = [
        _point(labels[one.trial], names.index(name), loss)
        for one in finished
        for name, loss in one.losses.items()
        if name in names
    ]
    pictures = [_picture("Loss by test set", sets, ticks=names)]
    several = Counter(point.arm for point in steps if math.isfinite(point.median))
    followed = [point for point in steps if several[point.arm] > 1]
    if followed:
        pictures.insert(0, _picture(f"Loss on {names[0]} by step", followed))
    computed = {labels[one.trial] for one in finished if not one.trained}
    dotted = computed if len(computed) < len(labels) else set[str]()
    wide, narrow = (figures.panels(pictures, list(labels.values()), dotted=dotted, narrow=n) for n in (False, True))
    return Drawn(caption, wide, narrow)


def place(name: str) -> tuple[bool, str, float, str]:
    """Where a test set stands on the axis: by the number in its name, as c=2 before c=10, and first without one."""
    found = NUMBER.search(name)
    return (False, "", 0.0, name) if found is None else (True, name[: found.start()], float(found[0]), name)


def _labels(finished: list[Held]) -> dict[str, str]:
    """What the trials are, by id; where two are alike, with the beginning of the id."""
    found = {one.trial: f"{one.model} on {one.task}, seed {one.seed}" for one in finished}
    alike = Counter(found.values())
    return {trial: label if alike[label] == 1 else f"{label} ({trial[:6]})" for trial, label in found.items()}


def _point(label: str, x: float, loss: float | None) -> Point:
    return Point("", label, "", x, (scored(loss),), (), (0,))


def _picture(title: str, points: list[Point], ticks: Sequence[str] = ()) -> Picture:
    """Losses of every trial over test sets, or over steps where none are named; what is not finite has no place."""
    finite = [point for point in points if math.isfinite(point.median)]
    axis = "test set" if ticks else "step"
    made = over_places(title, finite, axis=axis, measure="loss", by_test_set=False, log=True)
    return replace(made, log_x=False, ticks=tuple(range(len(ticks))), tick_labels=tuple(ticks))
