"""How the lab ends. That SIGTERM leaves nothing behind, `serving.served` checks of every lab that tests start."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from posattn.lab import serve

from .serving import started

pytestmark = pytest.mark.xdist_group("lab")


def test_ctrl_c_ends_the_lab_as_other_commands_end_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """While it still imports: Ctrl-C reaches all of its processes, as a terminal sends it."""
    folder, log = tmp_path.parent / "ended", tmp_path / "log"  # sockets have short names
    lab = started(tmp_path / "runs", log, folder)
    while not list(folder.glob("posattn-lab-*")):
        assert lab.poll() is None, log.read_text()
        time.sleep(0.02)
    os.killpg(lab.pid, signal.SIGINT)
    assert lab.wait(20) == 130
    assert log.read_text() == "posattn: the lab has ended.\n"
    assert list(folder.iterdir()) == []


def test_temporary_files_in_a_folder_with_a_name_too_long_for_sockets_are_refused_in_one_line(tmp_path: Path) -> None:
    folder, log = tmp_path / ("long" * 20), tmp_path / "log"
    lab = started(tmp_path / "runs", log, folder)
    assert lab.wait(60) == 2
    assert log.read_text().startswith(f"posattn: the folder for temporary files, {folder}")
    assert log.read_text().count("\n") == 1


def test_a_ctrl_c_that_something_swallows_is_remembered() -> None:
    before = signal.getsignal(signal.SIGINT)
    with serve._terminable() as asked:
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)  # while it ends already
    assert [type(one) for one in asked] == [KeyboardInterrupt]
    assert signal.getsignal(signal.SIGINT) is before
