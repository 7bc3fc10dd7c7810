"""What can be wrong with a value, by the annotation of the parameter that it is passed for."""

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin

import numpy as np
import torch
from torch import Tensor

NAN, INFINITY, HUGE = float("nan"), float("inf"), 10**20


@dataclass(frozen=True)
class Bad:
    """One wrong value: its label in a test's name, and what the message must show of it (any of several forms)."""

    label: str
    value: Any
    shown: tuple[str, ...] = ()  # none: what `forms` finds
    nearest: str | None = None  # the right name, which the message must offer

    @property
    def forms(self) -> tuple[str, ...]:
        return self.shown or forms(self.value)


@dataclass(frozen=True)
class File:
    """A path below the folder of bad files, for a parameter that is read."""

    name: str

    def below(self, folder: Path) -> Path:
        return folder / self.name


#: Files that hold no model, in the folder that `bad_files` fills.
FILES = ("missing.safetensors", "folder", "garbage.safetensors", "truncated.safetensors", "empty.safetensors")


def bad_files(folder: Path, good: bytes) -> None:
    """What a path can lead to instead of a model; `good` is a model's file."""
    (folder / "folder").mkdir()
    (folder / "garbage.safetensors").write_bytes(bytes(range(256)) * 9)
    (folder / "truncated.safetensors").write_bytes(good[: len(good) // 2])
    (folder / "empty.safetensors").write_bytes(b"")


def forms(value: Any) -> tuple[str, ...]:
    """How a message may show a value."""
    if isinstance(value, File):
        return (value.name,)
    if isinstance(value, Tensor):
        return str(tuple(value.shape)), str(value.dtype), "nan"
    if isinstance(value, np.ndarray):
        return "ndarray", str(value.shape), str(value)
    entries = [repr(entry) for entry in value] if isinstance(value, tuple) else []
    settled = ["()"] if value == [] else []  # lists are kept as tuples
    return repr(value), str(value), type(value).__name__, *entries, *settled


def misspelt(name: str) -> str:
    """A name with its last two letters changed round, or the last one doubled where that gives the same word."""
    turned = name[:-2] + name[-1] + name[-2]
    return turned if turned != name else name + name[-1]


def plain(*values: Any) -> list[Bad]:
    return [Bad(f"{value!r}"[:24], value) for value in values]


WHOLE = [*plain(0, -1, 1.5, "x", True, NAN, []), Bad("10**20", HUGE)]
REAL = plain(NAN, INFINITY, "x", [], True)
SWITCH = plain("no", 1, 0.0)
NAME = plain(3, [], "")
READ = [Bad(name, File(name)) for name in FILES] + plain(3, "")
OBJECT = plain(3, "x", [])
GENERATOR = plain(3, "x")
DEVICE = plain("gpu", "cuda:99", "", 3.5, [])
DTYPE = [*plain("float32", 3), Bad("int64", torch.int64)]
SEQUENCE = plain(3, "x")
MAPPING = plain(3, "x")
FUNCTION = plain(3, "x")


def wrong_tensors(good: Tensor) -> Iterator[Bad]:
    """The good one in a wrong shape, a wrong dtype, with NaN, or as something else."""
    yield Bad("a scalar", good.flatten()[0])
    yield Bad("another axis", good.unsqueeze(0))
    if good.is_floating_point():
        yield Bad("whole numbers", good.long())
        yield Bad("NaN", torch.full_like(good, NAN))
    else:
        yield Bad("floating point", good.float())
    yield Bad("a list", good.tolist(), shown=("list",))
    yield Bad("an array", good.numpy())


def kind(annotation: Any) -> Any:
    """What decides which values are wrong: a type, or "path", "tensor", "device"."""
    if isinstance(annotation, str):
        return object
    types = [part for part in (get_args(annotation) if is_union(annotation) else (annotation,)) if part is not NoneType]
    if any(get_origin(part) is os.PathLike or part is os.PathLike for part in types) or Path in types:
        return "path"
    if torch.device in types:
        return "device"
    if any(is_tensor(part) for part in types):
        return "tensor" if str not in types else str
    if any(is_array(part) for part in types):
        return "array"
    first = get_origin(types[0]) or types[0]
    return first if inspect.isclass(first) else object


def is_union(annotation: Any) -> bool:
    return (len(get_args(annotation)) > 1 and not inspect.isclass(get_origin(annotation))) or (
        type(annotation).__name__ == "UnionType"
    )


def is_tensor(part: Any) -> bool:
    return part is Tensor or getattr(part, "array_type", None) is Tensor


def is_array(part: Any) -> bool:
    return getattr(part, "array_type", None) is np.ndarray or get_origin(part) is np.ndarray


def by_kind(parameter: inspect.Parameter, good: Any) -> list[Bad]:
    """The wrong values for a parameter, beside the good one that the valid call passes or would pass."""
    if parameter.kind is parameter.VAR_KEYWORD:
        return [Bad("an unknown option", {"lenght": 3}, shown=("lenght",))]
    found = kind(parameter.annotation)
    bad: list[Bad] = []
    if found == "path":
        bad = READ
    elif found == "device":
        bad = DEVICE
    elif found == "tensor" and isinstance(good, Tensor):
        bad = list(wrong_tensors(good))
    elif found == "tensor":
        bad = plain(3, "x")
    elif found == "array":
        bad = plain(NAN, "x")
    elif found in TABLE:
        bad = TABLE[found]
    elif found is str:
        spelt = [Bad("misspelt", misspelt(good), nearest=good)] if isinstance(good, str) and len(good) > 2 else []
        bad = [*spelt, *NAME]
    elif inspect.isclass(found) and issubclass(found, Mapping):
        bad = MAPPING
    elif (inspect.isclass(found) and issubclass(found, tuple | list)) or "collections.abc" in str(found):
        bad = FUNCTION if found is Callable or "Callable" in str(found) else SEQUENCE
    elif parameter.annotation is not Any and parameter.annotation is not parameter.empty:
        bad = OBJECT
    accepts_none = NoneType in get_args(parameter.annotation) or parameter.default is None
    named = {entry.label for entry in bad}
    return bad if accepts_none or not bad or "None" in named else [*bad, *plain(None)]


TABLE: dict[Any, list[Bad]] = {
    int: WHOLE,
    float: REAL,
    bool: SWITCH,
    torch.Generator: GENERATOR,
    torch.dtype: DTYPE,
}
