"""Trials on a Ray cluster: every fleet is a task, Ray decides where and when it runs, and this process writes.

A task that is lost with its worker or its node is handed to Ray again, with the newest checkpoint that was sent here.
"""

import os
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

from posattn import checks
from posattn.engine.cluster.connection import AUTO, checked, connect
from posattn.engine.cluster.head import Head, ask_nodes, ended
from posattn.engine.cluster.job import Job, early_stop_fields, modules, plugins
from posattn.engine.cluster.nodes import DEVICES, Share, described, share
from posattn.engine.cluster.tasks import Task
from posattn.engine.cluster.worker import work
from posattn.engine.cluster.writer import Writer
from posattn.engine.interrupt import Interrupted, Stop, interruptible
from posattn.engine.plan import Capacity, Plan
from posattn.engine.progress import Reporter
from posattn.engine.store import Store
from posattn.errors import PosattnError, counted, require

#: Tasks that Ray holds at once; the others wait here.
IN_FLIGHT = 256
#: Seconds between two looks at what has come, and for a piece of it to arrive before the head is looked at again.
LOOK, ARRIVE = 0.2, 1.0
#: Seconds without a word from any worker after which people should know.
SILENCE = 60.0


@dataclass(frozen=True)
class ClusterEngine:
    """Trains on the nodes of a Ray cluster: "auto" is the one that runs on this machine, else HOST:PORT of its head.

    Every fleet gets a GPU where nodes have them, or `threads` CPUs (all of the smallest node's, unless given). Workers
    send a checkpoint every `checkpoint_every` seconds.
    """

    address: str = AUTO
    device: str = "auto"
    threads: int | None = None
    checkpoint_every: float = 60.0
    together: bool = True

    def __post_init__(self) -> None:
        checked(self.address)
        checks.choice("device of a cluster", self.device, DEVICES)
        if self.threads is not None:
            checks.whole("threads", self.threads, least=1)
        seconds = checks.real("checkpoint_every", self.checkpoint_every)
        require(seconds > 0, f"checkpoint_every={seconds}: seconds between checkpoints, above 0.")
        checks.switch("together", self.together)

    @property
    def ray(self) -> Any:
        """Ray, connected when first asked for, and again after a cluster has ended."""
        return connect(self.address)

    def share(self) -> Share:
        """What every fleet gets of a node."""
        ray = self.ray
        try:
            nodes = ask_nodes(ray)
        except PosattnError:
            ray.shutdown()
            raise
        return share(nodes, self.device, self.threads)

    def capacity(self) -> Capacity:
        return self.share().capacity()

    def run(self, plan: Plan, store: Store, reporter: Reporter) -> dict[str, str]:
        ray, given, every = self.ray, self.share(), [trial for fleet in plan.fleets for trial in fleet.trials]
        common = {
            "device": given.device,
            "threads": max(1, given.threads),
            "checkpoint_every": self.checkpoint_every,
            "together": self.together,
            "modules": modules([*every, *plan.alone]),
            "plugins": plugins(),
            "folder": os.getcwd(),
        }
        writer = Writer(store, plan.replaced, reporter)
        tasks = []
        for fleet in plan.fleets:
            writer.announce(fleet.trials)
            stop = early_stop_fields(plan.early_stop, fleet.trials)
            job = Job.of(fleet.trials, early_stop=stop, **common)
            tasks.append(Task(job.to_json(), fleet.trials, writer, reporter))
        alone = [Task(Job.of([one], **common).to_json(), (one,), writer, reporter) for one in plan.alone]
        start = ray.remote(work).options(
            num_cpus=given.threads, num_gpus=given.gpus, max_retries=0, num_returns="streaming"
        )
        with interruptible() as stopping, Head(ray) as head:
            return Watch(ray, head, start, writer, reporter, stopping).run([*tasks, *alone])


