"""Where results lie: one folder per trial id, holding the trial, its metrics and its final weights.

    runs/3f2a…/trial.json            what was run
    runs/3f2a…/weights.safetensors   what came out: `posattn.load` reads it
    runs/3f2a…/metrics.json          how good it is, on which device, by which version; written last

A trial is finished when its metrics are there. Every file is written whole or not at all.
"""

import dataclasses
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from posattn import checks
from posattn.engine import migrate as older
from posattn.errors import PosattnError, kind_of, require
from posattn.files import make_folder, read_json, write_json, write_whole
from posattn.nn.weights import write_weights
from posattn.train import identity
from posattn.train.runnable import Outcome, Runnable
from posattn.train.task_hash import same
from posattn.version import __version__

if TYPE_CHECKING:
    import pandas as pd

#: Raised when older versions can no longer read a store. In format 1 folders were named after ids of schema 1.
FORMAT = 2
MARKER = "store.json"
#: The files of a result, in the order in which they are written.
FILES = ("trial.json", "weights.safetensors", "metrics.json")
#: What to do where a file of a result cannot be read.
AGAIN = "remove the folder '{}' and run that trial again"


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """How a result was made. `task_source` tells what a user's task was then (`posattn.train.task_hash`)."""

    device: str
    seconds: float
    fleet: int = 1  # trials that were trained as one program …
    beside: int = 1  # … and how many such programs ran side by side
    version: str = __version__
    torch: str = str(torch.__version__)
    task_source: str | None = None


class Store:
    """The results below one folder."""

    def __init__(self, folder: str | os.PathLike[str] = "runs") -> None:
        self.folder = checks.folder("folder", folder)
        require(self.folder.is_dir() or not self.folder.exists(), f"'{self.folder}' is a file: results need a folder.")
        self.checkpoints = self.folder / "checkpoints"
        self._places: dict[str, str] | None = None

    def prepare(self) -> list[str]:
        """Make sure, before any training, that results can be written here, and that this version may do so.

        Results of an older version are moved to this version's ids. Gives back what there is to say about that.
        """
        make_folder(self.folder)
        written, left = self._marker()
        folders, self._places = self._older(written, left), None
        moved, left = older.move(self.folder, folders) if folders else (0, [])
        notes = [f"'{self.folder}': {moved} results moved to the ids of this version."] if moved else []
        dropped = older.drop_checkpoints(self.checkpoints) if 0 < written < FORMAT else 0
        if dropped:
            notes.append(
                f"'{self.folder}': {dropped} interrupted fleets of an older version cannot go on and start again."
            )
        write_json(self.folder / MARKER, {"format": FORMAT} | ({"left": left} if left else {}))
        return notes

    def _marker(self) -> tuple[int, list[str]]:
        """The store's format, 0 where it does not say so, and the names of folders that could not be moved."""
        path = self.folder / MARKER
        if not path.is_file():
            return 0, []
        held = read_json(path, "format", fix="remove that file, it holds no results")
        _check_format(self.folder, held["format"], "install that version, or choose another folder")
        left = held.get("left", [])
        return held["format"], [str(name) for name in left] if isinstance(left, list) else []

    def _older(self, written: int, left: list[str]) -> list[Path]:
        """The folders whose names may be ids of older schemas."""
        named = sorted(self.folder.glob("*/trial.json")), [self.folder / name / "trial.json" for name in left]
        return [path.parent for path in named[written >= FORMAT] if path.is_file()]

    @property
    def places(self) -> dict[str, str]:
        """Names of folders by trial id, where they are not the id itself."""
        if self._places is None:
            folders = self._older(*self._marker())
            self._places = older.places(folders) if folders else {}
        return self._places

    def path(self, trial: Runnable) -> Path:
        checks.instance("trial", trial, Runnable, fix="pass what was run, a Trial")
        return self.folder / self.places.get(trial.id, trial.id)

    def has(self, trial: Runnable) -> bool:
        """Whether there are metrics under the trial's id."""
        return (self.path(trial) / "metrics.json").is_file()

    def finished(self, trial: Runnable) -> bool:
        """Whether the trial's metrics are there. A folder of that name with another trial in it is an error."""
        folder = self.path(trial)
        if (folder / "trial.json").is_file():
            require(
                read_trial(folder / "trial.json").id == trial.id,
                f"'{folder}' holds another trial than the one with this id: move it away.",
            )
        return self.has(trial)

    def outdated(self, trial: Runnable) -> bool:
        """Whether a finished trial's task was a user's, and has changed since; a result that says nothing is not."""
        if not self.finished(trial):
            return False
        now, path = trial.task_source, self.path(trial) / "metrics.json"
        return now is not None and not same(read_json(path, fix=AGAIN.format(path.parent)).get("task_source"), now.hash)

    def write(self, trial: Runnable, outcome: Outcome, provenance: Provenance) -> None:
        """Keep a finished trial. Its metrics come last: without them it counts as never run."""
        checks.instance("outcome", outcome, Outcome, fix="pass what posattn.train.execute gives")
        checks.instance("provenance", provenance, Provenance, fix="say how it was made, Provenance(device='cpu', …)")
        self.finished(trial)
        folder = self.path(trial)
        make_folder(folder)
        write_whole(folder / "trial.json", trial.to_json().encode())
        if outcome.weights is not None and trial.architecture is not None:
            write_weights(folder / "weights.safetensors", trial.architecture, outcome.weights)
        made = dataclasses.asdict(provenance)
        if provenance.task_source is None:
            source = trial.task_source  # as it is now, where nobody has kept what it was when the run began
            made |= {} if source is None else {"task_source": source.hash}
        if made["task_source"] is None:
            del made["task_source"]
        metrics = {"format": FORMAT, "scores": outcome.scores, "diverged_at": outcome.diverged_at}
        write_json(folder / "metrics.json", metrics | made)

    def receive(self, trial: Runnable, files: Mapping[str, bytes]) -> None:
        """Keep a finished trial whose files another store has written, byte for byte, its metrics last."""
        self.finished(trial)
        folder = self.path(trial)
        make_folder(folder)
        for name in FILES:
            if name in files:
                write_whole(folder / name, files[name])

    def rows(self, ids: Collection[str] | None = None) -> list[dict[str, Any]]:
        """Every score of every finished trial (or of those with these ids), beside everything that describes it."""
        listed = ids is None or (isinstance(ids, Collection) and not isinstance(ids, str))
        require(listed, f"ids={ids!r}: give a list of trial ids, or leave it out for all.")
        names = {folder: name for name, folder in self.places.items()}
        named = [(names.get(folder.name, folder.name), folder) for folder in self.result_folders()]
        return [row for name, folder in named if ids is None or name in ids for row in scored(name, folder)]

    def result_folders(self) -> list[Path]:
        """Where the finished trials lie, under whatever names."""
        require(self.folder.is_dir(), f"'{self.folder}' is not there: no results to read.")
        return sorted(path.parent for path in self.folder.glob("*/metrics.json"))


