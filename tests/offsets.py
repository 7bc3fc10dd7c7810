"""Tensors at chosen addresses: some CPUs round products of operands that are not aligned differently."""

import torch
from torch import Tensor

#: Torch puts every new tensor at a multiple of this many bytes.
ALIGNED = 64


def offset(tensor: Tensor) -> int:
    """How many bytes past such a multiple a tensor starts."""
    return tensor.data_ptr() % ALIGNED


def placed(tensor: Tensor, at: int) -> Tensor:
    """A copy that starts `at` bytes past a multiple of 64, or at the next such place that its dtype can start at."""
    wanted = -(-at // tensor.element_size()) * tensor.element_size() % ALIGNED
    size = tensor.numel() * tensor.element_size()
    buffer = torch.empty(size + 2 * ALIGNED, dtype=torch.uint8)
    start = -buffer.data_ptr() % ALIGNED + wanted
    copy = buffer[start : start + size].view(tensor.dtype).view(tensor.shape).copy_(tensor)
    assert offset(copy) == wanted
    return copy
