"""Plans follow from what nodes declare, whatever this machine has."""

import re
from typing import Any

import pytest
import torch

from posattn import PosattnError
from posattn.engine.cluster.nodes import GPU_MEMORY, MEMORY_SHARE, alive, share
from posattn.engine.plan import GIB, plan
from posattn.nn import Positional
from posattn.train import Data, Evaluation, Optimiser, Trial
from posattn.train.fleet.estimate import estimated_bytes

H200: dict[str, Any] = {"accelerator_type:H200": 1.0}
H100: dict[str, Any] = {"accelerator_type:H100": 1.0}


def node(name: str = "a", *, there: bool = True, **resources: Any) -> dict[str, Any]:
    """As `ray.nodes()` describes one."""
    held = {"memory": 8.0 * GIB, "object_store_memory": 1e9, f"node:{name}": 1.0}
    return {
        "NodeID": name,
        "NodeManagerHostname": name,
        "NodeManagerAddress": "10.0.0.1",
        "Alive": there,
        "Resources": held | resources,
    }


def trial(seed: int = 0, **sizes: Any) -> Trial:
    usual: dict[str, Any] = {"length": 8, "layers": 4}
    return Trial(
        task="sum",
        model=Positional(**usual | sizes),
        data=Data(samples=30_000, batch=1000, options={"length": 8}),
        optimiser=Optimiser(steps=10),
        evaluation=Evaluation(sets={"far": {"high": 6.0}}),
        seed=seed,
    )


def test_a_fleet_gets_all_cpus_of_the_smallest_node_and_larger_nodes_take_several() -> None:
    found = share(
        alive([node("a", CPU=4.0), node("b", CPU=9.0), node("head"), node("c", there=False, CPU=1.0)]), "auto", None
    )
    assert (found.device, found.threads, found.count, found.gpus) == ("cpu", 4, 3, 0)
    assert found.memory == int(MEMORY_SHARE * 4 * GIB)  # node b is shared by two


def test_declared_gpus_make_one_fleet_each_and_their_memory_is_that_of_their_kind() -> None:
    nodes = alive(
        [
            node("a", CPU=16.0, GPU=4.0, **H200),
            node("b", CPU=8.0, GPU=1.0, gpu_memory_gib=48.0),
        ]
    )
    found = share(nodes, "auto", None)
    assert (found.device, found.threads, found.count, found.gpus) == ("cuda", 4, 5, 1)
    assert found.memory == int(MEMORY_SHARE * 48 * GIB)
    assert nodes[0].gpu_memory == GPU_MEMORY["H200"] * GIB
    assert share(nodes, "cpu", 8).count == 3


def test_fleets_are_spread_over_the_declared_devices_and_fit_their_memory() -> None:
    trials = [trial(seed) for seed in range(100)]
    each = estimated_bytes(trials)
    wide = share(alive([node(CPU=8.0, GPU=8.0, gpu_memory_gib=80.0)]), "auto", None).capacity()
    assert [len(fleet.trials) for fleet in plan(trials, wide).fleets] == [13] * 4 + [12] * 4
    small = share(alive([node(CPU=1.0, GPU=1.0, gpu_memory_gib=1.0)]), "auto", None).capacity()
    sizes = [len(fleet.trials) for fleet in plan(trials, small).fleets]
    assert max(sizes) * each <= MEMORY_SHARE * GIB
    assert len(sizes) > 1
    assert sum(sizes) == 100


def test_planning_for_gpus_touches_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def touched(*_: Any) -> None:
        raise AssertionError("a device was touched")

    for name in ("mem_get_info", "max_memory_allocated", "is_available", "current_device"):
        monkeypatch.setattr(torch.cuda, name, touched)
    capacity = share(alive([node(CPU=2.0, GPU=2.0, **H100)]), "cuda", None).capacity()
    assert len(plan([trial(seed) for seed in range(4)], capacity).fleets) == 2


def test_estimates_grow_with_all_that_takes_memory() -> None:
    least = estimated_bytes([trial()])
    assert estimated_bytes([trial(layers=8)]) > least
    assert estimated_bytes([trial(hidden_dim=128)]) > least
    # Weights with gradients and moments, and the training samples, are there for certain.
    weights = 84_577 * 4 * 4
    samples = 30_000 * 16 * 4
    assert least > weights + samples


@pytest.mark.parametrize(
    ("nodes", "device", "threads", "said"),
    [
        ([node(CPU=2.0)], "cuda", None, "device 'cuda' is on no node: the cluster has 1 node, 2 CPUs, no GPU"),
        ([node()], "auto", None, "no node has a CPU to train on"),
        ([node(CPU=2.0)], "cpu", 3, "threads=3: no node has so many CPUs"),
        ([node(CPU=2.0)], "cuda:1", None, "unknown device of a cluster 'cuda:1'"),
    ],
)
def test_what_no_node_has_is_refused(nodes: list[dict[str, Any]], device: str, threads: int, said: str) -> None:
    with pytest.raises(PosattnError, match=re.escape(said)):
        share(alive(nodes), device, threads)
