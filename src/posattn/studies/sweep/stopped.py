"""What is kept of fleets that a sweep stopped early: validation losses up to there, by trial id and step.

They are no results, so the store does not hold them; the sweep's own file does, so that none of them begins again.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posattn.engine import Log, Store
from posattn.files import make_folder, write_json
from posattn.train.runnable import Runnable

Losses = dict[int, float]


class Heard(Log):
    """Notes the losses of one test set, of every trial at every step that has them."""

    def __init__(self, test_set: str) -> None:
        self.test_set = test_set
        self.losses: dict[str, Losses] = {}

    def scores(self, trial: Runnable, step: int, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            if row["set"] == self.test_set:
                loss = math.inf if row["loss"] is None else row["loss"]
                self.losses.setdefault(trial.id, {})[step] = loss


def _path(store: Store, name: str) -> Path:
    return store.folder / "sweeps" / f"{name}.json"


def write(store: Store, name: str, stopped: Mapping[str, Losses]) -> None:
    path = _path(store, name)
    make_folder(path.parent)
    write_json(path, {trial: _plain(losses) for trial, losses in stopped.items()})


def _plain(losses: Losses) -> dict[str, float | None]:
    """JSON knows no infinity: it becomes None."""
    return {str(step): loss if math.isfinite(loss) else None for step, loss in losses.items()}


def read(store: Store, name: str) -> dict[str, Losses]:
    """Nothing where there is no such file, or none that can be read: these fleets then begin anew."""
    try:
        held = json.loads(_path(store, name).read_bytes())
        return {
            str(trial): {int(step): math.inf if loss is None else float(loss) for step, loss in losses.items()}
            for trial, losses in held.items()
        }
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}
