"""What the kernels of `posattn.nn.kernels.reading_layer` hold, for those who choose them before Triton is imported."""

import torch

#: The most nodes of a sample in one tile, the widest state, and the shared memory that the largest tiles need.
MOST_NODES, WIDEST, SHARED = 128, 128, 200_000
#: The most nodes where a multiprocessor has less than that.
FEWER_NODES = 32


def most_nodes(device: torch.device) -> int:
    """How many nodes a sample may have; a GPU that is not there is taken for a large one."""
    if device.type != "cuda" or not torch.cuda.is_available():
        return MOST_NODES
    shared = getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 0)  # of NVIDIA's
    return MOST_NODES if shared >= SHARED else FEWER_NODES


def kernels_hold(device: torch.device, precision: str, *, nodes: int, widest: int) -> bool:
    """Whether a GPU computes samples of so many nodes by them, with states, queries and values no wider than that."""
    return precision in ("float32", "tf32") and nodes <= most_nodes(device) and widest <= WIDEST
