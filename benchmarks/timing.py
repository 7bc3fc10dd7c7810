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
