"""How the lab ends. That SIGTERM leaves nothing behind, `serving.served` checks of every lab that tests start."""

import os
import signal
import time
from pathlib import Path

import pytest

from .serving import started

pytestmark = pytest.mark.xdist_group("lab")


def test_ctrl_c_ends_the_lab_as_other_commands_end_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """While it still imports: Ctrl-C reaches all of its processes, as a terminal sends it."""
    folder, log = tmp_path / "temporary", tmp_path / "log"
    lab = started(tmp_path / "runs", log, folder)
    while not list(folder.glob("posattn-lab-*")):
        assert lab.poll() is None, log.read_text()
        time.sleep(0.02)
    os.killpg(lab.pid, signal.SIGINT)
    assert lab.wait(20) == 130
    assert log.read_text() == "posattn: the lab has ended.\n"
    assert list(folder.iterdir()) == []
