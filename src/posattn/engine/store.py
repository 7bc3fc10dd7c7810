"""Where results lie: one folder a trial id, holding the trial, its metrics and its final weights.

    runs/3f2a…/trial.json            what was run
    runs/3f2a…/weights.safetensors   what came out: `posattn.load` reads it
    runs/3f2a…/metrics.json          how good it is, on which device, by which version; written last

A trial is finished when its metrics are there. Every file is written whole or not at all.
"""

import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from posattn import checks, tasks
from posattn.engine import older
from posattn.errors import PosattnError, kind_of, require
from posattn.files import make_folder, write_whole
from posattn.nn.functional import Params
from posattn.nn.weights import write_weights
from posattn.tasks.source import same, source_hash
from posattn.train import Trial, identity

if TYPE_CHECKING:
    import pandas as pd

#: Raised when older versions can no longer read a store. In format 1 folders were named after ids of schema 1.
FORMAT = 2
MARKER = "store.json"
#: The entry of metrics that tells what a user's task was when the result was made (`posattn.tasks.source`).
SOURCE = "task_source"


@runtime_checkable
class Kept(Protocol):
    """What a store can hold the results of: a trial, of a fleet or of another kind."""

    @property
    def id(self) -> str: ...

    def to_json(self) -> str: ...


class Store:
    """The results below one folder."""

    def __init__(self, folder: str | os.PathLike[str] = "runs") -> None:
        self.folder = checks.folder("folder", folder)
        require(self.folder.is_dir() or not self.folder.exists(), f"'{self.folder}' is a file: results need a folder.")
        self._places: dict[str, str] | None = None

    def prepare(self) -> list[str]:
        """Make sure, before any training, that results can be written here, and that this version may do so.

        Results of an older version are moved to this version's ids. Gives back what there is to say about that.
        """
        make_folder(self.folder)
        written, left = self._marker()
        folders = self._older(written, left)
        self._places = None
        moved, left = older.move(self.folder, folders)
        notes = [f"'{self.folder}': {moved} results moved to the ids of this version."] if moved else []
        dropped = older.drop_checkpoints(self.checkpoints) if 0 < written < FORMAT else 0
        if dropped:
            notes.append(
                f"'{self.folder}': {dropped} interrupted fleets of an older version cannot go on and start again."
            )
        marker = {"format": FORMAT} | ({"left": left} if left else {})
        write_whole(self.folder / MARKER, json.dumps(marker).encode())
        return notes

    def _marker(self) -> tuple[int, list[str]]:
        """The store's format, 0 where it does not say so, and the names of folders that could not be moved."""
        path = self.folder / MARKER
        if not path.is_file():
            return 0, []
        held = _read(path, "format", mend="remove that file, it holds no results")
        _check_format(self.folder, held["format"], "install that version, or choose another folder")
        left = held.get("left", [])
        return held["format"], [str(name) for name in left] if isinstance(left, list) else []

    def _older(self, written: int, left: list[str]) -> list[Path]:
        """The folders whose names may be ids of older schemas."""
        if written < FORMAT:
            return older.trial_folders(self.folder)
        return [self.folder / name for name in left if (self.folder / name / "trial.json").is_file()]

    @property
    def places(self) -> dict[str, str]:
        """Names of folders by trial id, where they are not the id itself."""
        if self._places is None:
            self._places = older.places(self._older(*self._marker()))
        return self._places

    def path(self, trial: Kept) -> Path:
        checks.instance("trial", trial, Kept, fix="pass what was run, a Trial")
        return self.folder / self.places.get(trial.id, trial.id)

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    def has(self, trial: Kept) -> bool:
        """Whether there are metrics under the trial's id."""
        return (self.path(trial) / "metrics.json").is_file()

    def finished(self, trial: Kept) -> bool:
        """Whether the trial's metrics are there. A folder of that name with another trial in it is an error."""
        folder = self.path(trial)
        if (folder / "trial.json").is_file():
            require(
                read_trial(folder / "trial.json").id == trial.id,
                f"'{folder}' holds another trial than the one with this id: move it away.",
            )
        return self.has(trial)

    def outdated(self, trial: Trial) -> bool:
        """Whether a finished trial's task was a user's, and has changed since; a result that says nothing is not."""
        if not self.finished(trial):
            return False
        now = task_source(trial)
        if now is None:
            return False
        return not same(_read(self.path(trial) / "metrics.json").get(SOURCE), now)

    def write(self, trial: Kept, weights: Params | None, metrics: dict[str, Any]) -> None:
        """Keep a finished trial. Its metrics come last: without them it counts as never run."""
        folder = self.path(trial)
        if weights is not None:
            checks.instance("weights", weights, dict, fix="pass a model's tensors by name, model.state_dict()")
        checks.instance("metrics", metrics, dict, fix="pass what is to be kept by name, as {'scores': []}")
        self.finished(trial)
        make_folder(folder)
        write_whole(folder / "trial.json", trial.to_json().encode())
        if isinstance(trial, Trial) and weights is not None:
            write_weights(folder / "weights.safetensors", trial.model, weights)
        source = task_source(trial) if isinstance(trial, Trial) else None
        about = {"format": FORMAT} | ({SOURCE: source} if source is not None else {})
        write_whole(folder / "metrics.json", json.dumps(about | metrics).encode())

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
    metrics = _read(path, "format", "scores")
    _check_format(path, metrics["format"], "install that version to read it")
    _check_scores(path, metrics["scores"])
    described = _flat(_read(folder / "trial.json"))
    run = {name: value for name, value in metrics.items() if name not in ("format", "scores")}
    return [{"trial": name} | described | run | score for score in metrics["scores"]]