def scored(name: str, folder: Path) -> list[dict[str, Any]]:
    """The rows of the trial in a folder, which is called `name` in them."""
    path = folder / "metrics.json"
    metrics = read_json(path, "format", "scores", fix=AGAIN.format(path.parent))
    _check_format(path, metrics["format"], "install that version to read it")
    scores = metrics["scores"]
    listed = isinstance(scores, list)
    require(listed, f"'{path}' cannot be read (its scores are {kind_of(scores)}): {AGAIN.format(path.parent)}.")
    for at, score in enumerate(scores):
        known = isinstance(score, dict) and isinstance(score.get("set"), str) and type(score.get("step")) is int
        numbers = known and all(type(score.get(kind)) in (int, float, type(None)) for kind in ("loss", "metric"))
        require(
            numbers,
            f"'{path}' cannot be read (score {at} is {str(score)[:80]}, and it must have a set, a step, a loss and a "
            f"metric): {AGAIN.format(path.parent)}.",
        )
    described = _flat(read_json(folder / "trial.json", fix=AGAIN.format(path.parent)))
    run = {name: value for name, value in metrics.items() if name not in ("format", "scores")}
    return [{"trial": name} | described | run | score for score in scores]


def frame(folder: str | os.PathLike[str] = "runs") -> "pd.DataFrame":
    """All results below a folder as one tidy table: a row for each trial, test set and evaluated step."""
    import pandas as pd

    return pd.DataFrame(Store(folder).rows())


def read_trial(path: Path) -> Runnable:
    """The trial that a file describes."""
    read_json(path, fix=AGAIN.format(path.parent))
    try:
        return identity.read(path.read_bytes())
    except PosattnError as error:
        raise PosattnError(f"'{path}' cannot be read ({error}): {AGAIN.format(path.parent)}.") from None


def _check_format(path: Path, written: Any, mend: str) -> None:
    require(
        isinstance(written, int) and written <= FORMAT,
        f"'{path}' was written by a newer version of posattn (format {written}, this one has {FORMAT}): {mend}.",
    )


def _flat(described: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"model": {"layers": 4}} becomes {"model.layers": 4}; lists, test sets' options and the schema are left out."""
    flat: dict[str, Any] = {}
    for name, value in described.items():
        if name == "schema" and not prefix:
            continue
        if isinstance(value, dict) and name != "sets":
            flat |= _flat(value, f"{prefix}{name}.")
        elif not isinstance(value, (dict, list)):
            flat[f"{prefix}{name}"] = value
    return flat
