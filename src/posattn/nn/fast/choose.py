"""Which form of a model a fleet runs: a fast one where there is one for its device and precision.

Every form is the same function of stacked parameters and inputs, all with a leading replica axis, and is tested against
the model's own forward pass.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from posattn.nn.architecture import Architecture
from posattn.nn.fast import (
    fully_connected,
    gpt,
    layer_by_layer,
    mixed_type,
    positional,
    random_places,
    selector,
    standard,
)
from posattn.nn.fast.any_model import mapped
from posattn.nn.fast.products import half
from posattn.nn.fully_connected import FullyConnected
from posattn.nn.gpt import GPTArchitecture
from posattn.nn.hybrid import Hybrid
from posattn.nn.mixed_type import MixedPositional, MixedStandard
from posattn.nn.positional import Positional
from posattn.nn.random_places import RandomPlaces
from posattn.nn.selector import Selector
from posattn.nn.standard import Standard

#: By the very class of an architecture: a subclass is another function.
FORMS: dict[type[Architecture], Callable[..., Callable[..., Tensor] | None]] = {
    Positional: positional.form,
    Standard: standard.form,
    MixedPositional: mixed_type.form,
    MixedStandard: mixed_type.form,
    GPTArchitecture: gpt.form,
    Selector: selector.form,
    FullyConnected: fully_connected.form,
    Hybrid: layer_by_layer.form,
    RandomPlaces: random_places.form,
}


def fast_form(architecture: Architecture, *, device: torch.device, precision: str) -> Callable[..., Tensor]:
    """The fastest form for training on a device, at a precision of `posattn.train`: `form(parameters, *inputs)`."""
    choose: Callable[..., Any] | None = FORMS.get(type(architecture))
    found = None if choose is None else choose(architecture, device=device, precision=precision)
    if found is not None:
        return found
    own = mapped(architecture)
    return half(own, device) if precision == "bf16" else own