def trial_id(folder: Path) -> str:
    """The id of the trial in a folder; its name, where the trial is of a task or a kind that is not registered here."""
    held = _read(folder / "trial.json")
    kind, task = held.get("kind", identity.PLAIN), held.get("task")
    known = kind in identity.KINDS and not (isinstance(task, str) and task not in tasks.REGISTRY)
    return read_trial(folder / "trial.json").id if known else folder.name


def task_source(trial: Trial) -> str | None:
    """What a trial's task is now, where it is a user's (`posattn.tasks.source`)."""
    return source_hash(tasks.get(trial.task, **trial.task_options))


def frame(folder: str | os.PathLike[str] = "runs") -> "pd.DataFrame":
    """All results below a folder as one tidy table: a row for each trial, test set and evaluated step."""
    import pandas as pd

    return pd.DataFrame(Store(folder).rows())


def _read(path: Path, *entries: str, mend: str | None = None) -> dict[str, Any]:
    """The JSON object in a file, which must have these entries; `mend` says what to do where it has not."""
    mend = mend or f"remove the folder '{path.parent}' and run that trial again"
    try:
        held = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:  # no JSON, no text at all, or nested without end
        raise PosattnError(f"'{path}' cannot be read ({error}): {mend}.") from None
    require(isinstance(held, dict), f"'{path}' cannot be read ({kind_of(held)}, no object): {mend}.")
    for entry in entries:
        require(entry in held, f"'{path}' cannot be read (it has no '{entry}'): {mend}.")
    return held


def read_trial(path: Path) -> Any:
    """The trial that a file describes."""
    _read(path)
    try:
        return identity.read(path.read_bytes())
    except PosattnError as error:
        raise PosattnError(
            f"'{path}' cannot be read ({error}): remove the folder '{path.parent}' and run that trial again."
        ) from None


def _check_scores(path: Path, scores: Any) -> None:
    mend = f"remove the folder '{path.parent}' and run that trial again"
    require(isinstance(scores, list), f"'{path}' cannot be read (its scores are {kind_of(scores)}): {mend}.")
    for at, score in enumerate(scores):
        known = isinstance(score, dict) and isinstance(score.get("set"), str) and _whole(score.get("step"))
        numbers = known and all(score.get(name) is None or _number(score[name]) for name in ("loss", "metric"))
        require(
            numbers,
            f"'{path}' cannot be read (score {at} is {str(score)[:80]}, and it must have a set, a step, a loss and a "
            f"metric): {mend}.",
        )


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


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
