"""Every argument of every public function, class and method: one wrong value at a time, one `PosattnError`."""

from pathlib import Path

import pytest

from posattn import PosattnError, encodings

from .calls import CALLS, small, sorter, study_in
from .spoil import call, cases, tells
from .values import Bad, File, bad_files
from .walk import public

PUBLIC = public()
CASES = [case for name, function in PUBLIC.items() if name in CALLS for case in cases(name, function, CALLS[name]())]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that hold models, files that hold none, and a finished study."""
    folder = tmp_path_factory.mktemp("shelf")
    small().save(folder / "good.safetensors")
    sorter().save(folder / "sorter.safetensors")
    bad_files(folder, (folder / "good.safetensors").read_bytes())
    study_in(folder / "studied")
    return folder


@pytest.fixture
def here(tmp_path: Path, shelf: Path, monkeypatch: pytest.MonkeyPatch, as_users_run_it: None) -> Path:
    """An empty folder to work in. What is registered in a test is forgotten after it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(encodings, "REGISTRY", dict(encodings.REGISTRY))
    for name in ("good.safetensors", "sorter.safetensors", "studied"):
        (tmp_path / name).symlink_to(shelf / name)
    return tmp_path


@pytest.mark.parametrize("name", [name for name in PUBLIC if name in CALLS])
def test_the_valid_call_works(name: str, here: Path) -> None:
    call(name, PUBLIC[name], CALLS[name]())


@pytest.mark.parametrize(("name", "parameter", "bad"), CASES, ids=[f"{n}-{p}-{b.label}" for n, p, b in CASES])
def test_a_wrong_value_is_one_error_that_names_it(name: str, parameter: str, bad: Bad, here: Path, shelf: Path) -> None:
    value = bad.value.below(shelf) if isinstance(bad.value, File) else bad.value
    with pytest.raises(PosattnError) as refused:
        call(name, PUBLIC[name], CALLS[name]() | {parameter: value})
    assert not tells(str(refused.value), bad), str(refused.value)
