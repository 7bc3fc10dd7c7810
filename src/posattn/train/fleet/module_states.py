"""What a module keeps in Python attributes, as a value: nothing else says that its forward pass has changed them."""

import random
from typing import Any

import numpy as np
import torch
from torch import nn

#: Attributes of every module that PyTorch looks after.
PYTORCHS = set(vars(nn.Module()))


def states(module: nn.Module) -> dict[str, Any]:
    """Every attribute of a module and its submodules, such that one that has changed compares unequal."""
    found = {}
    for path, part in module.named_modules():
        for name, value in vars(part).items():
            if name not in PYTORCHS:
                found[f"{path}.{name}".lstrip(".")] = _told(value)
    return found


def _told(value: Any) -> Any:
    if isinstance(value, random.Random):
        return value.getstate()
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if isinstance(value, torch.Generator):
        return value.get_state().tolist()
    if isinstance(value, (bool, int, float, complex, str, bytes, type(None))):
        return value
    if isinstance(value, (list, tuple)):
        return tuple(map(_told, value))
    if isinstance(value, dict):
        return {name: _told(entry) for name, entry in value.items()}
    return id(value)


def hooked(module: nn.Module) -> str | None:
    """The name of a parameter or submodule with a hook on its gradient; None where there is none."""
    for name, held in module.named_parameters():
        if getattr(held, "_backward_hooks", None) or getattr(held, "_post_accumulate_grad_hooks", None):
            return name
    for name, part in module.named_modules():
        if part._backward_hooks or part._backward_pre_hooks:
            return name or "the module itself"
    return None
