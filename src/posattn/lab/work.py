"""Work that may take long: in a process of its own, within a budget, with notes on the way, ended when cancelled.

A process is forked from one that has imported all of posattn and done nothing else, so it starts in milliseconds. What
it sends back is JSON. Functions are named as in `tabs.FUNCTIONS`, so that this process need not import them.
"""

import json
import multiprocessing
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple

from posattn.errors import PosattnError
from posattn.lab.plain import plain
from posattn.lab.shown import Page, Shown

#: Seconds that one job may take.
BUDGET = 10.0
#: Seconds between two looks at a job.
PAUSE = 0.2
#: Bytes of memory that one job may ask for.
MEMORY = 8 << 30
START = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
CONTEXT: Any = multiprocessing.get_context(START)  # its class depends on the method


class Progress(NamedTuple):
    """A job that goes on: the seconds it has taken, and what it says it does."""

    seconds: float
    note: str


class Explanation(NamedTuple):
    """Why there is no answer, and what to change."""

    text: str


@dataclass
class _Job:
    process: BaseProcess
    here: Connection  # where it reports
    began: float = field(default_factory=time.monotonic)
    cancelled: bool = False

    def close(self) -> None:
        self.process.kill()
        self.process.join()
        self.here.close()


def _started(name: str, inputs: Sequence[Any]) -> tuple[BaseProcess, Connection]:
    here, there = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=_work, args=(there, name, tuple(inputs)), daemon=True)
    process.start()
    there.close()
    return process, here


def _start_server() -> None:
    try:
        forkserver.ensure_running()
    except OSError as error:
        raise PosattnError(
            f"the folder for temporary files, {tempfile.gettempdir()}, takes no socket ({error}): set TMPDIR to "
            "another, with a short name."
        ) from None


class Jobs:
    """The jobs of everybody who has the page open: one at a time for each session."""

    def __init__(self, budget: float = BUDGET) -> None:
        self.budget = budget
        self._running: dict[str, _Job] = {}
        self._lock = threading.Lock()
        if START == "forkserver":
            CONTEXT.set_forkserver_preload(["posattn.lab.tabs"])
            with _ignoring_interrupts():  # while it imports, too
                _start_server()

    def ask(self, name: str, *inputs: Any) -> Any:
        """What a function gives that is not shown as it is, as names to choose from."""
        said, job = {}, _Job(*_started(name, inputs))
        with closing(job):
            while "found" not in said:
                said = json.loads(job.here.recv_bytes())
        return said["found"]

    def warm_up(self) -> None:
        """Do a first job, so that the next one finds everything imported. The lab may be ended meanwhile."""
        with suppress(EOFError, OSError):
            self.ask("catalogue")

    def run(self, session: str, name: str, inputs: Sequence[Any]) -> Iterator[Progress | Shown | Explanation]:
        """Do that function elsewhere: how it goes, and at the end what it gave, or why it did not."""
        self.cancel(session)
        job = _Job(*_started(name, inputs))
        with self._lock:
            self._running[session] = job
        try:
            with closing(job):
                yield from self._followed(job)
        finally:
            with self._lock:
                if self._running.get(session) is job:
                    del self._running[session]

    def _followed(self, job: _Job) -> Iterator[Progress | Shown | Explanation]:
        note = "starting"
        while (taken := time.monotonic() - job.began) < self.budget:
            try:
                said = json.loads(job.here.recv_bytes()) if job.here.poll(PAUSE) else {}
            except (EOFError, OSError):
                yield Explanation(_ended(job, time.monotonic() - job.began))
                return
            if "found" in said:
                pages, file = said["found"]
                yield Shown(tuple(Page(*page) for page in pages), file)
                return
            if "explanation" in said:
                yield Explanation(said["explanation"])
                return
            note = said.get("note", note)
            yield Progress(taken, note)
        yield Explanation(
            f"This took longer than {self.budget:g} s, at “{note}”, and was ended. Give it fewer numbers, a shorter "
            "length or a smaller program, or use the command line, which has no limit."
        )

    def close(self) -> None:
        """End everything that is under way."""
        with self._lock:
            running = list(self._running)
        for session in running:
            self.cancel(session)

    def cancel(self, session: str) -> None:
        """End what a session has under way, if anything."""
        with self._lock:
            job = self._running.get(session)
        if job is not None:
            job.cancelled = True
            job.process.kill()


@contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """Have processes that are started here ignore Ctrl-C, which reaches all of them: the lab ends them itself."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _ended(job: _Job, seconds: float) -> str:
    if job.cancelled:
        return f"Cancelled after {seconds:.1f} s."
    job.process.join(1)
    return (
        f"The work ended by itself after {seconds:.1f} s (code {job.process.exitcode}), perhaps for want of memory. "
        "Give it fewer numbers or a smaller program."
    )


def _work(there: Connection, name: str, inputs: tuple[Any, ...]) -> None:
    """What the other process does."""

    def send(**said: Any) -> None:
        try:
            there.send_bytes(json.dumps(said).encode())
        except BrokenPipeError:  # the lab was ended
            sys.exit()

    from posattn.lab.tabs import FUNCTIONS

    _limit_memory()
    try:
        send(found=FUNCTIONS[name](*inputs, note=lambda text: send(note=text)))
    except PosattnError as error:
        send(explanation=plain(str(error)))
    except RecursionError:
        send(explanation="Something is nested too deeply. Name parts of an expression: let part = …")
    except (MemoryError, RuntimeError) as error:
        from posattn import devices

        if not devices.memory_is_full(error):
            raise
        send(
            explanation=f"This needs more memory than the lab allows{devices.memory_asked_for(error)}: make it smaller."
        )


def _limit_memory() -> None:
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
