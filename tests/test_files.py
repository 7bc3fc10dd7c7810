"""A file is written whole or not at all."""

import errno
import os
import pty
import socket
import stat
import threading
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


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_has_the_permissions_that_the_umask_leaves(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        write_whole(tmp_path / "file", b"content")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode


def test_an_old_file_keeps_its_permissions(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o640)
    write_whole(path, b"new")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", 0o640)


def test_a_file_that_may_not_be_written_is_not_replaced(tmp_path, monkeypatch):
    """Renaming over it would be allowed: that takes the folder's permission alone."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "access", lambda asked, kind: not (Path(asked) == path and kind == os.W_OK))
    with pytest.raises(PosattnError, match=r"cannot write .*Permission denied"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("relative", [True, False])
@pytest.mark.parametrize("existing", [True, False])
def test_a_link_stays_and_what_it_points_to_is_written(tmp_path, existing, relative):
    target, link, above = tmp_path / "there" / "file", tmp_path / "link", tmp_path / "above"
    target.parent.mkdir()
    if existing:
        target.write_bytes(b"old")
    link.symlink_to("there/file" if relative else target)
    above.symlink_to(link)
    for path, content in ((link, b"new"), (above, b"newer")):
        write_whole(path, content)
        assert link.is_symlink()
        assert above.is_symlink()
        assert target.read_bytes() == content
    assert sorted(os.listdir(tmp_path)) == ["above", "link", "there"]
    assert os.listdir(target.parent) == ["file"]


def test_a_link_to_itself_is_refused(tmp_path):
    (tmp_path / "link").symlink_to("link")
    with pytest.raises(PosattnError, match=r"cannot write .*symbolic link"):
        write_whole(tmp_path / "link", b"content")
    assert (tmp_path / "link").is_symlink()


def test_a_fifo_is_written_to_and_stays_one(tmp_path):
    path, content = tmp_path / "fifo", bytes(range(256)) * 1024  # more than a pipe holds
    os.mkfifo(path)
    with pytest.raises(PosattnError, match=r"fifo': nobody reads from it. Start the reader first"):
        write_whole(path, b"content")
    kept = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # one that is there, whenever the other comes
    arrived: list[bytes] = []
    reading = threading.Thread(target=lambda: arrived.append(path.read_bytes()))
    reading.start()
    write_whole(path, content)
    reading.join(10)
    os.close(kept)
    assert arrived == [content]
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert os.listdir(tmp_path) == ["fifo"]


def test_a_reader_that_leaves_is_an_error_in_one_line(tmp_path, monkeypatch):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    reader, opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK), os.set_blocking

    def leaving(descriptor: int, wanted: bool) -> None:
        opened(descriptor, wanted)
        os.close(reader)

    monkeypatch.setattr(os, "set_blocking", leaving)
    with pytest.raises(PosattnError, match=r"cannot write to .*Broken pipe. Part of the content may have arrived"):
        write_whole(path, b"content")


@pytest.mark.parametrize("linked", [False, True])
def test_a_character_device_is_written_to_and_stays_one(tmp_path, linked):
    """A terminal's: nobody has to be root to have one, and nothing can be made or replaced in its folder."""
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    path = Path(os.ttyname(theirs))
    if linked:
        (tmp_path / "link").symlink_to(path)
    write_whole(tmp_path / "link" if linked else path, b"content")
    assert os.read(ours, 100) == b"content"
    assert stat.S_ISCHR(path.stat().st_mode)
    os.close(ours)
    os.close(theirs)


def test_a_full_device_is_an_error_in_one_line(monkeypatch):
    monkeypatch.setattr(Path, "replace", None)  # it must stay whatever becomes of the code under test
    with pytest.raises(PosattnError, match=r"cannot write to '/dev/full': No space left on device"):
        write_whole("/dev/full", b"content")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_a_socket_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a socket's whole path must be short
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")
        with pytest.raises(PosattnError, match=r"'socket': it is a block device or a socket.*Name another file"):
            write_whole("socket", b"content")
        assert stat.S_ISSOCK(os.stat("socket").st_mode)


def test_the_file_that_output_goes_to_is_not_replaced(capfd):
    """`posattn … --html page > page`, or --html /dev/stdout: what is printed afterwards would be lost."""
    for descriptor in (1, 2):
        with pytest.raises(PosattnError, match="what this command prints goes there"):
            write_whole(f"/dev/fd/{descriptor}", b"content")


def test_a_name_as_long_as_names_may_be_is_written(tmp_path):
    path = tmp_path / ("é" * 127)
    write_whole(path, b"content")
    assert path.read_bytes() == b"content"


@pytest.mark.parametrize(
    ("failing", "existing"),
    [(name, old) for name in ("os.fsync", "pathlib.Path.replace") for old in (True, False)]
    + [("pathlib.Path.chmod", True)],
)
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
