"""Clusters that are not there, and runs that need none."""

import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import runner
from posattn import PosattnError
from posattn.engine.cluster import ClusterEngine, connection

RUN = ["run", "ood-scale", "--task", "sum", "--preset", "smoke", "--device", "cpu"]


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(connection, "CURRENT", tmp_path / "none")


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that nobody listens at, and that nobody else gets meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.2", 0))
        yield held.getsockname()[1]


def test_auto_without_a_cluster_says_how_to_start_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, nothing_runs: None
) -> None:
    ended = runner(monkeypatch, capsys)(*RUN, "--cluster", "auto", "--out", tmp_path / "runs")
    assert ended.code == 2
    assert "no Ray cluster runs on this machine: start one, ray start --head" in ended.err
    assert ended.err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_an_address_that_does_not_answer_is_an_error_at_once(closed_port: int) -> None:
    engine = ClusterEngine(f"127.0.0.2:{closed_port}")
    began = time.monotonic()
    with pytest.raises(
        PosattnError, match=rf"cluster 127\.0\.0\.2:{closed_port}: nothing answers there .*Check the address"
    ):
        engine.capacity()
    assert time.monotonic() - began < 10


def test_an_address_that_swallows_everything_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    def swallow(address: tuple[str, int], timeout: float) -> None:
        waited.append(timeout)
        raise TimeoutError("timed out")

    monkeypatch.setattr(socket, "create_connection", swallow)
    with pytest.raises(PosattnError, match="nothing answers"):
        ClusterEngine("10.1.2.3:6379").capacity()
    assert waited[0] < 10


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.0 400 Bad request\r\n\r\n"])
def test_what_answers_and_is_no_cluster_is_said_so(answer: bytes) -> None:
    with socket.create_server(("127.0.0.2", 0)) as server:

        def reply() -> None:
            with server.accept()[0] as asked:
                asked.recv(100)
                asked.sendall(answer)

        thread = threading.Thread(target=reply)
        thread.start()
        with pytest.raises(PosattnError, match="what answers there is no Ray cluster"):
            ClusterEngine(f"127.0.0.2:{server.getsockname()[1]}").capacity()
        thread.join()


def test_without_the_extra_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    ended = runner(monkeypatch, capsys)(*RUN, "--cluster", "auto", "--out", tmp_path / "runs")
    assert ended.code == 2
    expected = "posattn: running on a cluster needs packages that are not installed: pip install 'posattn[cluster]'.\n"
    assert ended.err == expected
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("address", ["", "head", "head:", ":6379", "ray://head:10001", "head:port", "a b:1", 3, None])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(PosattnError, match=re.escape(f"cluster {address!r}: write auto, or HOST:PORT")):
        connection.checked(address)


@pytest.mark.parametrize("port", [0, 65536, 99999])
def test_a_port_out_of_range_is_refused_before_anything_is_tried(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(PosattnError, match=rf"'10\.0\.0\.1:{port}': port {port} is out of range. Use 1 to 65535"):
        ClusterEngine(f"10.0.0.1:{port}")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_an_address_that_ray_takes_for_another_is_shown_as_written(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(address: tuple[str, int], timeout: float) -> None:
        assert address == ("192.0.2.7", 6379)
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(connection.ray_module().util, "get_node_ip_address", lambda: "192.0.2.7")
    monkeypatch.setattr(socket, "create_connection", refuse)
    why = f"Connection refused; Ray takes {host} as 192.0.2.7, this machine's own address"
    expected = f"cluster {host}:6379: nothing answers there ({why}). Check the address"
    with pytest.raises(PosattnError, match=re.escape(expected)):
        ClusterEngine(f"{host}:6379").capacity()


def test_usage_statistics_are_off_before_ray_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "1")
    connection.ray_module()
    import os

    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"


def test_local_runs_and_sweeps_import_no_ray_and_work_without_it(tmp_path: Path) -> None:
    program = f"""
import sys
sys.modules.update(ray=None, optuna=None)
from posattn import engine, studies
from posattn.studies.core import results
from posattn.studies.sweep import parse, sweep
given = dict(preset="smoke", tasks=("sum",), arms=("positional",), device="cpu", out={str(tmp_path)!r})
results.run(studies.get("ood-scale"), seeds=1, **given)
assert len(sweep(studies.get("ood-scale"), parse(["optimiser.lr=1e-3,1e-2"]), seeds=2, **given).tried) == 2
assert "posattn.engine.cluster" not in sys.modules
"""
    ended = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
