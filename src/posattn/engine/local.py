"""The engine that is this process: fleets side by side on one device, then the trials that run by themselves."""

import dataclasses
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch

from posattn import devices
from posattn.engine.interrupt import Interrupted, interruptible, terminable
from posattn.engine.plan import Capacity, Plan, PlannedFleet, plan
from posattn.engine.progress import Reporter
from posattn.engine.side_by_side import SideBySide
from posattn.engine.store import Provenance, Store
from posattn.engine.training import Training
from posattn.errors import PosattnError
from posattn.train import Trial, execute
from posattn.train.fleet.memory import bytes_per_replica
from posattn.train.runnable import Runnable, Unreachable

#: Fleets that train side by side: small ones take two thirds of the time so on an H200 (docs/performance.md). On a CPU
#: one fleet has work for every core.
BESIDE = {"cpu": 1, "cuda": 8}
#: Share of the free device memory that a fleet may plan with; the rest is for the allocator and captured graphs.
MEMORY_SHARE = 0.7


@dataclass(frozen=True)
class LocalEngine:
    """Trains on one device of this machine. A checkpoint is written every `checkpoint_every` seconds and on Ctrl-C.

    Without `together`, a fleet's replicas take each step one after the other, by a user's module as it is.
    """

    device: torch.device
    checkpoint_every: float = 60.0
    together: bool = True

    def capacity(self) -> Capacity:
        kind = self.device.type
        memory = self._free() if kind == "cuda" else None
        return Capacity(device=kind, memory=memory, replica_bytes=self._measured, beside=BESIDE[kind])

    def _free(self) -> int:
        """Bytes of device memory that a fleet may plan with."""
        torch.cuda.empty_cache()
        return int(MEMORY_SHARE * torch.cuda.mem_get_info(self.device)[0])

    def _measured(self, trials: Sequence[Trial]) -> int:
        """What the largest replica of a fleet takes: the one with most data, as wide as the widest."""
        most = max(trials, key=lambda trial: trial.data.samples)
        widest = trials[0].model.covering([trial.model for trial in trials])
        with self._memory_errors():
            return bytes_per_replica(dataclasses.replace(most, model=widest), self.device, together=self.together)

    def run(self, plan: Plan, store: Store, reporter: Reporter) -> dict[str, str]:
        with interruptible() as stopping, self._memory_errors():
            turns = SideBySide(plan.beside, stopping)
            for planned in plan.fleets:
                for fleet in self._fitting(planned, turns, reporter):
                    given = (fleet.trials, self.device, store, reporter, self.checkpoint_every, plan.replaced)
                    turns.begin(partial(Training, *given, together=self.together, early_stop=plan.early_stop))
            turns.finish()
        left_out = turns.left_out
        missing: dict[str | None, str] = {}
        for trial in plan.alone:
            try:
                if trial.needs not in missing:
                    self._alone(trial, store, reporter)
            except Unreachable as reason:
                reporter.say(f"{reason} The study goes on without it.")
                missing[trial.needs] = str(reason)
            if trial.needs in missing:
                left_out[trial.id] = missing[trial.needs]
        return left_out

    def _fitting(self, fleet: PlannedFleet, turns: SideBySide, reporter: Reporter) -> tuple[PlannedFleet, ...]:
        """A fleet that fits what is free: beside the others, or after them, or split where less is free than was."""
        if self.device.type != "cuda" or not fleet.replica_bytes or fleet.bytes <= self._free():
            return (fleet,)
        turns.finish()
        if fleet.bytes <= self._free():
            return (fleet,)
        again = plan(fleet.trials, self.capacity())
        for note in again.notes:
            reporter.say(note)
        return again.fleets

    def _alone(self, trial: Runnable, store: Store, reporter: Reporter) -> None:
        began = time.monotonic()
        number = reporter.start(trial.title, trial.shown_steps, 0) if trial.shown_steps else None

        def report(step: int, losses: list[float]) -> None:
            if number is not None:
                reporter.update(number, step, losses)
            reporter.logs.losses([trial], step, losses)

        reporter.logs.begin([trial], 0)
        try:
            with terminable(), self._memory_errors():
                outcome = execute(trial, device=self.device, report=report)
        except KeyboardInterrupt as stop:
            raise Interrupted(
                f"stopped while {trial.verb} {trial.title}, which begins anew next time. Run the same command again to "
                "go on; what is finished is kept.",
                stop.signal if isinstance(stop, Interrupted) else signal.SIGINT,
            ) from None
        finally:
            if number is not None:
                reporter.end(number)
        device = devices.name_of(self.device) if trial.trained else "cpu"
        store.write(trial, outcome, Provenance(device=device, seconds=round(time.monotonic() - began, 3)))
        reporter.logs.result(trial, outcome.scores, outcome.diverged_at)

    @contextmanager
    def _memory_errors(self) -> Iterator[None]:
        """Say what to do where something does not fit the device after all."""
        try:
            yield
        except (MemoryError, RuntimeError) as error:
            if not devices.memory_is_full(error):
                raise
            raise PosattnError(
                f"the memory of device '{self.device}' is full{devices.memory_asked_for(error)}: use a smaller batch, "
                "fewer samples or a shorter length, end what else runs there, or take another device. What was "
                "finished is kept, and so are checkpoints."
            ) from None
