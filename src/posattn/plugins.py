"""Tasks, studies and programs that users bring: from a Python file, or from an installed package.

A package offers them by entry points, in the groups `posattn.tasks`, `posattn.studies` and `posattn.programs`; an entry
point has the name of what it offers and leads to a module that registers it, or to the thing itself:

    [project.entry-points."posattn.tasks"]
    parity = "my_package.parity:Parity"

Nothing is imported before it is asked for, and reading results asks for nothing.
"""

import difflib
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Sequence
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from posattn import checks, user_code
from posattn.errors import PosattnError, require, unknown

#: What plugins bring, and what one of it is called.
KINDS = {"tasks": "task", "studies": "study", "programs": "program"}
#: A module from a file is called this and the file's name, wherever it lies: a task's hash has its module's name in it.
PREFIX = "posattn_plugin_"


def load(plugin: str | os.PathLike[str]) -> Any:
    """Import a Python file, once, or an installed plugin by its name, so that what it registers is known."""
    is_path = isinstance(plugin, (str, os.PathLike)) and str(plugin) != "" and "\0" not in str(plugin)
    require(is_path, f"plugin={plugin!r}: name a Python file, as 'mine.py', or an installed plugin.")
    text = os.fspath(plugin)
    offered = [entry for kind in KINDS for entry in _offered(kind).values() if entry.name == text]
    if offered and not _looks_like_a_file(text):
        return [_load_installed(kind, text) for kind in KINDS if text in _offered(kind)][-1]
    return _load_file(text)


def load_all(plugins: Sequence[str | os.PathLike[str]] | None) -> None:
    """The same for several, in their order."""
    if plugins is not None and not isinstance(plugins, (list, tuple)):
        raise PosattnError(f"plugins={plugins!r:.60}: give a list of files and names, as ['mine.py'].")
    for plugin in plugins or ():
        load(plugin)


def installed(kind: str) -> dict[str, str]:
    """The names that installed packages offer of a kind ("tasks", "studies", "programs"), and which package does.

    They are read from the packages' metadata: nothing is imported.
    """
    checks.choice("kind of plugin", kind, KINDS)
    return {name: entry.dist.name if entry.dist is not None else "a package" for name, entry in _offered(kind).items()}


def provide(kind: str, name: str) -> None:
    """Load the installed plugin that offers a name, where nothing of that name is known yet."""
    known, offered = _registry(checks.choice("kind of plugin", kind, KINDS)), _offered(kind)
    if not isinstance(name, str) or name not in (*known, *offered):
        raise unknown(KINDS[kind], name, [*known, *offered])
    if name not in known:
        _load_installed(kind, name)


@cache
def _offered(kind: str) -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in sorted(entry_points(group=f"posattn.{kind}"), key=lambda entry: entry.name)}


def _registry(kind: str) -> dict[str, Any]:
    if kind == "tasks":
        from posattn import tasks

        return tasks.REGISTRY
    if kind == "studies":
        from posattn import studies

        return studies.REGISTRY
    from posattn.compile import library

    return library.PROGRAMS


def _load_installed(kind: str, name: str) -> Any:
    entry, package = _offered(kind)[name], installed(kind)[name]
    try:
        found = entry.load()
        if not isinstance(found, ModuleType):
            _register(kind, found)
    except (Exception, SystemExit) as error:
        raise _failure(f"plugin '{name}' of {package}", error, own=_own_file(entry, error)) from error
    one = KINDS[kind]
    require(
        name in _registry(kind),
        f"plugin '{name}' of {package} ({entry.value}) registers no {one} '{name}': give the {one} that name, or the "
        "entry point another.",
    )
    return found


def _register(kind: str, found: Any) -> None:
    if kind == "tasks":
        from posattn.tasks import register
    elif kind == "studies":
        from posattn.studies import register

        found = found if isinstance(found, type) else type(found)
    else:
        from posattn.compile.programs.library import register
    register(found)


def _looks_like_a_file(text: str) -> bool:
    return text.endswith(".py") or os.sep in text


def _load_file(text: str) -> ModuleType:
    path = Path(os.path.realpath(text))
    if not path.is_file():
        if path.is_dir():
            raise PosattnError(f"plugin '{text}' is a folder: name a Python file in it.")
        raise _not_there(text, path.parent)
    name = PREFIX + re.sub(r"\W", "_", path.stem)
    held = sys.modules.get(name)
    if held is not None:
        same = held.__file__ == str(path)
        require(same, f"plugin '{text}': '{held.__file__}' is loaded and has the same name. Rename one of the files.")
        return held
    return _import(name, path, text)


def _not_there(text: str, folder: Path) -> PosattnError:
    known = [name for kind in KINDS for name in _offered(kind)]
    known += [path.name for path in sorted(folder.glob("*.py"))] if folder.is_dir() else []
    near = difflib.get_close_matches(os.path.basename(text), known, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'?" if near else "name a Python file, as mine.py."
    return PosattnError(f"plugin '{text}' is neither a file nor an installed plugin: {hint}")


def _import(name: str, path: Path, given: str) -> ModuleType:
    """Import a file under a name, with its folder on the path meanwhile, so that it finds the files beside it."""
    loader = SourceFileLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__dict__["__plugin__"] = given  # for commands that reports show
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    try:
        loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _failure(f"plugin '{given}'", error, own=str(path)) from error
    finally:
        sys.path.remove(str(path.parent))
    return module


def _own_file(entry: EntryPoint, error: BaseException) -> str | None:
    """The file of an entry point's module, if an error came through it."""
    module = entry.module.replace(".", os.sep)
    files = [step.filename for step in traceback.extract_tb(error.__traceback__)]
    ends = (f"{os.sep}{module}.py", f"{os.sep}{module}{os.sep}__init__.py")
    return next((file for file in files if file.endswith(ends)), None)


def _failure(what: str, error: BaseException, own: str | None = None) -> PosattnError:
    place = user_code.failed_at(error, own=own)
    at = "" if place is None else f" ({place})"
    reason = str(error) if isinstance(error, PosattnError) else f"{user_code.said(error)}. Mend that line."
    return PosattnError(f"{what} cannot be imported{at}: {reason}")
