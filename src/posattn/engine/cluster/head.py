"""Whether a cluster's head node is still there. Threads ask: without it, Ray blocks for a minute and then exits."""

import threading
from contextlib import suppress
from typing import Any, Self

from posattn.engine.cluster.connection import is_ray
from posattn.engine.cluster.nodes import Node, alive
from posattn.errors import PosattnError

#: Seconds between two probes, and between two looks at the nodes.
EVERY, NODES = 1.0, 2.0
#: Probes in a row that find no listener (the head may be restarting), and that find no answer at all (its machine may
#: be busy, or the network down; such a probe takes up to 4 s).
REFUSED, SILENT = 3, 8
AGAIN = (
    "Nothing finished is lost. Start the cluster, then run the same command again to go on from the last checkpoints."
)


def ended(address: str, reason: str, *more: str) -> PosattnError:
    """The error for a cluster that has ended while it was used."""
    return PosattnError(" ".join((f"the cluster at {address} has ended: {reason}. {AGAIN}", *more)))


def ask_nodes(ray: Any) -> list[Node]:
    """The nodes that are there; an error at once where the head is not."""
    address = ray.get_runtime_context().gcs_address
    try:
        there = is_ray(address)
    except OSError as error:
        raise ended(address, f"nothing answers there ({error.strerror or error})") from None
    if not there:
        raise ended(address, "what answers there is no Ray cluster")
    return alive(ray.nodes())


class Head:
    """The head node of the cluster that Ray is connected to, watched inside a `with`."""

    def __init__(self, ray: Any) -> None:
        self.ray, self.address = ray, ray.get_runtime_context().gcs_address
        self.nodes = ask_nodes(ray)
        self.refused = self.silent = 0  # probes in a row
        self.over = threading.Event()
        self.asking = [threading.Thread(target=loop, daemon=True) for loop in (self._probe, self._look)]

    @property
    def gone(self) -> str | None:
        """Why the head is taken for gone, if it is."""
        if self.refused >= REFUSED:
            return "its head node no longer runs"
        return "its head node does not answer" if self.silent >= SILENT else None

    def _probe(self) -> None:
        while not self.over.wait(EVERY):
            try:
                there = is_ray(self.address)
            except ConnectionRefusedError:
                self.refused += 1
                continue
            except OSError:
                there = False
            self.refused, self.silent = 0, 0 if there else self.silent + 1

    def _look(self) -> None:
        while not self.over.wait(NODES):
            with suppress(PosattnError):  # what it means that the head does not answer is said by `gone`
                self.nodes = ask_nodes(self.ray)

    def close(self) -> None:
        """Ask no more. A thread that waits for a head that never answers is left behind."""
        self.over.set()
        while self.asking:
            self.asking.pop().join(EVERY)

    def __enter__(self) -> Self:
        for thread in self.asking:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
