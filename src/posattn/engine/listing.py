"""Which trials a store holds: those that are finished, with their scores, and those that were begun."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from posattn import checks
from posattn.engine.store import Store, read_trial, scored
from posattn.train.fleet.checkpoint import begun, described, newest


@dataclass(frozen=True, kw_only=True)
class Held:
    """One trial of a store. One that is not finished stands at the step of its newest checkpoint, and has no losses."""

    trial: str
    folder: str  # in the store: of the result, or of the checkpoints. Where an older version wrote it, not the id
    finished: bool
    step: int
    steps: int | None = None  # of all that it takes, where that is known
    task: str | None = None
    model: str | None = None  # or the kind of what is computed, as compiled
    trained: bool = True  # or computed: its scores take no training
    seed: int | None = None
    diverged_at: int | None = None
    losses: dict[str, float | None] = field(default_factory=dict)  # by test set, after the last step; none: not finite


def listing(store: Store) -> list[Held]:
    """Every trial, the finished ones first."""
    checks.instance("store", store, Store, fix="open one, posattn.engine.Store('runs')")
    names = {folder: name for name, folder in store.places.items()}
    found = [
        _finished(names.get(folder.name, folder.name), folder.name, rows)
        for folder in store.result_folders()
        if (rows := _checked(folder))
    ]
    finished = {one.trial for one in found}
    for folder, ids in begun(store.checkpoints).items():
        about, step = described(folder), newest(folder)
        for trial in ids:
            if trial not in finished:
                fields = about.get(trial)
                what = _what(fields, fields["model"]) if fields is not None else {}
                place = str(folder.relative_to(store.folder))
                found.append(Held(trial=trial, folder=place, finished=False, step=step, **what))
    return found


def _what(trial: dict[str, Any], model: dict[str, Any]) -> dict[str, Any]:
    homogeneous = model["kind"] == "positional" and model.get("bias") is False
    named = "homogeneous" if homogeneous else str(model.get("factory") or model["kind"])
    optimiser = trial.get("optimiser")  # in a flat row its fields stand beside the others
    steps = optimiser.get("steps") if isinstance(optimiser, dict) else trial.get("optimiser.steps")
    return {"task": trial.get("task"), "model": named, "seed": trial.get("seed"), "steps": steps}


def _checked(folder: Path) -> list[dict[str, Any]]:
    """A trial's scores. All that is not the description of one is left to `read_trial`, which says so."""
    rows = scored(folder.name, folder)
    if rows and not {"task", "kind"} & rows[0].keys():
        read_trial(folder / "trial.json")
    return rows


def _finished(trial: str, folder: str, rows: list[dict[str, Any]]) -> Held:
    about, last = rows[0], max(row["step"] for row in rows)
    # The model's fields, or its name where it is a language model, or none where nothing was trained.
    named = about.get("model.kind", about.get("model"))
    model = {"kind": named or about.get("kind"), "bias": about.get("model.bias")}
    model["factory"] = about.get("model.factory")  # of a user's module
    return Held(
        trial=trial,
        folder=folder,
        finished=True,
        step=last,
        **_what(about, model),
        trained=named is not None,
        diverged_at=about.get("diverged_at"),
        losses={row["set"]: row["loss"] for row in rows if row["step"] == last},
    )
