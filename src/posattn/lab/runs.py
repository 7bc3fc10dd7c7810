"""Runs: what lies in the store, filtered, with curves; and the report of each study."""

from pathlib import Path

from posattn import report
from posattn.checks import choice
from posattn.engine import Held, Store, listing
from posattn.errors import PosattnError, counted, require
from posattn.lab.drawing import Panel, drawn
from posattn.lab.panels import Table, panel
from posattn.lab.shown import Note, Page, Shown
from posattn.studies.core import record, results

#: Trials in the table, and of these in the picture.
MOST_ROWS, MOST_CURVES = 200, 8


def runs(store: str, words: str | None, *, note: Note) -> Shown:
    """The trials whose line holds every word of the filter, and their losses by test set and by step."""
    note("reading the store")
    held = _listed(store)
    asked = str(words or "").lower().split()[:20]
    found = [one for one in held if all(word in " ".join(_row(one)).lower() for word in asked)]
    said = f"{len(found):,} of {counted(len(held), 'trial')} below '{Path(store).name}'."
    shown = found[:MOST_ROWS]
    notes = (
        [f"The first {MOST_ROWS} are shown: filter by task, model, seed or state."] if len(found) > MOST_ROWS else []
    )
    table = Table(
        caption="Trials", header=("trial", "task", "model", "seed", "state", "losses"), rows=tuple(map(_row, shown))
    )
    note("drawing")
    panels = _panels(store, [one for one in shown if one.finished][:MOST_CURVES])
    pictures = [(f"Losses of the first {MOST_CURVES} finished trials.", drawn(*panels))] if panels else []
    return Shown((panel("Runs", [said], tables=[table], pictures=pictures, notes=notes),))


def studies(store: str, *, note: Note) -> list[str]:
    """The studies that were run."""
    return record.recorded(Store(store)) if Path(store).is_dir() else []


def study_report(store: str, name: str | None, *, note: Note) -> Shown:
    """The report of a study, from what the store holds now."""
    known = studies(store, note=note)
    require(bool(known), f"no study was run in '{Path(store).name}': start one, posattn run STUDY --out {store}.")
    choice("study", name if isinstance(name, str) else repr(name), known)
    note("reading the results")
    found = results.results(str(name), store)
    note("drawing the report")
    return Shown((Page(f"report of {name}", report.report_page(found, store)),))


def _listed(store: str) -> list[Held]:
    if not Path(store).is_dir():
        raise PosattnError(f"'{store}' is not there yet: train something, posattn train sum --out {store}.")
    return listing(Store(store))


def _row(one: Held) -> tuple[str, ...]:
    state = "finished" if one.finished else f"unfinished, step {one.step:,}"
    if not one.finished and one.steps:
        state += f" of {one.steps:,} ({one.step / one.steps:.0%})"
    state = state if one.diverged_at is None else f"diverged at step {one.diverged_at}"
    losses = ", ".join(f"{name} {'inf' if loss is None else f'{loss:.2g}'}" for name, loss in one.losses.items())
    seed = "–" if one.seed is None else str(one.seed)
    return one.trial[:12], str(one.task or "–"), str(one.model or "–"), seed, state, losses or "–"


def _panels(store: str, finished: list[Held]) -> list[Panel]:
    """Losses by step, where some were evaluated at several, and by test set."""
    if not finished:
        return []
    steps: dict[str, list[tuple[float, float]]] = {}
    names = list(dict.fromkeys(name for one in finished for name in one.losses))
    sets: dict[str, list[tuple[float, float]]] = {}
    for one in finished:
        label = f"{one.model} on {one.task}, seed {one.seed} ({one.trial[:6]})"
        sets[label] = [(names.index(name), loss) for name, loss in one.losses.items() if loss is not None]
    rows = Store(store).rows({one.trial for one in finished})
    labels = {one.trial: label for one, label in zip(finished, sets, strict=True)}
    for row in rows:
        if row["set"] == names[0] and row["loss"] is not None:
            steps.setdefault(labels[row["trial"]], []).append((row["step"], row["loss"]))
    panels = [Panel("Loss by test set", "", "loss", sets, log_x=False, ticks=tuple(names))]
    if any(len(points) > 1 for points in steps.values()):
        panels.insert(0, Panel(f"Loss on {names[0]} by step", "step", "loss", steps, log_x=False))
    return panels
