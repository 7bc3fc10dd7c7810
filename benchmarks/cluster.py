"""What a cluster costs and gives: overhead, many trials, sweeps, one node and two.

    python benchmarks/cluster.py overhead [SECONDS]     the same work here and on a cluster of one node
    python benchmarks/cluster.py nodes [SECONDS]        the same work on one node and on two
    python benchmarks/cluster.py many [TRIALS]          so many smoke trials: the driver's memory, listing the store
    python benchmarks/cluster.py sweep                  64 settings × 3 seeds as fleets, and as 192 single runs

Clusters are Ray's own of several nodes on this machine, bound to its loopback, with one thread per fleet. Workers are
warm: they have run a fleet before. Figures are ratios within one run.
"""

import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from posattn import engine, studies
from posattn.engine import Capacity, LocalEngine, Store, listing
from posattn.engine.cluster import ClusterEngine
from posattn.nn import Positional
from posattn.studies.sweep import parse, sweep
from posattn.train import Data, Evaluation, Optimiser, Trial, execute

NODE = {"node_ip_address": "127.0.0.2", "object_store_memory": 100_000_000}


class Quiet(engine.Reporter):
    def start(self, title: str, steps: int, done: int) -> int:
        return 0

    def update(self, number: int, step: int, losses: list[float]) -> None: ...

    def end(self, number: int) -> None: ...

    def say(self, message: str) -> None: ...

    def __exit__(self, *_: Any) -> None: ...


class AsPlanned(LocalEngine):
    """This process with fleets as the cluster has them."""

    def capacity(self) -> Capacity:
        return Capacity(devices=2)


@contextmanager
def cluster(nodes: int) -> Iterator[ClusterEngine]:
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_OBJECT_STORE_ALLOW_SLOW_STORAGE": "1"}
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 (Ray's spelling; 15 by default)
    import ray
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False} | NODE)
    try:
        for _ in range(nodes):
            made.add_node(num_cpus=1, **NODE)
        yield ClusterEngine(str(made.address), device="cpu", threads=1)
    finally:
        ray.shutdown()
        made.shutdown()


def trials(steps: int, *, fleets: int = 2, seeds: int = 4) -> list[Trial]:
    """Fleets of four positional models of the paper's size, at batch 128."""
    return [
        Trial(
            task="sum",
            model=Positional(length=8, hidden_dim=64 + fleet),
            data=Data(samples=2000, batch=128, options={"length": 8}),
            optimiser=Optimiser(steps=steps),
            evaluation=Evaluation(samples=100, sets={"near": {}}),
            seed=seed,
        )
        for fleet in range(fleets)
        for seed in range(seeds)
    ]


def taken(some: list[Trial], using: Any) -> float:
    with tempfile.TemporaryDirectory() as out:
        began = time.perf_counter()
        engine.run(some, out=out, reporter=Quiet(), engine=using)
        return time.perf_counter() - began


def steps_for(seconds: float) -> int:
    """Steps of `trials` that take this process so long."""
    here = AsPlanned(torch.device("cpu"))
    taken(trials(2), here)
    return max(10, round(20 * seconds / taken(trials(20), here)))


def overhead(seconds: float = 120.0) -> None:
    here, steps = AsPlanned(torch.device("cpu")), steps_for(seconds)
    with cluster(1) as there:
        taken(trials(2), there)
        for _ in range(3):
            local, remote = taken(trials(steps), here), taken(trials(steps), there)
            ratio = f"ratio {remote / local:.3f}"
            print(f"{steps} steps: local {local:.1f} s, cluster {remote:.1f} s, {ratio}", flush=True)
    start_up(seconds)


def start_up(seconds: float) -> None:
    """What a first fleet waits for: the connection, a worker, and its imports."""
    del seconds
    with cluster(1) as there:
        began = time.perf_counter()
        taken(trials(1, fleets=1), there)
        cold = time.perf_counter() - began
        warm = taken(trials(1, fleets=1), there)
    print(f"a fleet of one step: {cold:.1f} s on a cold cluster, {warm:.2f} s on a warm one")


def nodes(seconds: float = 60.0) -> None:
    steps = steps_for(seconds)
    found = {}
    for count in (1, 2):
        with cluster(count) as there:
            taken(trials(2), there)
            found[count] = taken(trials(steps), there)
    print(f"{steps} steps: one node {found[1]:.1f} s, two nodes {found[2]:.1f} s, ratio {found[1] / found[2]:.2f}")


def many(count: int = 10_000) -> None:
    base = studies.get("ood-scale").chosen(("sum",), "smoke", ("positional",))[0].trial
    some = [base.seeded(seed) for seed in range(count)]
    with cluster(2) as there, tempfile.TemporaryDirectory() as out:
        began = time.perf_counter()
        engine.run(some, out=out, reporter=Quiet(), engine=there)
        ran = time.perf_counter() - began
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        began = time.perf_counter()
        found = len(listing(Store(out)))
        listed = time.perf_counter() - began
    print(f"{found} trials in {ran:.0f} s; driver {most:.2f} GiB at its peak; listed in {listed:.2f} s")


class OneByOne(LocalEngine):
    """192 single runs: every trial by itself, on all cores."""

    def run(self, plan: Any, store: Store, reporter: Any) -> dict[str, str]:
        for trial in [one for fleet in plan.fleets for one in fleet.trials]:
            outcome = execute(trial, device=self.device, report=lambda step, losses: None)
            store.write(trial, outcome, engine.Provenance(device="cpu", seconds=0.0))
        return {}


def sweeps() -> None:
    space = parse(
        ["optimiser.lr=1e-4,2e-4,5e-4,1e-3,2e-3,5e-3,1e-2,2e-2", "optimiser.warmup=0,2", "model.heads=1,2,4,8"]
    )
    given: dict[str, Any] = {"preset": "smoke", "tasks": ("sum",), "arms": ("positional",), "reporter": Quiet()}
    for _ in range(3):
        found = {}
        for name, using in (("fleets", None), ("single runs", OneByOne(torch.device("cpu")))):
            with tempfile.TemporaryDirectory() as out:
                began = time.perf_counter()
                tried = sweep(studies.get("ood-scale"), space, out=out, device="cpu", engine=using, **given).tried
                found[name] = time.perf_counter() - began
                assert len(tried) == 64
        ratio = found["single runs"] / found["fleets"]
        print(f"fleets {found['fleets']:.1f} s, single runs {found['single runs']:.1f} s, ratio {ratio:.1f}")


if __name__ == "__main__":
    what, *numbers = sys.argv[1:] or ["overhead"]
    if what != "sweep":  # which uses every core, as single runs do
        torch.set_num_threads(1)
    {"overhead": overhead, "nodes": nodes, "many": many, "sweep": sweeps}[what](*map(int, numbers))
