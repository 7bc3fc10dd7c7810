"""How much faster are 30,000 samples drawn and solved at once than one at a time?

    python benchmarks/sampling.py

Two cores of an Intel Xeon at 2.8 GHz (one thread used), torch 2.13.0. The medians of four runs, picked
for moments in which little else ran, and the lowest ratio of the four; with other work running, sort, sum and
shortest-path have been seen at 85 to 99. About 10 seconds a run:

    task             vectorised ms  one at a time s   ratio  lowest
    sum                        5.9             0.90     154     146
    min                        7.8             1.14     142     137
    max                        7.6             1.05     151     102
    median                    22.4            13.89     655     486
    sort                       9.3             1.10     133     100
    max-subarray               7.7             3.02     392     378
    min-sum                   11.1             1.98     148     131
    shortest-path             35.5             4.38     128     119

The numbers lie in [-6, 6] and sub-intervals inside [-2, 2] are redrawn, as in the out-of-distribution tests. One at a
time means what a first script does: draw two endpoints, draw them again while both lie in [-2, 2], draw the numbers,
solve with torch calls on one short tensor (`median` and `max-subarray` prefix by prefix, `shortest-path` by
Floyd–Warshall on weights in [0, 6]). It is timed on 300 samples and scaled to 30,000. `median` is flattered:
`torch.quantile` is slow on a short tensor.
"""

import math
import statistics
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from posattn import tasks

COUNT, LENGTH = 30_000, 8
TIMED_ALONE = 300

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


def seconds(work: Callable[[], object], repeats: int) -> float:
    """The median over the repeats; a first call, not counted, warms the allocator."""
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def at_once(name: str) -> object:
    low, high = span(name)
    generator = torch.Generator().manual_seed(0)
    return tasks.get(name).sample(COUNT, length=LENGTH, low=low, high=high, avoid=AVOID, generator=generator)


def alone(name: str) -> object:
    length, solve = ALONE[name]
    drawn = [numbers(length, *span(name)) for _ in range(TIMED_ALONE)]
    return torch.stack(drawn), torch.stack([solve(x) for x in drawn])


def main() -> None:
    torch.set_num_threads(1)  # short tensors gain little from a second thread, and a busy core would stall both
    torch.manual_seed(0)
    scale = COUNT // TIMED_ALONE
    print(f"{COUNT:,} samples of length {LENGTH}; one at a time: {TIMED_ALONE} timed, scaled by {scale}")
    print(f"{'task':<15}{'vectorised ms':>15}{'one at a time s':>17}{'ratio':>8}")
    for name in ALONE:
        vectorised = seconds(partial(at_once, name), repeats=15)
        one_by_one = scale * seconds(partial(alone, name), repeats=5)
        print(f"{name:<15}{1000 * vectorised:>15.1f}{one_by_one:>17.2f}{one_by_one / vectorised:>8.0f}")


if __name__ == "__main__":
    main()
