"""The median time of some work, after once to warm up."""

import statistics
import time
from collections.abc import Callable


def seconds(work: Callable[[], object], runs: int = 7) -> float:
    work()
    taken = []
    for _ in range(runs):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def gpu_milliseconds(step: Callable[[], object], steps: int) -> float:
    """Of one step on a GPU, timed in blocks of so many."""
    import torch

    def block() -> None:
        for _ in range(steps):
            step()
        torch.cuda.synchronize()

    torch.cuda.synchronize()
    return 1e3 * seconds(block) / steps
