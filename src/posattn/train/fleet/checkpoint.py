"""Checkpoints of a fleet: where it stood, in files that are written whole.

A fleet's checkpoints lie in a folder named after its trial ids, one file each, named after the step. At least the two
newest are kept, so that a damaged one costs only the steps since the one before it. Beside them lies the list of the
fleet's trials from its first step on: some of them may be finished and stored when the fleet is interrupted, and it
ends bit for bit where it would have only when it is put together again whole. (That holds on one machine. Another CPU
or GPU rounds differently, and on the CPU the number of cores decides which replicas share a product.)
"""

import contextlib
import hashlib
import json
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch

from posattn.errors import PosattnError, require
from posattn.files import make_folder, read_json, write_json, write_whole
from posattn.nn.initial_weights import Params
from posattn.train.fleet.fleet import Fleet
from posattn.train.trial import Trial

FORMAT = 1
KEPT = 2
#: The files beside the checkpoints: one lists the fleet's trials, one describes them for people, and one tells what the
#: tasks that are users' own were when the fleet began.
TRIALS, DESCRIBED, SOURCES = "trials.json", "described.json", "sources.json"


class Checkpoints:
    """The checkpoints of one fleet below a folder."""

    def __init__(self, folder: Path, fleet: Fleet) -> None:
        self.fleet = fleet
        self.ids = [trial.id for trial in fleet.trials]
        self.folder = place(folder, self.ids)

    def begin(self, sources: dict[str, str] | None = None) -> None:
        """Say which trials this fleet has, before any of them is finished, and what their tasks are, by trial id."""
        announce(self.folder, self.fleet.trials, sources)

    def files(self) -> list[Path]:
        """Oldest first."""
        return sorted(self.folder.glob("*.safetensors"), key=lambda path: path.name)

    def write(self, notes: dict[str, Any]) -> Path:
        """Save the fleet as it stands, with `notes` that the caller wants back, then drop what is no longer needed."""
        make_folder(self.folder)
        header = {
            "posattn-checkpoint": str(FORMAT),
            "trials": json.dumps(self.ids),
            "step": str(self.fleet.step),
            "notes": json.dumps(notes),
        }
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.fleet.state().items()}
        header["digest"] = _digest(header, tensors)
        path = self.folder / f"{self.fleet.step:012d}.safetensors"
        write_whole(path, safetensors.torch.save(tensors, metadata=header))
        _drop_older(path)
        return path

    def restore(self) -> dict[str, Any] | None:
        """Bring the fleet to its newest readable checkpoint and give back its notes; None where there is none."""
        for path in reversed(self.files()):
            try:
                return self._read(path)
            except (PosattnError, safetensors.SafetensorError, OSError, KeyError, ValueError, RecursionError) as error:
                warnings.warn(f"checkpoint '{path}' cannot be used ({error}): trying the one before it.", stacklevel=2)
        return None

    def _read(self, path: Path) -> dict[str, Any]:
        with safetensors.safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no dict)
        require(header.get("posattn-checkpoint") == str(FORMAT), "it has another format")
        require(_digest(header, state) == header.get("digest"), "its content is not what was written")
        require(json.loads(header["trials"]) == self.ids, "it belongs to other trials")
        notes = json.loads(header["notes"])
        self.fleet.restore(state, int(header["step"]))
        return notes

    def remove(self) -> None:
        """Forget the checkpoints of a finished fleet."""
        forget(self.folder)


def place(folder: Path, ids: Sequence[str]) -> Path:
    """Where the checkpoints of a fleet of these trials lie, below a folder."""
    return folder / hashlib.sha256(" ".join(ids).encode()).hexdigest()[:16]


def announce(folder: Path, trials: Sequence[Trial], sources: dict[str, str] | None = None) -> None:
    """Say which trials the fleet of a folder has, and what their tasks are, by trial id."""
    make_folder(folder)
    write_json(folder / DESCRIBED, {trial.id: json.loads(trial.to_json()) for trial in trials})
    if sources:
        write_json(folder / SOURCES, sources)
    write_json(folder / TRIALS, [trial.id for trial in trials])


def receive(folder: Path, name: str, content: bytes) -> None:
    """Keep a checkpoint that was written elsewhere, under the same name."""
    make_folder(folder)
    write_whole(folder / name, content)
    _drop_older(folder / name)


def _drop_older(newest: Path) -> None:
    """Remove what is no longer needed once a checkpoint is written.

    Those of later steps could not be used, or the fleet would stand there: they must not count among the newest.
    """
    files = sorted(newest.parent.glob("*.safetensors"), key=lambda path: path.name)
    useful = [file for file in files if file.name <= newest.name][-KEPT:]
    for file in files:
        if file not in useful:
            file.unlink(missing_ok=True)


def begun(folder: Path) -> dict[Path, list[str]]:
    """The trial ids of every fleet below a folder that was begun and has not ended, by where its checkpoints lie."""
    fleets = {}
    for path in sorted(folder.glob(f"*/{TRIALS}")):
        try:
            fleets[path.parent] = [str(trial) for trial in json.loads(path.read_bytes())]
        except (OSError, ValueError, TypeError, RecursionError):
            continue  # as if it had not been begun: its trials are sorted into fleets anew
    return fleets


def described(folder: Path) -> dict[str, Any]:
    """What the trials of a begun fleet are, by id; nothing where that cannot be read."""
    return _beside(folder / DESCRIBED)


def sources(folder: Path) -> dict[str, Any]:
    """What the tasks of a begun fleet's trials were, by trial id, where they are users' own."""
    return _beside(folder / SOURCES)


def _beside(path: Path) -> dict[str, Any]:
    try:
        return read_json(path, fix="it is written anew")
    except PosattnError:
        return {}


def newest(folder: Path) -> int:
    """The step of the newest checkpoint in a fleet's folder; 0 where there is none yet."""
    return max((int(path.stem) for path in folder.glob("*.safetensors") if path.stem.isdecimal()), default=0)


def forget(folder: Path) -> None:
    """Remove a fleet's checkpoints, the list of its trials last: cut short, what is left is found and removed later."""
    with contextlib.suppress(OSError):
        for path in folder.glob("*"):
            if path.name != TRIALS:
                path.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def _digest(header: dict[str, str], tensors: Params) -> str:
    """A hash of all that a checkpoint says: a file can be whole and still not be what was written."""
    said = {name: text for name, text in header.items() if name != "digest"}
    found = hashlib.sha256(json.dumps(said, sort_keys=True).encode())
    for name in sorted(tensors):
        found.update(name.encode())
        found.update(tensors[name].numpy().tobytes())
    return found.hexdigest()
