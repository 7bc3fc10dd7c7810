"""A shelf of good and bad files, and a folder to work in."""

from pathlib import Path

import numpy as np
import pytest

from posattn import encodings, tasks
from posattn.compile import library
from posattn.studies.core import study

from .calls import SMALL, model, sorter, study_in
from .values import bad_files


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that hold models, files that hold none, and a finished study."""
    folder = tmp_path_factory.mktemp("shelf")
    model(**SMALL, bias=False).save(folder / "good.safetensors")
    sorter().verify(samples=1).save(folder / "sorter.safetensors")
    bad_files(folder, (folder / "good.safetensors").read_bytes())
    study_in(folder / "studied")
    np.savez(folder / "data.npz", x=np.zeros((5, 4, 1)), y=np.ones((5, 4, 1)))
    (folder / "mine.py").write_text("")
    return folder


@pytest.fixture
def here(tmp_path: Path, shelf: Path, monkeypatch: pytest.MonkeyPatch, as_users_run_it: None) -> Path:
    """A folder to work in, with what the shelf has. What is registered in a test is forgotten after it."""
    monkeypatch.chdir(tmp_path)
    for registering in (encodings, tasks, study):
        monkeypatch.setattr(registering, "REGISTRY", dict(registering.REGISTRY))
    monkeypatch.setattr(library, "PROGRAMS", dict(library.PROGRAMS))
    for path in shelf.iterdir():
        (tmp_path / path.name).symlink_to(path)
    return tmp_path
