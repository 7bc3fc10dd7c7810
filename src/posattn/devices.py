"""Which device a name stands for, checked before anything is allocated on it, and whether its memory is full."""

import re

import torch

from posattn.errors import PosattnError, counted, require


def resolve(name: str | torch.device = "auto") -> torch.device:
    """The device called `name`; `"auto"` is CUDA where there is one and the CPU elsewhere.

    >>> resolve("cpu")
    device(type='cpu')
    """
    if str(name) == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        raise PosattnError(f"device {name!r} is not a device's name: use 'auto', 'cpu' or 'cuda'.") from None
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        require(
            (device.index or 0) < count,
            f"device '{device}' is not there: this machine has {counted(count, 'CUDA device')}. Use 'auto' or 'cpu'.",
        )
    else:
        require(device.type == "cpu", f"device '{device}' is not supported: use 'auto', 'cpu' or 'cuda'.")
    return device


def name_of(device: torch.device) -> str:
    """What results call a device: the name of the GPU, or cpu."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def arithmetic(device: torch.device, precision: str) -> str:
    """The precision that a device computes in when asked for one: GPUs before Ampere have no TF32."""
    older = device.type == "cuda" and torch.cuda.get_device_capability(device) < (8, 0)
    return "float32" if older and precision == "tf32" else precision


def memory_is_full(error: BaseException) -> bool:
    """Whether an error says that memory is not enough. Of GPUs PyTorch has a class for that, of the CPU only words."""
    said = "can't allocate memory", "Storage size calculation overflowed", "integer multiplication overflow"
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or (
        isinstance(error, RuntimeError) and any(words in str(error) for words in said)
    )


def memory_asked_for(error: BaseException) -> str:
    """How much was asked for, in brackets, where the error says so."""
    asked = re.search(r"allocate (\d+) bytes", str(error))
    return f" ({int(asked[1]) / 2**30:,.1f} GiB were asked for at once)" if asked else ""
