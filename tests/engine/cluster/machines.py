"""A Ray cluster of several nodes on this machine, bound to its loopback, and a driver that runs trials on it."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .driver import STEPS

#: Ray takes 127.0.0.1 for the machine's own address; this one it leaves alone.
ADDRESS = "127.0.0.2"
NODE: dict[str, Any] = {"node_ip_address": ADDRESS, "object_store_memory": 100_000_000}
DRIVER = Path(__file__).with_name("driver.py")
#: Seconds that a run may take on a machine that others use too.
PATIENCE = 240.0


def environment() -> dict[str, str]:
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1", "RAY_OBJECT_STORE_ALLOW_SLOW_STORAGE": "1"}
    return os.environ | quiet


@contextmanager
def cluster(nodes: int) -> Iterator[Any]:
    """So many nodes of one CPU beside a head that has none. All of Ray's processes end with it, whatever happens."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_OBJECT_STORE_ALLOW_SLOW_STORAGE"] = "1"
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 (Ray's spelling; 15 by default)
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **NODE})
    try:
        for _ in range(nodes):
            add_node(made)
        yield made
    finally:
        made.shutdown()


def add_node(made: Any, **resources: Any) -> Any:
    return made.add_node(**{"num_cpus": 1} | NODE | resources)


class Driver:
    """A run on the cluster in a process of its own, and what it says."""

    def __init__(self, address: str, out: Path, *, steps: int = STEPS) -> None:
        self.full = out.with_name(f"{out.name}-full")
        self.events: list[dict[str, Any]] = []
        self.process = subprocess.Popen(
            [sys.executable, str(DRIVER), address, str(out), str(self.full), str(steps)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        self.errors: list[str] = []
        self.readers = [
            threading.Thread(target=self._read, args=(self.process.stdout, self._event)),
            threading.Thread(target=self._read, args=(self.process.stderr, self.errors.append)),
        ]
        for reader in self.readers:
            reader.start()

    def _read(self, stream: Any, take: Callable[[str], None]) -> None:
        with stream:
            for line in stream:
                take(line)

    def _event(self, line: str) -> None:
        self.events.append(json.loads(line))

    @property
    def said(self) -> str:
        return "\n".join(event["message"] for event in tuple(self.events) if event["event"] == "message")

    def steps(self) -> int:
        """The steps that are taken, of all fleets."""
        fleets: dict[str, int] = {}
        names: dict[int, str] = {}
        for event in tuple(self.events):
            if event["event"] == "start":
                names[event["number"]] = event["fleet"].split(",")[0]
            if event["event"] in ("start", "progress"):
                fleets[f"{names[event['number']]} {event['number']}"] = event["step"]
        return sum(fleets.values())

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until something holds, or the run has ended."""
        deadline = time.monotonic() + PATIENCE
        while not condition() and self.process.poll() is None:
            assert time.monotonic() < deadline, self.told()
            time.sleep(0.02)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        for reader in self.readers:
            reader.join(PATIENCE)

    def finish(self) -> None:
        """Let it end by itself."""
        assert self.process.wait(PATIENCE) == 0, self.told()

    def told(self) -> str:
        return f"{self.said}\n{''.join(self.errors)[-3000:]}"


def kill_a_worker(made: Any) -> None:
    """Kill a process of this cluster in which a fleet trains."""
    nodes = {info.process.pid for node in made.list_all_nodes() for info in node.all_processes.get("raylet", ())}
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                busy = (folder / "cmdline").read_bytes().startswith(b"ray::work")
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:  # it has ended meanwhile
                continue
            if busy and parent in nodes:
                os.kill(int(folder.name), signal.SIGKILL)
                return
    raise AssertionError("no fleet trains anywhere")
