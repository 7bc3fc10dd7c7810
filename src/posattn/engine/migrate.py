"""Stores of format 1, whose folders are named after ids of schema 1: read through a map, and moved once.

Each folder tells by its own trial which id it has now, so a move that was cut short goes on where it stopped.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path

from posattn.errors import PosattnError
from posattn.files import write_whole
from posattn.train import identity
from posattn.train.fleet.checkpoint import begun, forget


def places(folders: Iterable[Path]) -> dict[str, str]:
    """The names of trials' folders by the ids that the trials have now.

    Where two have one id, it is that of the first finished one, or of the one that has the right name already.
    """
    found: dict[str, str] = {}
    for folder in sorted(folders, key=lambda folder: (not _finished(folder), folder.name)):
        name = _id(folder)
        if name is not None and not _finished(folder.parent / name):
            found.setdefault(name, folder.name)
    return found


def move(store: Path, folders: Iterable[Path]) -> tuple[int, list[str]]:
    """Rename trials' folders to the ids that the trials have now; how many there were, and which had to stay.

    Those stay whose trial nobody has registered yet (a study's, a user's task), and those whose place is taken.
    """
    moved, left = 0, []
    for folder in folders:
        name = _id(folder)
        if name is None or not _rename(folder, store / name):
            left.append(folder.name)
            continue
        trial = store / name / "trial.json"
        text = identity.read(trial.read_bytes()).to_json().encode()
        if trial.read_bytes() != text:
            write_whole(trial, text)
            moved += 1
    return moved, left


def drop_checkpoints(checkpoints: Path) -> int:
    """Remove the checkpoints of all fleets, which older ids belong to; how many fleets there were."""
    fleets = begun(checkpoints)
    for folder in fleets:
        forget(folder)
    return len(fleets)


def _id(folder: Path) -> str | None:
    """The id of the trial in a folder, if it can be read."""
    try:
        return identity.read((folder / "trial.json").read_bytes()).id
    except (OSError, PosattnError):
        return None


def _finished(folder: Path) -> bool:
    return (folder / "metrics.json").is_file()


def _rename(folder: Path, target: Path) -> bool:
    if folder == target:
        return True
    try:
        if target.exists():
            if _finished(target) or not _finished(folder):
                return False
            shutil.rmtree(target)
        folder.rename(target)
    except FileNotFoundError:
        return target.exists()  # another process has moved it
    except OSError as error:
        raise PosattnError(
            f"cannot rename '{folder}' to '{target.name}': {error.strerror or error}. Results of older versions are "
            "moved to the names of this one: make the folder writable, or choose another one."
        ) from None
    return True
