"""Which trials run together, in which order and how many at once: a pure function of trials and capacity.

No device is touched here and no file is read; what a replica takes of the memory is told by the engine that asks.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from posattn.engine.early_stop import EarlyStop
from posattn.errors import PosattnError
from posattn.train import Trial
from posattn.train.fleet.grouping import Key, batched, shape_key
from posattn.train.runnable import Runnable

GIB = 2**30


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """What an engine offers each fleet, and how many fleets train side by side."""

    device: str = "cpu"
    memory: int | None = None  # bytes that a fleet may take; None: fleets are never split
    replica_bytes: int | Callable[[Sequence[Trial]], int] = 0  # of each replica of a fleet of these trials
    beside: int = 1
    devices: int = 1  # that fleets are spread over: none is larger than an equal share of all trials


@dataclass(frozen=True)
class PlannedFleet:
    """Trials that train as one program, and what each of them takes of the memory; 0 where nobody has asked."""

    trials: tuple[Trial, ...]
    replica_bytes: int = 0

    @property
    def bytes(self) -> int:
        return len(self.trials) * self.replica_bytes


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What an engine is to run: fleets in this order, then the trials that run by themselves."""

    fleets: tuple[PlannedFleet, ...] = ()
    alone: tuple[Runnable, ...] = ()
    beside: int = 1
    replaced: frozenset[str] = frozenset()  # ids of trials whose result in the store makes way for the new one
    early_stop: EarlyStop | None = None  # which fleets are not worth their remaining steps
    notes: tuple[str, ...] = field(default=(), compare=False)  # what people should know of it


def plan(
    trials: Sequence[Runnable],
    capacity: Capacity,
    *,
    interrupted: Sequence[Sequence[Trial]] = (),
    replaced: Collection[str] = (),
    early_stop: EarlyStop | None = None,
) -> Plan:
    """Fleets to go on with, then the other trials by what they share (`shape_key`), in the order they came in.

    A fleet that would not fit the memory is split into as few as possible, of almost equal size.
    """
    placed = {trial.id for group in interrupted for trial in group}
    groups: dict[Key, list[Trial]] = {}
    alone: list[Runnable] = []
    for trial in trials:
        if not batched(trial):
            alone.append(trial)
        elif trial.id not in placed:
            groups.setdefault(shape_key(trial), []).append(trial)
    fleets: list[PlannedFleet] = []
    notes: list[str] = []
    share = -(-sum(map(len, groups.values())) // capacity.devices)
    begun = [(list(group), len(group)) for group in interrupted]  # as they were, or their checkpoints are of no use
    for group, most in (*begun, *((group, share) for group in groups.values())):
        parts = _split(group, capacity, most=most)
        fleets += parts
        if len(parts) > 1 and capacity.memory is not None and len(group) * parts[0].replica_bytes > capacity.memory:
            need, free = len(group) * parts[0].replica_bytes / GIB, (capacity.memory or 0) / GIB
            notes.append(
                f"{len(group)} replicas need {need:.1f} GiB and {free:.1f} GiB are free: training them as {len(parts)} "
                f"fleets of up to {len(parts[0].trials)}."
            )
    return Plan(
        fleets=tuple(fleets),
        alone=tuple(alone),
        beside=capacity.beside,
        replaced=frozenset(replaced),
        early_stop=early_stop,
        notes=tuple(notes),
    )


def _split(group: Sequence[Trial], capacity: Capacity, *, most: int) -> list[PlannedFleet]:
    """One fleet of a group, or several that fit and have no more than `most` trials.

    One replica is not even measured: it cannot be split.
    """
    if len(group) == 1:
        return [PlannedFleet(tuple(group))]
    each, sizes = 0, [len(group)]
    if capacity.memory is not None:
        each = capacity.replica_bytes if isinstance(capacity.replica_bytes, int) else capacity.replica_bytes(group)
        sizes = fleet_sizes(len(group), each=each, free=capacity.memory)
    if max(sizes) > most:
        sizes = fleet_sizes(len(group), each=1, free=most)
    found, start = [], 0
    for size in sizes:
        found.append(PlannedFleet(tuple(group[start : start + size]), each))
        start += size
    return found


def fleet_sizes(count: int, *, each: int, free: int) -> list[int]:
    """How many replicas go into each fleet when one takes `each` bytes of `free`: few fleets, of almost equal size."""
    most = free // max(1, each)
    if most < 1:
        raise PosattnError(
            f"one replica needs {each / 2**30:.2f} GiB and {free / 2**30:.2f} GiB of device memory are free: "
            "use a smaller batch, or another device."
        )
    fleets = -(-count // most)
    return [count // fleets + (index < count % fleets) for index in range(fleets)]
