"""When a head node counts as gone: not while it restarts for a moment, and not because a driver was suspended."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from posattn import PosattnError
from posattn.engine.cluster import connection, head
from posattn.engine.cluster.head import Head, ask_nodes

#: What HTTP/2 begins with on the side of a server: settings, and none of them.
ANSWER = bytes(3) + b"\x04" + bytes(5)
NODE = {"NodeID": "a", "Alive": True, "NodeManagerHostname": "one", "Resources": {"CPU": 2.0}}


class Machine:
    """A port at which a head node answers, says nothing, or does not listen, and the Ray that is connected to it."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.2", 0))
            self.place = free.getsockname()
        self.held = [NODE]
        self.asked = 0

    @property
    def ray(self) -> Any:
        context = SimpleNamespace(gcs_address=f"127.0.0.2:{self.place[1]}")
        return SimpleNamespace(get_runtime_context=lambda: context, nodes=self._nodes)

    def _nodes(self) -> list[dict[str, Any]]:
        return self.held

    @contextmanager
    def listening(self, answer: bytes = ANSWER) -> Iterator[None]:
        def reply() -> None:
            while True:
                try:
                    found, _ = server.accept()
                except OSError:
                    return
                with found:
                    self.asked += 1
                    found.recv(100)
                    found.sendall(answer)

        with socket.create_server(self.place) as server:
            thread = threading.Thread(target=reply)
            thread.start()
            try:
                yield
            finally:
                server.shutdown(socket.SHUT_RDWR)  # which ends the thread's waiting
        thread.join()

    def wait_for(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.002)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(head, "EVERY", 0.02)
    monkeypatch.setattr(head, "NODES", 0.02)
    monkeypatch.setattr(connection, "ANSWER", 0.5)
    return Machine()


def test_a_head_that_answers_is_there_and_tells_its_nodes(machine: Machine) -> None:
    with machine.listening(), Head(machine.ray) as found:
        machine.held = [NODE, NODE | {"NodeID": "b"}]
        machine.wait_for(lambda: len(found.nodes) == 2)
        machine.wait_for(lambda: machine.asked > 10)
        assert found.gone is None


def test_a_head_that_refuses_connections_again_and_again_is_gone(machine: Machine) -> None:
    with machine.listening():
        found = Head(machine.ray)
    with found:
        machine.wait_for(lambda: found.gone is not None)
    assert found.gone == "its head node no longer runs"
    assert found.refused >= head.REFUSED > 1


def test_a_head_that_restarts_for_a_moment_is_not_gone(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "REFUSED", 50)
    with machine.listening():
        found = Head(machine.ray)
    with found:
        machine.wait_for(lambda: found.refused > 1)
        with machine.listening():
            machine.wait_for(lambda: found.refused == 0)
            assert found.gone is None
        assert found.gone is None


def test_a_head_that_says_nothing_gets_more_time(machine: Machine) -> None:
    with machine.listening():
        found = Head(machine.ray)
    with machine.listening(b""), found:
        machine.wait_for(lambda: found.silent > head.REFUSED)
        assert found.gone is None
        machine.wait_for(lambda: found.gone is not None)
    assert found.gone == "its head node does not answer"
    assert found.silent >= head.SILENT


def test_nodes_are_not_asked_of_a_head_that_is_not_there(machine: Machine) -> None:
    def never() -> None:
        raise AssertionError("Ray would block here")

    ray = machine.ray
    ray.nodes = never
    with pytest.raises(PosattnError, match=r"has ended: nothing answers there .*Nothing finished is lost"):
        ask_nodes(ray)
    with machine.listening(b"HTTP/1.0 400 Bad request"), pytest.raises(PosattnError, match="is no Ray cluster"):
        ask_nodes(ray)


def test_a_question_that_never_comes_back_does_not_hold_up_the_run(machine: Machine) -> None:
    never = threading.Event()
    with machine.listening():
        ray = machine.ray
        found = Head(ray)
        ray.nodes = lambda: never.wait() and []  # as without a head
        with found:
            time.sleep(0.1)
            began, (look,) = time.monotonic(), found.asking[1:]
        assert time.monotonic() - began < 5
        assert look.is_alive()
        never.set()
        look.join()