class Watch:
    """Tasks from their start to their end."""

    def __init__(self, ray: Any, head: Head, start: Any, writer: Writer, reporter: Reporter, stopping: Stop) -> None:
        self.ray, self.head, self.start = ray, head, start
        self.writer, self.reporter, self.stopping = writer, reporter, stopping
        self.waiting: deque[Task] = deque()
        self.running: dict[Any, Task] = {}
        self.left_out: dict[str, str] = {}
        self.nodes: set[str] = set()
        self.heard = 0.0

    def run(self, tasks: list[Task]) -> dict[str, str]:
        self.waiting.extend(tasks)
        self.heard = time.monotonic()
        try:
            while self.waiting or self.running or not self.writer.flush(now=False):
                if self.stopping.asked is not None:
                    raise self._interrupted(self.stopping.asked)
                self._check_head()
                self._look_at_nodes()
                self._submit()
                self._listen()
        finally:
            for stream in self.running:
                self.ray.cancel(stream, force=True)
        return self.left_out

    def _submit(self) -> None:
        """Hand tasks to Ray, none while results wait for space: they would only add to them."""
        while self.waiting and len(self.running) < IN_FLIGHT and not self.writer.waiting:
            task = self.waiting.popleft()
            self.running[self.start.remote(task.job, task.checkpoints())] = task

    def _listen(self) -> None:
        if not self.running:
            time.sleep(LOOK)
            return
        ready, _ = self.ray.wait(list(self.running), num_returns=1, timeout=LOOK, fetch_local=False)
        if ready:
            more, _ = self.ray.wait(list(self.running), num_returns=len(self.running), timeout=0, fetch_local=False)
            ready = list(dict.fromkeys([*ready, *more]))
            self.heard = time.monotonic()
        for stream in ready:
            self._take(stream)
        if time.monotonic() - self.heard > SILENCE:
            self.heard = time.monotonic()
            self.reporter.say(f"no worker has said anything for {SILENCE:.0f} s: {self._state()}.")

    def _take(self, stream: Any) -> None:
        """The next piece of what a task tells, or its end."""
        task, errors = self.running[stream], self.ray.exceptions
        try:
            text, files = self._get(next(stream))
        except StopIteration:
            reason = None if task.done else "its worker ended too soon"
        except errors.LocalRayletDiedError:
            raise self._ended("Ray no longer runs on this machine") from None
        except errors.RayTaskError:
            raise  # a mistake in the code that ran there, not of a node
        except errors.RayError as error:
            reason = str(error).strip().partition("\n")[0]
        else:
            task.take(text, files)
            return
        del self.running[stream]
        if reason is None:
            self.left_out |= task.left_out
        else:
            task.lost(reason)
            self.waiting.appendleft(task)

    def _get(self, piece: Any) -> Any:
        """A piece itself. It may lie on a node that was lost together with the head, and then never comes."""
        while True:
            try:
                return self.ray.get(piece, timeout=ARRIVE)
            except self.ray.exceptions.GetTimeoutError:
                self._check_head()

    def _check_head(self) -> None:
        if self.head.gone is not None:
            raise self._ended(self.head.gone)

    def _ended(self, reason: str) -> PosattnError:
        """Keep what can be kept, and part from Ray, which would end this process after a minute."""
        self.writer.flush()
        self.running.clear()
        self.head.close()
        self.ray.shutdown()
        return ended(self.head.address, reason, *self._unwritten())

    def _look_at_nodes(self) -> None:
        """Say which nodes there are, at the start and when one comes or goes."""
        nodes = self.head.nodes
        now = {node.id for node in nodes}
        if now != self.nodes:
            change = "" if not self.nodes else " (a node has left)" if self.nodes - now else " (a node has come)"
            self.reporter.say(f"cluster: {described(nodes)}{change}; {self._state()}.")
            self.nodes = now

    def _state(self) -> str:
        at_work = sum(task.node is not None for task in self.running.values())
        others = len(self.running) - at_work + len(self.waiting)
        if not at_work:
            return f"{counted(others, 'fleet')} waiting to start" if others else "all fleets have ended"
        return f"{counted(at_work, 'fleet')} running, {others or 'none'} waiting"

    def _interrupted(self, signal: int) -> Interrupted:
        self.writer.flush()
        again = "Run the same command again to go on from the last checkpoints."
        return Interrupted(" ".join((f"stopped: {self._state()}. {again}", *self._unwritten())), signal)

    def _unwritten(self) -> list[str]:
        lost = len(self.writer.waiting)
        return [f"{counted(lost, 'result')} found no space on the disk."] if lost else []
