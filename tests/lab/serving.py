"""A lab in a process of its own, and its HTTP API as any program would use it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple


class Answer(NamedTuple):
    """The last event of a call, complete or error, and what came with it."""

    event: str
    data: Any

    @property
    def said(self) -> str:
        """All the text of an answer."""
        return self.data if isinstance(self.data, str) else json.dumps(self.data, ensure_ascii=False)


class Served(NamedTuple):
    """Where a lab is, and the id of its process."""

    address: str
    process: int


@contextmanager
def served(store: Path, log: Path) -> Iterator[Served]:
    """A lab on a store. SIGTERM ends it; it leaves no stack trace in its log, and no temporary file."""
    folder = log.parent / "temporary"
    server = started(store, log, folder)
    try:
        yield Served(_announced(log, server), server.pid)
    finally:
        server.terminate()
        server.wait(20)
    assert (server.returncode, list(folder.iterdir())) == (128 + signal.SIGTERM, [])
    assert "Traceback" not in log.read_text(), log.read_text()[-4000:]


def started(store: Path, log: Path, folder: Path) -> "subprocess.Popen[bytes]":
    """A lab that is starting, with its own folder for temporary files, and a process group of its own."""
    folder.mkdir()
    command = [sys.executable, "-m", "posattn", "lab", "--no-browser", "--out", str(store)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": str(folder)}
    with log.open("w") as out:
        return subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment, start_new_session=True)


def _announced(log: Path, server: "subprocess.Popen[bytes]") -> str:
    """The address that the lab prints when the page is there."""
    for _ in range(1200):
        found = re.search(r"http://127\.0\.0\.1:\d+", log.read_text())
        if found:
            return found[0]
        assert server.poll() is None, log.read_text()
        time.sleep(0.1)
    raise AssertionError(f"no address within two minutes: {log.read_text()}")


def call(address: str, name: str, inputs: list[Any], *, seconds: float = 60.0) -> Answer:
    """Call one of the lab's functions. An answer that is not there in time raises."""
    body = json.dumps({"data": inputs}).encode()
    head = {"Content-Type": "application/json"}
    url = f"{address}/gradio_api/call/{name}"
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, head), timeout=seconds) as response:
            ticket = json.load(response)["event_id"]
        with urllib.request.urlopen(f"{url}/{ticket}", timeout=seconds) as response:
            lines = response.read().decode().splitlines()
    except urllib.error.HTTPError as error:
        return Answer("error", error.read().decode(errors="replace"))
    events = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    return Answer(events[-1], json.loads(data[-1]))
