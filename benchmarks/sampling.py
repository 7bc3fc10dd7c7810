"""How much faster are 30,000 samples drawn and solved at once than one at a time?

    python benchmarks/sampling.py

RESULT

The numbers lie in [-6, 6] and sub-intervals inside [-2, 2] are redrawn, as in the out-of-distribution tests. One at a
time means what a first script does: draw two endpoints, draw them again while both lie in [-2, 2], draw the numbers,
solve with torch calls on one short tensor (`median` and `max-subarray` prefix by prefix, `shortest-path` by
Floyd–Warshall on weights in [0, 6]). It is timed on 300 samples and scaled to 30,000.
"""

import math
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

from posattn import tasks

COUNT, LENGTH = 30_000, 8
TIMED_ALONE = 300
REPEATS = 15

AVOID = (-2.0, 2.0)


def numbers(length: int, low: float, high: float) -> Tensor:
    """One list, drawn as the paper says it."""
    while True:
        a, b = sorted((low + (high - low) * torch.rand(2)).tolist())
        if not (AVOID[0] <= a and b <= AVOID[1]):
            return a + (b - a) * torch.rand(length)


def medians(x: Tensor) -> Tensor:
    return torch.stack([x[: end + 1].quantile(0.5) for end in range(len(x))])


def max_subarrays(x: Tensor) -> Tensor:
    best, ending, bests = x[0], x[0], [x[0]]
    for number in x[1:]:
        ending = number + ending.clamp(min=0)
        best = torch.maximum(best, ending)
        bests.append(best)
    return torch.stack(bests)


def min_sums(x: Tensor) -> Tensor:
    a, b = x.chunk(2)
    return (a + b).cummin(0).values.repeat(2)


def distances(weights: Tensor) -> Tensor:
    """Floyd–Warshall on the path with its nodes shuffled."""
    order = torch.randperm(len(weights) + 1)
    distance = torch.full((len(order), len(order)), math.inf).fill_diagonal_(0)
    distance[order[:-1], order[1:]] = weights
    distance[order[1:], order[:-1]] = weights
    for k in range(len(order)):
        distance = torch.minimum(distance, distance[:, k, None] + distance[k])
    return distance


ALONE: dict[str, tuple[int, Callable[[Tensor], Tensor]]] = {
    "sum": (LENGTH, lambda x: x.cumsum(0)),
    "min": (LENGTH, lambda x: x.cummin(0).values),
    "max": (LENGTH, lambda x: x.cummax(0).values),
    "median": (LENGTH, medians),
    "sort": (LENGTH, lambda x: x.sort().values),
    "max-subarray": (LENGTH, max_subarrays),
    "min-sum": (2 * LENGTH, min_sums),
    "shortest-path": (LENGTH - 1, distances),
}


def span(name: str) -> tuple[float, float]:
    """Floyd–Warshall needs weights that are not negative: an undirected edge below 0 is a cycle below 0."""
    return (0.0, 6.0) if name == "shortest-path" else (-6.0, 6.0)


def seconds_at_once(name: str) -> float:
    """The median over the repeats; a first call warms the allocator."""
    task, generator = tasks.get(name), torch.Generator().manual_seed(0)
    low, high = span(name)
    times = []
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        task.sample(COUNT, length=LENGTH, low=low, high=high, avoid=AVOID, generator=generator)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def seconds_alone(name: str) -> float:
    length, solve = ALONE[name]
    low, high = span(name)
    start = time.perf_counter()
    drawn = [numbers(length, low, high) for _ in range(TIMED_ALONE)]
    torch.stack(drawn)
    torch.stack([solve(x) for x in drawn])
    return (time.perf_counter() - start) * COUNT / TIMED_ALONE


def main() -> None:
    torch.set_num_threads(1)  # short tensors gain nothing from a second thread, and a busy core would stall both
    torch.manual_seed(0)
    print(f"{COUNT:,} samples of length {LENGTH}; one at a time: {TIMED_ALONE} timed, scaled by {COUNT // TIMED_ALONE}")
    print(f"{'task':<15}{'vectorised ms':>15}{'one at a time s':>17}{'ratio':>8}")
    for name in ALONE:
        seconds_alone(name)
        once, alone = seconds_at_once(name), seconds_alone(name)
        print(f"{name:<15}{1000 * once:>15.2f}{alone:>17.2f}{alone / once:>8.0f}")


if __name__ == "__main__":
    main()
