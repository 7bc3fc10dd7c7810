"""Arrays from files and from pandas frames. Nothing is unpickled."""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError

from posattn import checks
from posattn.errors import PosattnError, kind_of, require

if TYPE_CHECKING:
    import pandas as pd

KINDS = (".npz", ".safetensors")


def read_arrays(file: Path) -> dict[str, Any]:
    """Every array of a file by its name."""
    require(file.suffix in KINDS, f"'{file}': data is read from {' and '.join(KINDS)} files. Save it as one.")
    try:
        if file.suffix == ".npz":
            with np.load(file, allow_pickle=False) as held:
                return {name: held[name] for name in held.files}
        from safetensors.torch import load_file

        return load_file(file)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, SafetensorError) as error:
        raise PosattnError(
            f"'{file}' cannot be read ({error}): write it again, by numpy.savez or safetensors."
        ) from None


def columns(frame: "pd.DataFrame", target: str, inputs: Sequence[str] | None) -> tuple[np.ndarray, np.ndarray]:
    """The matrix of some columns of a frame, in float64 where they are, and the column that is the target."""
    import pandas as pd

    checks.instance("frame", frame, pd.DataFrame, fix="pass a pandas frame, as pandas.read_csv('data.csv')")
    known = [str(name) for name in frame.columns]
    twice = next((name for name in known if known.count(name) > 1), None)
    require(twice is None, f"two columns are called '{twice}': give each a name of its own.")
    checks.choice("column", target, known)
    chosen = [name for name in known if name != target] if inputs is None else inputs
    chosen = checks.several("inputs", chosen, str, fix="give a list of columns, as ['width', 'height']")
    require(len(chosen) > 0, f"inputs={list(chosen)}: there is no column besides '{target}'. Name at least one.")
    for name in chosen:
        checks.choice("column", name, known)
        kind = frame[name].dtype
        require(
            pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_complex_dtype(kind),
            f"column '{name}' holds {kind}, and inputs are numbers: leave it out of inputs, or encode it.",
        )
    width = np.float32 if all(frame[name].dtype == np.float32 for name in chosen) else np.float64
    return frame[list(chosen)].to_numpy(dtype=width), _target(target, frame[target])


def _target(name: str, column: Any) -> np.ndarray:
    """Numbers as they are; text, categories and truth values as classes."""
    import pandas as pd

    missing = int(column.isna().sum())
    require(missing == 0, f"column '{name}' lacks {missing} of {len(column)} values: drop those rows, frame.dropna().")
    if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype):
        return column.to_numpy()
    try:
        return pd.Categorical(column, categories=sorted(column.unique())).codes.astype(np.int64)
    except TypeError:
        raise PosattnError(
            f"column '{name}' holds {kind_of(column.iloc[0])} and others, in no order: make it numbers or text."
        ) from None
