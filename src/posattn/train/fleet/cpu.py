"""What makes a fleet fast on a CPU: a replica for each core instead of each product spread over all cores.

The products are small. Spread over cores, each of them ends with all cores waiting for the slowest, and waiting means
spinning: it takes the time of whoever else could run. A core that has a replica of its own never waits. And freed
memory is kept: handing megabytes back to the system after every product, and having them cleared again for the next
one, costs a quarter of the time. Numbers below 1e-38 count as 0: a product that meets them takes a hundred times as
long, and sharp attention, or the momentum of a unit that has died, is full of them.
"""

import ctypes
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor

from posattn.nn.fast.two_stages import TwoStages
from posattn.train.trial import Trial

#: Numbers in the state of a chunk of replicas. One replica of the paper's size has that many; small ones share a chunk,
#: since their products cost less than the calls that start them.
CHUNK_NUMBERS = 576_000

_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # names of glibc's malloc.h


def chunk_size(trial: Trial, replicas: int, form: Callable[..., Tensor]) -> int:
    """How many replicas one pass takes together; a form in two stages takes all of a core, and cuts them up itself."""
    share = -(-replicas // torch.get_num_threads())
    if isinstance(form, TwoStages):
        return share
    known = getattr(trial.model, "nodes", getattr(trial.model, "length", 1))
    nodes = max(trial.data.lengths, default=known)  # models with random places know far more than samples have
    width = getattr(trial.model, "hidden_dim", getattr(trial.model, "embed_dim", 1))
    return max(1, min(CHUNK_NUMBERS // (trial.data.batch * nodes * width), share))


@cache
def keep_freed_memory() -> None:
    """Ask glibc to keep freed memory for the next allocation; other C libraries are left alone."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, 1 << 30)
        mallopt(_TRIM_THRESHOLD, 2**31 - 1)


def flushes_tiny_numbers() -> bool:
    """Whether the calling thread takes numbers too small for full precision as 0."""
    return bool(torch.tensor(1e-38) * torch.tensor(0.1) == 0)


@contextmanager
def without_tiny_numbers() -> Iterator[None]:
    """Have the calling thread, not those that help it with a product, take such numbers as 0; undone at the end."""
    before = flushes_tiny_numbers()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def _prepare_thread() -> None:
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)


class Workers:
    """One thread a core, each doing its own products alone."""

    def __init__(self, chunks: int) -> None:
        cores = min(chunks, torch.get_num_threads())
        self.pool = ThreadPoolExecutor(cores, "posattn", _prepare_thread) if cores > 1 else None

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Keep the calling thread to one core as well while the others work; undone at the end."""
        before = torch.get_num_threads()
        if self.pool is not None:
            torch.set_num_threads(1)
        try:
            with without_tiny_numbers():
                yield
        finally:
            if self.pool is not None:
                torch.set_num_threads(before)

    def each(self, work: Callable[[int], None], count: int) -> None:
        """work(0), …, work(count − 1), all of them done when this returns; an error in one is raised here."""
        if self.pool is None:
            for index in range(count):
                work(index)
        else:
            list(self.pool.map(work, range(count)))
