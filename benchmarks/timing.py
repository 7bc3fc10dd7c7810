"""The median time of some work, after once to warm up, on a CPU or a GPU."""

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


def needs_gpu() -> None:
    """End here, in one line, where there is no GPU to measure."""
    import torch

    if not torch.cuda.is_available():
        raise SystemExit("this measures an NVIDIA GPU, and PyTorch finds none here.")


def gpu_milliseconds(step: Callable[[], object], steps: int) -> float:
    """Of one step on a GPU, timed in blocks of so many."""
    import torch

    def block() -> None:
        for _ in range(steps):
            step()
        torch.cuda.synchronize()

    torch.cuda.synchronize()
    return 1e3 * seconds(block) / steps
