"""Code of users: found by its name, and quoted by file and line where it fails.

Nothing here runs unless a caller asks for it: reading results imports no user code.
"""

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

from posattn.errors import PosattnError, require, unknown

#: Frames of these folders are not the user's.
OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def named(name: str) -> Callable[..., Any]:
    """The function called "package.module:function"."""
    module_name, function = split(name)
    if module_name not in sys.modules:
        _check_there(name, module_name)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise PosattnError(f"'{name}' cannot be imported: {blame(error)}. Mend that first.") from error
    found = getattr(module, function, None)
    if found is None:
        own = {one: held for one, held in vars(module).items() if getattr(held, "__module__", None) == module_name}
        public = [one for one, held in own.items() if callable(held) and not one.startswith("_")]
        raise unknown(f"function of module '{module_name}'", function, public)
    require(callable(found), f"'{name}' is {found!r:.60}: it must be a function that returns a torch.nn.Module.")
    return found


def split(name: str) -> tuple[str, str]:
    """Module and function of "package.module:function"."""
    module, colon, function = name.partition(":")
    parts = module.split(".")
    whole = bool(colon) and function.isidentifier() and all(part.isidentifier() for part in parts)
    require(whole, f"'{name}': write PACKAGE.MODULE:FUNCTION, as mymodels:mlp for the function mlp of mymodels.py.")
    return module, function


def _check_there(name: str, module: str) -> None:
    try:
        there = importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        there = False
    except Exception as error:  # the packages above it are imported to look
        raise PosattnError(f"'{name}' cannot be imported: {blame(error)}. Mend that first.") from error
    require(
        there,
        f"'{name}': there is no module '{module}' to import. Install it, start in the folder it lies in, or set "
        "PYTHONPATH.",
    )


def blame(error: BaseException) -> str:
    """What went wrong in a user's code, with the file and line where that is known."""
    said = f"{type(error).__name__}: {error}".splitlines()[0].rstrip(".: ")
    if isinstance(error, SyntaxError):
        said = f"{type(error).__name__}: {error.msg}"
    where = place(error)
    return f"{where}: {said}" if where else said


def place(error: BaseException) -> str:
    """File and line of the user's code that an error comes from; nothing where it comes from elsewhere."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_users(frame.filename)]
    return f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else ""


def is_users(file: str) -> bool:
    """Whether a file is neither posattn's, nor Python's, nor of an installed package."""
    installed = f"{os.sep}site-packages{os.sep}" in file or f"{os.sep}dist-packages{os.sep}" in file
    python = file.startswith(("<", os.path.dirname(os.__file__)))
    return not installed and not python and not file.startswith(OURS)
