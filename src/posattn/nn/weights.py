"""Models on disk: one safetensors file with the weights and, in its header, the whole architecture."""

import os
from collections.abc import Mapping
from pathlib import Path

import safetensors
import safetensors.torch
from torch import Tensor

from posattn.errors import PosattnError, require
from posattn.files import write_whole
from posattn.nn.architecture import Architecture, from_json
from posattn.nn.initial_weights import Params

#: Raised when a file can no longer be read by older versions.
FORMAT = 1


def write_weights(
    path: str | os.PathLike[str],
    architecture: Architecture,
    tensors: Params,
    *,
    notes: Mapping[str, str] | None = None,
) -> None:
    """`notes` are further entries of the header, for `read_header`."""
    header = {"posattn": str(FORMAT), "architecture": architecture.to_json(), **(notes or {})}
    held = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
    write_whole(path, safetensors.torch.save(held, metadata=header))


def read_header(path: str | os.PathLike[str]) -> dict[str, str]:
    """What a model's file says about itself."""
    return _opened(Path(path))[0]


def read_weights(path: str | os.PathLike[str]) -> tuple[Architecture, Params]:
    """Architecture and weights, each checked against the other, unless that would take a user's code."""
    header, tensors = _opened(Path(path))
    try:
        return _checked(header, tensors)
    except PosattnError as error:
        raise PosattnError(f"'{path}' cannot be loaded: {error}") from None


def _opened(path: Path) -> tuple[dict[str, str], Params]:
    require(not path.is_dir(), f"'{path}' is a folder: name the file in it.")
    require(path.exists(), f"'{path}' is not there: check the path.")
    require(path.is_file(), f"'{path}' is not a regular file: name one that a model was saved to.")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            return file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no dict)
    except (safetensors.SafetensorError, OSError) as error:
        raise PosattnError(f"'{path}' is damaged or is not a safetensors file: {error}") from None


def _checked(header: dict[str, str], tensors: Params) -> tuple[Architecture, Params]:
    require("posattn" in header, "it holds no posattn model (no description in its header).")
    written = header["posattn"]
    require(
        written in map(str, range(1, FORMAT + 1)),
        f"it has format {written}, this version reads up to {FORMAT}. Install a newer posattn.",
    )
    architecture = from_json(header.get("architecture", ""))
    if architecture.foreign:
        return architecture, tensors
    expected = architecture.shapes()
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    for name in sorted(expected.keys() | found.keys()):
        require(
            expected.get(name) == found.get(name),
            f"tensor '{name}' is {_shown(found.get(name))} in the file and {_shown(expected.get(name))} in the "
            "architecture that it states.",
        )
    dtypes = {tensor.dtype for tensor in tensors.values()}
    require(
        len(dtypes) == 1 and all(_is_float(tensor) for tensor in tensors.values()),
        f"its tensors have dtypes {sorted(map(str, dtypes))}: one floating-point dtype is expected.",
    )
    return architecture, {name: tensors[name] for name in expected}  # in the order in which they were made


def _shown(shape: tuple[int, ...] | None) -> str:
    return "absent" if shape is None else f"of shape {shape}"


def _is_float(tensor: Tensor) -> bool:
    return tensor.is_floating_point()


def check_finite_weights(what: str, tensors: Params) -> None:
    """Refuse a model whose weights are not numbers: nothing that is computed from them means anything."""
    for name, tensor in tensors.items():
        require(
            bool(tensor.isfinite().all()),
            f"{what}: its tensor '{name}' holds NaN or infinite values, as after training that diverged. Train "
            "(with a lower learning rate) or compile it again, or use another file.",
        )
