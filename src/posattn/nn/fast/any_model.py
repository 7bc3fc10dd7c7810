"""Any model in a fleet: its own forward pass, mapped over the replicas by `torch.vmap`."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call

from posattn.nn.architecture import Architecture
from posattn.nn.initial_weights import Params
from posattn.nn.layout import unstack
from posattn.nn.module import without_weights


def mapped(architecture: Architecture, options: Mapping[str, Any] | None = None) -> Callable[..., Tensor]:
    """The model's forward pass as a function of stacked parameters and inputs that have a leading replica axis.

    `options` are those of the forward pass.
    """
    held = threading.local()  # a call puts the parameters into the module for its time, and threads run side by side

    def one(p: Params, *inputs: Tensor) -> Tensor:
        return functional_call(held.module, unstack(architecture, p), inputs, dict(options or {}))

    def every(p: Params, *inputs: Tensor) -> Tensor:
        if not hasattr(held, "module"):
            held.module = without_weights(architecture)
        return torch.vmap(one)(p, *inputs)

    return every
