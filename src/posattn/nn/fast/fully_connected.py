"""Fully connected networks in fleets: bias and product at once, where a mapped model takes two passes."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from posattn.nn.fast.products import affine, half
from posattn.nn.fully_connected import FullyConnected
from posattn.nn.initial_weights import Params


def form(sizes: FullyConnected, *, device: torch.device, precision: str) -> Callable[..., Tensor]:
    """The same at every precision; bfloat16 by autocast."""
    run = partial(layers, sizes)
    return half(run, device) if precision == "bf16" else run


def layers(sizes: FullyConnected, p: Params, x: Tensor, subset: Tensor, key: Tensor) -> Tensor:
    """ReLU layers on [X, indicator of the subset]; the key is for models with encodings."""
    chosen = torch.zeros_like(x[..., 0]).scatter(2, subset, 1.0)
    state = torch.cat([x.flatten(2), chosen], dim=-1)
    for index in range(len(sizes.widths)):
        state = affine(p, f"layer{index}", state).relu()
    return affine(p, f"layer{len(sizes.widths)}", state)
