"""Checkpoints of a fleet: where it stood, in files that are written whole.

A fleet's checkpoints lie in a folder named after its trial ids, one file each, named after the step. At least the two
newest are kept, so that a damaged one costs only the steps since the one before it.
"""

import hashlib
import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch

from posattn.errors import PosattnError, require
from posattn.files import make_folder, write_whole
from posattn.train.fleet import Fleet

FORMAT = 1
KEPT = 2


class Checkpoints:
    """The checkpoints of one fleet below a folder."""

    def __init__(self, folder: Path, fleet: Fleet) -> None:
        self.fleet = fleet
        self.ids = [trial.id for trial in fleet.trials]
        key = hashlib.sha256(" ".join(self.ids).encode()).hexdigest()[:16]
        self.folder = folder / key

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
        path = self.folder / f"{self.fleet.step:012d}.safetensors"
        write_whole(path, safetensors.torch.save(tensors, metadata=header))
        for old in self.files()[:-KEPT]:
            old.unlink(missing_ok=True)
        return path

    def restore(self) -> dict[str, Any] | None:
        """Bring the fleet to its newest readable checkpoint and give back its notes; None where there is none."""
        for path in reversed(self.files()):
            try:
                return self._read(path)
            except (PosattnError, safetensors.SafetensorError, OSError, KeyError, ValueError) as error:
                warnings.warn(f"checkpoint '{path}' cannot be used ({error}): trying the one before it.", stacklevel=2)
        return None

    def _read(self, path: Path) -> dict[str, Any]:
        with safetensors.safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no dict)
        require(header.get("posattn-checkpoint") == str(FORMAT), "it has another format")
        require(json.loads(header["trials"]) == self.ids, "it belongs to other trials")
        notes = json.loads(header["notes"])
        self.fleet.restore(state, int(header["step"]))
        return notes

    def remove(self) -> None:
        """Forget the checkpoints of a finished fleet."""
        shutil.rmtree(self.folder, ignore_errors=True)
