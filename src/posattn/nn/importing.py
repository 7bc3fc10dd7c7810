"""A user's function by its name, "package.module:function", imported when it is asked for and not before."""

import difflib
import importlib
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

from posattn import user_code
from posattn.errors import PosattnError, require


def named(name: str) -> Callable[..., Any]:
    """The function called "package.module:function"."""
    module_name, function = split(name)
    if module_name not in sys.modules:
        _check_there(name, module_name)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise PosattnError(f"'{name}' cannot be imported: {blame(error)}. Mend that line.") from error
    found = getattr(module, function, None)
    if found is None:
        public = [one for one, held in vars(module).items() if callable(held) and not one.startswith("_")]
        near = difflib.get_close_matches(function, public, n=1, cutoff=0.5)
        hint = f"did you mean '{near[0]}'?" if near else "name a function that returns a torch.nn.Module."
        raise PosattnError(f"'{name}': module '{module_name}' has no '{function}': {hint}")
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
        raise PosattnError(f"'{name}' cannot be imported: {blame(error)}. Mend that line.") from error
    require(
        there,
        f"'{name}': there is no module '{module}' to import. Install it, start in the folder it lies in, or set "
        "PYTHONPATH.",
    )


def blame(error: BaseException) -> str:
    """What went wrong in a user's code, with the file and line where that is known."""
    place = user_code.failed_at(error)
    return user_code.said(error) if place is None else f"{user_code.said(error)} ({place})"
