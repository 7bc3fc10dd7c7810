"""What the kernels of `posattn.nn.kernels.reading_layer` hold, for those who choose them before Triton is imported."""

import torch
from torch import Tensor

#: The most nodes of a sample in one tile, the widest state, and the shared memory that the largest tiles need.
MOST_NODES, WIDEST, SHARED = 128, 128, 200_000
#: The most nodes where a multiprocessor has less than that.
FEWER_NODES = 32
#: A replica's part of a tensor has fewer numbers: the kernels count them in 32 bits.
NUMBERS = 2**31


def most_nodes(device: torch.device) -> int:
    """How many nodes a sample may have; a GPU that is not there is taken for a large one."""
    if device.type != "cuda" or not torch.cuda.is_available():
        return MOST_NODES
    shared = getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 0)  # of NVIDIA's
    return MOST_NODES if shared >= SHARED else FEWER_NODES


def kernels_hold(device: torch.device, precision: str, *, nodes: int, widest: int) -> bool:
    """Whether a GPU computes samples of so many nodes by them, with states, queries and values no wider than that."""
    return precision in ("float32", "tf32") and nodes <= most_nodes(device) and widest <= WIDEST


def samples_fit(given: Tensor, *, nodes: int, widest: int, heads: int) -> bool:
    """Whether these samples, (replicas, batch, …), are some, with no more nodes and no more of them than that.

    A model may take longer inputs than it was built for. Its widest rows are queries and keys for every head, what a
    node knows itself and values, or the weights of every head.
    """
    row = max(2 * (heads + 1) * widest, heads * nodes)
    return 0 < given.shape[1] * nodes * row < NUMBERS and nodes <= most_nodes(given.device)
