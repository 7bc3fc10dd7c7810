"""What to look for while a user's module is traced, and how to say why one cannot be mapped over replicas."""

import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from posattn import user_code
from posattn.errors import PosattnError
from posattn.nn import importing


class NoHooks(TorchFunctionMode):
    """Refuse hooks on tensors inside a forward pass: mapped, they would not be called."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.register_hook:
            raise PosattnError("its forward pass puts a hook on a tensor's gradient")
        return func(*args, **kwargs or {})


def reason_of(error: Exception, module: nn.Module) -> str:
    """Why a module cannot be mapped, in words of its author where they are known."""
    parts = list(module.modules())
    running = [one for one in parts if isinstance(one, nn.modules.batchnorm._NormBase) and one.track_running_stats]
    if module.training and running:
        return "batch norm changes its running means while it trains (nn.GroupNorm and nn.LayerNorm work)"
    recurrent = next((type(one).__name__ for one in parts if isinstance(one, nn.RNNBase)), None)
    if recurrent is not None:
        return f"PyTorch has no rule for nn.{recurrent} with many weights at once (steps written out in Python work)"
    if "data-dependent control flow" in str(error) or "aten::_local_scalar_dense" in str(error):
        return f"what it does depends on values that it computes ({user_code.failed_at(error)})"
    if "inplace arithmetic" in str(error):
        return f"it writes into a tensor that all replicas share ({user_code.failed_at(error)})"
    return str(error).rstrip(".") if isinstance(error, PosattnError) else importing.blame(error)


@contextmanager
def watched() -> Iterator[Callable[[], bool]]:
    """Notice draws from the generators of Python and NumPy: a trace would keep what was drawn once."""

    def states() -> tuple[Any, ...]:
        return random.getstate(), str(np.random.get_state())

    before = states()
    yield lambda: states() != before


@contextmanager
def fixed_order() -> Iterator[None]:
    """Have cuDNN choose among algorithms that add up in a fixed order, so that a run can be repeated bit for bit."""
    before = torch.backends.cudnn.deterministic
    torch.backends.cudnn.deterministic = True
    try:
        yield
    finally:
        torch.backends.cudnn.deterministic = before


@contextmanager
def disorder() -> Iterator[list[str]]:
    """Collect what PyTorch says of operations that add up in no fixed order on a GPU."""
    found: list[str] = []
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            yield found
        finally:
            torch.use_deterministic_algorithms(before[0], warn_only=before[1])
    for warning in caught:
        name = str(warning.message).partition(" does not have a deterministic")[0]
        if name != str(warning.message):
            found.append(f"{name} adds up in no fixed order: a run that is interrupted may end with other last bits")
