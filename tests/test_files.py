"""A file is written whole or not at all."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from posattn import PosattnError
from posattn.files import write_whole


def full_disk(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_content_arrives_byte_for_byte_and_nothing_else_does(tmp_path):
    content = bytes(range(256)) * 4099
    write_whole(tmp_path / "new", content)
    assert (tmp_path / "new").read_bytes() == content
    assert os.listdir(tmp_path) == ["new"]


def test_old_content_is_replaced_be_it_longer_or_shorter(tmp_path):
    path = tmp_path / "file"
    for content in (b"long" * 1000, b"short", b"", b"longer again"):
        write_whole(path, content)
        assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["file"]


def test_paths_may_be_strings_and_relative(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_whole("file", b"content")
    assert Path("file").read_bytes() == b"content"


def test_everyone_may_read_the_file_as_if_it_had_been_opened_and_written(tmp_path):
    write_whole(tmp_path / "file", b"content")
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("failing", ["os.fsync", "pathlib.Path.replace", "pathlib.Path.chmod"])
@pytest.mark.parametrize("existing", [True, False])
def test_a_failure_on_the_way_leaves_the_old_content_and_no_other_file(failing, existing, tmp_path, monkeypatch):
    path = tmp_path / "file"
    if existing:
        path.write_bytes(b"old")
    monkeypatch.setattr(failing, full_disk)
    with pytest.raises(PosattnError) as caught:
        write_whole(path, b"new")
    monkeypatch.undo()
    assert str(path) in str(caught.value)
    assert "No space left on device. Nothing there was changed" in str(caught.value)
    assert "free space" in str(caught.value)
    assert caught.value.__cause__ is None
    assert os.listdir(tmp_path) == (["file"] if existing else [])
    assert not existing or path.read_bytes() == b"old"


def test_an_interrupt_on_the_way_leaves_the_old_content_and_no_other_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_reader_sees_the_old_file_until_the_new_one_is_on_the_disk(tmp_path, monkeypatch):
    path, seen = tmp_path / "file", []
    path.write_bytes(b"old")
    flush, replace = os.fsync, Path.replace

    def flushing(descriptor: int) -> None:
        flush(descriptor)
        written = [child.read_bytes() for child in tmp_path.iterdir() if child != path]
        seen.append(("flush", path.read_bytes(), written))

    def replacing(source: Path, target: Path) -> Path:
        seen.append(("replace", path.read_bytes(), [source.read_bytes()]))
        return replace(source, target)

    monkeypatch.setattr(os, "fsync", flushing)
    monkeypatch.setattr(Path, "replace", replacing)
    write_whole(path, b"new")
    assert seen == [("flush", b"old", [b"new"]), ("replace", b"old", [b"new"])]
    assert path.read_bytes() == b"new"


def test_a_folder_is_never_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(PosattnError, match=r"cannot write .*folder'"):
        write_whole(tmp_path / "folder", b"content")
    assert os.listdir(tmp_path) == ["folder"]
    assert (tmp_path / "folder").is_dir()


def test_a_missing_folder_is_named_and_not_made(tmp_path):
    with pytest.raises(
        PosattnError, match=r"cannot write .*missing/file': No such file or directory.*check the folder"
    ):
        write_whole(tmp_path / "missing" / "file", b"content")
    assert os.listdir(tmp_path) == []


def test_an_error_without_a_reason_of_the_systems_still_tells_its_own(tmp_path, monkeypatch):
    def vague(_: int) -> None:
        raise OSError("the network is gone")

    monkeypatch.setattr(os, "fsync", vague)
    with pytest.raises(PosattnError, match="the network is gone"):
        write_whole(tmp_path / "file", b"content")
