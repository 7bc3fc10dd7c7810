"""What the nodes of a cluster declare: CPUs, GPUs and their memory, and the capacity that a plan makes of it.

Nothing is measured: a plan follows from what `ray start` was told on every node.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posattn import checks
from posattn.engine.plan import GIB, Capacity
from posattn.errors import counted, require
from posattn.train.fleet.estimate import estimated_bytes

#: Share of a device's memory that fleets may plan with.
MEMORY_SHARE = 0.6
#: Gibibytes of the GPUs that Ray knows by name; of others a node says it itself, --resources='{"gpu_memory_gib": 48}'.
GPU_MEMORY = {
    "T4": 15, "L4": 22, "V100": 16, "A10G": 22, "A100": 40, "A100-40G": 40, "A100-80G": 80, "L40S": 44, "H100": 80,
    "H200": 140, "B200": 180,
}  # fmt: skip
DECLARED, NAMED = "gpu_memory_gib", "accelerator_type:"
DEVICES = ("auto", "cpu", "cuda")


@dataclass(frozen=True)
class Node:
    """One machine, or one share of it."""

    id: str
    name: str
    cpus: int
    gpus: int
    memory: int  # bytes
    gpu_memory: int | None  # bytes of each GPU, where that is declared or its name is known


def alive(nodes: Sequence[Mapping[str, Any]]) -> list[Node]:
    """The nodes that `ray.nodes()` gives and that are there."""
    found = []
    for node in nodes:
        held = node.get("Resources", {})
        if node["Alive"]:
            kinds = [name.removeprefix(NAMED) for name in held if name.startswith(NAMED)]
            known = [GPU_MEMORY[kind] for kind in kinds if kind in GPU_MEMORY]
            known = [int(held[DECLARED])] if DECLARED in held else known
            found.append(
                Node(
                    node["NodeID"],
                    node.get("NodeManagerHostname") or node["NodeManagerAddress"],
                    int(held.get("CPU", 0)),
                    int(held.get("GPU", 0)),
                    int(held.get("memory", 0)),
                    known[0] * GIB if known else None,
                )
            )
    return found


def described(nodes: Sequence[Node]) -> str:
    """As in: 2 nodes, 16 CPUs, no GPU."""
    cpus, gpus = sum(node.cpus for node in nodes), sum(node.gpus for node in nodes)
    return f"{counted(len(nodes), 'node')}, {counted(cpus, 'CPU')}, {counted(gpus, 'GPU')}"


@dataclass(frozen=True, kw_only=True)
class Share:
    """What a fleet takes of a node: its device, its CPUs, which are its threads, and how many such shares there are."""

    device: str
    threads: int
    count: int
    memory: int | None  # bytes

    @property
    def gpus(self) -> int:
        return int(self.device == "cuda")

    def capacity(self) -> Capacity:
        return Capacity(device=self.device, memory=self.memory, replica_bytes=estimated_bytes, devices=self.count)


def share(nodes: Sequence[Node], device: str, threads: int | None) -> Share:
    """The share of a node that every fleet gets: a GPU, or the CPUs of the smallest node unless `threads` are given."""
    checks.choice("device of a cluster", device, DEVICES)
    have = f"the cluster has {described(nodes)}"
    with_gpu = [node for node in nodes if node.gpus]
    require(device != "cuda" or bool(with_gpu), f"device 'cuda' is on no node: {have}. Use --device cpu.")
    usable = [node for node in nodes if node.cpus] if device == "cpu" or not with_gpu else with_gpu
    require(bool(usable), f"no node has a CPU to train on: {have}. Start one, ray start --address=… --num-cpus=4.")
    cuda = device != "cpu" and bool(with_gpu)
    usual = min(node.cpus // node.gpus if cuda else node.cpus for node in usable)
    wanted = max(1, usual) if threads is None else threads
    largest = max(node.cpus for node in usable)
    require(cuda or wanted <= largest, f"threads={wanted}: no node has so many CPUs, {have}. Use at most {largest}.")
    if cuda:
        known = [node.gpu_memory for node in usable if node.gpu_memory is not None]
        memory = int(MEMORY_SHARE * min(known)) if len(known) == len(usable) else None
        cpus = min(wanted, usual)  # Ray's nodes may declare GPUs and no CPU
        return Share(device="cuda", threads=cpus, count=sum(node.gpus for node in usable), memory=memory)
    fitting = [node for node in usable if node.cpus >= wanted]
    count = sum(node.cpus // wanted for node in fitting)
    memory = min(node.memory // (node.cpus // wanted) for node in fitting)
    return Share(device="cpu", threads=wanted, count=count, memory=int(MEMORY_SHARE * memory) or None)
