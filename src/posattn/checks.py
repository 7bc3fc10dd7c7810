"""What a caller may pass for a number, a switch or a name, and what is kept of it.

NumPy's scalars are numbers, and bools are not. What is kept is Python's own number, which JSON can write:

>>> import numpy as np
>>> whole("heads", np.int64(2), least=1)
2
>>> whole("heads", 2.5, least=1)
Traceback (most recent call last):
posattn.errors.PosattnError: heads=2.5: it must be a whole number of at least 1.
"""

import math
import os
import sys
from collections.abc import Iterable
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
import torch

from posattn.errors import PosattnError, kind_of, require, unknown

#: What 64 bits hold; no count is larger.
LARGEST = 2**63 - 1
#: The largest whole number that a float can stand for.
LARGEST_REAL = int(sys.float_info.max)


def shown(value: Any) -> str:
    """A value as messages show it. Python itself writes out no whole number of more than 4,300 digits.

    >>> shown(0.5), shown(-(10**5000))
    ('0.5', '-1e+5000 or so')
    """
    if isinstance(value, int) and value.bit_length() > 512:
        return f"{'-' if value < 0 else ''}1e+{round(math.log10(abs(value)))} or so"
    return repr(value)


def whole(name: str, value: Any, *, least: int | None = None, most: int = LARGEST) -> int:
    """The whole number that was passed as `name`."""
    if isinstance(value, torch.SymInt):  # a size that is not known yet, while a model is exported
        return value  # pyright: ignore[reportReturnType]
    if not isinstance(value, Integral) or isinstance(value, bool) or (least is not None and int(value) < least):
        bound = "" if least is None else f" of at least {least}"
        raise PosattnError(f"{name}={shown(value)}: it must be a whole number{bound}.")
    if abs(int(value)) > most:
        raise PosattnError(f"{name}={shown(value)}: it is larger than {most}, the most that can be held.")
    return int(value)


def number(name: str, value: Any) -> float:
    """The number that was passed as `name`, finite or not. A whole number stays one."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise PosattnError(f"{name}={shown(value)}: it must be a number.")
    if isinstance(value, Integral) and abs(int(value)) > LARGEST_REAL:
        raise PosattnError(f"{name}={shown(value)}: it must be finite.")
    return int(value) if isinstance(value, Integral) else float(value)


def real(name: str, value: Any) -> float:
    """The finite number that was passed as `name`. A whole number stays one."""
    if isinstance(value, Real) and not isinstance(value, bool):
        found = int(value) if isinstance(value, Integral) else float(value)
        if abs(found) <= LARGEST_REAL:
            return found
    raise PosattnError(f"{name}={shown(value)}: it must be a finite number.")


def switch(name: str, value: Any) -> bool:
    """What was passed as `name`. A word such as "no" counts as true in Python, so only the real thing is taken."""
    require(isinstance(value, (bool, np.bool_)), f"{name}={value!r}: it must be True or False.")
    return bool(value)


def choice(kind: str, value: Any, known: Iterable[str]) -> str:
    """The name that was passed, one of those known."""
    known = list(known)
    if not isinstance(value, str) or value not in known:
        raise unknown(kind, value, known)
    return value


def generator(value: Any, *, why: str = "random numbers are drawn from it") -> torch.Generator:
    """The generator that was passed."""
    require(
        isinstance(value, torch.Generator),
        f"generator={value!r}: {why}: pass generator=torch.Generator().manual_seed(0), or one of another seed.",
    )
    return value


def tensor(name: str, value: Any) -> torch.Tensor:
    """The tensor that was passed as `name`."""
    if not isinstance(value, torch.Tensor):
        raise PosattnError(f"{name} is {kind_of(value)}: use torch.as_tensor({name if name.isidentifier() else 'x'}).")
    return value


def path(name: str, value: Any) -> Path:
    """The path that was passed as `name`."""
    is_path = isinstance(value, (str, os.PathLike)) and str(value) not in ("", ".") and "\0" not in str(value)
    require(is_path, f"{name}={value!r}: it must be the path of a file, as 'model.safetensors'.")
    return Path(value)


def folder(name: str, value: Any) -> Path:
    """The folder that was passed as `name`; it need not be there."""
    is_path = isinstance(value, (str, os.PathLike)) and "\0" not in str(value)
    require(is_path, f"{name}={value!r}: it must be the path of a folder, as 'runs'.")
    return Path(value)


def several(name: str, value: Any, kind: type, *, fix: str) -> tuple[Any, ...]:
    """What was passed as `name`: a list or a tuple of things of one class."""
    is_list = isinstance(value, (list, tuple)) and all(isinstance(entry, kind) for entry in value)
    if not is_list:  # the message alone would take long to write of a long list
        raise PosattnError(f"{name}={value!r:.80}: {fix}.")
    return tuple(value)


def text(name: str, value: Any) -> str:
    """The words that were passed as `name`."""
    require(isinstance(value, str) and bool(value.strip()), f"{name}={value!r}: it must be a word, or some words.")
    return value


def finite(name: str, value: torch.Tensor) -> torch.Tensor:
    """The tensor that was passed as `name`, without NaN and infinite values."""
    is_finite = torch.isfinite(value)
    if not is_finite.all():
        at = (~is_finite).nonzero()[0].tolist()
        raise PosattnError(f"{name}: {value[tuple(at)].item()} at {at}. Remove NaN and infinite values first.")
    return value


def instance(name: str, value: Any, kind: type | tuple[type, ...], *, fix: str) -> Any:
    """What was passed as `name`, which must be of a class; `fix` says how to get one."""
    if not isinstance(value, kind):
        raise PosattnError(f"{name} is {kind_of(value)}, {value!r:.60}: {fix}.")
    return value


def keep_whole(record: Any, *names: str, least: int | None = None) -> None:
    """Check fields of a frozen dataclass, and keep them as Python's own numbers."""
    for name in names:
        object.__setattr__(record, name, whole(name, getattr(record, name), least=least))


def keep_switches(record: Any, *names: str) -> None:
    """The same for fields that are True or False."""
    for name in names:
        object.__setattr__(record, name, switch(name, getattr(record, name)))


def keep_real(record: Any, *names: str) -> None:
    """The same for fields that are finite numbers."""
    for name in names:
        object.__setattr__(record, name, real(name, getattr(record, name)))
