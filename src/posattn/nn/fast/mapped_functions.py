"""PyTorch functions in a form that maps well over replicas, each of which has weights of its own.

Mapped as they are, a convolution becomes one of as many groups as there are replicas, which cuDNN computes one group at
a time in float32, and attention falls back to a loop. Here both are products that a whole fleet does at once:

    convolution   every window of the input as a row (a copy), times the weights as a matrix
    attention     softmax(Q·Kᵀ·scale)·V, written out
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode


@contextmanager
def mapped_functions(*, compiled: bool) -> Iterator[None]:
    """Use these forms. Where one does not apply, the function stays as it is, and attention at least is no loop."""
    with sdpa_kernel(SDPBackend.MATH), _Replaced(compiled):
        yield


class _Replaced(TorchFunctionMode):
    def __init__(self, compiled: bool) -> None:
        super().__init__()
        self.compiled = compiled

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.conv2d and self.compiled:
            return conv2d(*args, **kwargs)
        if func is F.scaled_dot_product_attention:
            return attention(*args, **kwargs)
        return func(*args, **kwargs)


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """`F.scaled_dot_product_attention`."""
    if attn_mask is not None or enable_gqa:
        rest = {"is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa}
        return F.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, **rest)
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = (query * factor) @ key.mT
    if is_causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores + torch.zeros_like(seen, dtype=scores.dtype).masked_fill(~seen, -math.inf)
    weights = scores.softmax(dim=-1)
    return (F.dropout(weights, dropout_p) if dropout_p else weights) @ value


def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """`F.conv2d`."""
    pair = [(one, one) if isinstance(one, int) else tuple(one) * (2 // len(one)) for one in (stride, dilation)]
    if groups != 1 or isinstance(padding, str) or x.dim() != 4 or pair[1] != (1, 1):
        return torch.conv2d(x, weight, bias, stride, padding, dilation, groups)
    down, across = (padding, padding) if isinstance(padding, int) else tuple(padding) * (2 // len(padding))
    out, into, height, width = weight.shape
    padded = F.pad(x, (across, across, down, down))
    h = (padded.shape[2] - height) // pair[0][0] + 1
    w = (padded.shape[3] - width) // pair[0][1] + 1
    taps = [
        padded[:, :, i : i + pair[0][0] * (h - 1) + 1 : pair[0][0], j : j + pair[0][1] * (w - 1) + 1 : pair[0][1]]
        for i in range(height)
        for j in range(width)
    ]
    windows = torch.stack(taps, dim=1).permute(0, 3, 4, 1, 2).reshape(-1, height * width * into)
    found = windows @ weight.permute(2, 3, 1, 0).reshape(height * width * into, out)
    found = found if bias is None else found + bias
    return found.view(-1, h, w, out).permute(0, 3, 1, 2).contiguous()  # group norm maps nothing else
