"""How long a study takes on G GPUs: from milliseconds per step to hours, with start-up and stragglers.

    python benchmarks/cluster_cost.py

    T(G) = start-up + steps · (launch + each · ⌈replicas / G⌉) · (1 + spread · √(2 ln G))

Fleets with n replicas in all take launch + each · n per step of a GPU. `each` is that of a whole study: the 200 trials
of ood-scale by the paper's protocol, 60,030 steps in float32, took 20 minutes on one H200, its fleets side by side.
`launch` is what a fleet of one replica takes, where little is computed (1.04 ms, docs/performance.md). The last fleet
decides: the largest of G times that spread by a share around their mean lies about √(2 ln G) such shares above it.
"""

import math
from dataclasses import dataclass

#: Milliseconds per step of one H200: of a start, and of each replica.
LAUNCH, EACH = 1.04, 0.095
#: Seconds from the command to the first step: nodes are up, workers import torch, a first kernel compiles.
START_UP = 60.0
#: Of the times of equal fleets on equal nodes: their deviation, as a share.
SPREAD = 0.03
GPUS = (1, 2, 10, 100, 1000)


@dataclass(frozen=True)
class Work:
    """Trials of one length."""

    name: str
    replicas: int
    steps: int


#: ood-scale by the paper's protocol: five tasks, four trained models, ten seeds. A sweep of 64 settings of three models
#: on five tasks, with three seeds. A full record with ten seeds: about four such studies.
WORKS = (
    Work("ood-scale, paper preset", 5 * 4 * 10, 30 * 2001),
    Work("sweep: 64 settings, 3 models, 5 tasks, 3 seeds", 64 * 3 * 5 * 3, 30 * 2001),
    Work("sweep: 1,000 settings, 3 models, 5 tasks, 10 seeds", 1000 * 3 * 5 * 10, 30 * 2001),
)


def step_ms(replicas: int) -> float:
    """One step of a fleet."""
    return LAUNCH + EACH * replicas


def seconds(work: Work, gpus: int) -> float:
    """From the command to the last row."""
    per_gpu = math.ceil(work.replicas / gpus)
    straggling = 1 + SPREAD * math.sqrt(2 * math.log(gpus))
    return START_UP + work.steps * step_ms(per_gpu) / 1000 * straggling


def saturated(work: Work) -> int:
    """The number of GPUs beyond which launches, start-up and stragglers take more than half of the time."""
    for gpus in range(1, work.replicas + 1):
        useful = work.steps * EACH * math.ceil(work.replicas / gpus) / 1000
        if useful < seconds(work, gpus) / 2:
            return gpus
    return work.replicas


def table() -> list[str]:
    """Markdown: hours on each number of GPUs, and where it stops to pay."""
    head = ["work", "trials", *(f"{gpus:,} GPU{'s' if gpus > 1 else ''}" for gpus in GPUS), "half lost from"]
    rows = [
        [work.name, f"{work.replicas:,}", *(_time(seconds(work, gpus)) for gpus in GPUS), f"{saturated(work):,} GPUs"]
        for work in WORKS
    ]
    return ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]


def _time(taken: float) -> str:
    return f"{taken / 3600:.1f} h" if taken >= 3600 else f"{taken / 60:.0f} min"


if __name__ == "__main__":
    print("\n".join(table()))
