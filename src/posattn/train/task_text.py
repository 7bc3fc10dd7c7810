"""Anything that a task may hold as text that is the same in every process, and another when it computes another thing.

A function is told by its source, its code and all that it has captured: defaults, closure cells, and the globals that
it reads. Functions and classes of posattn, of the standard library and of installed packages are told by their names.
"""

import dis
import functools
import hashlib
import inspect
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch

PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...), torch.dtype, torch.device)
#: Where installed packages and the standard library lie, and where posattn does.
INSTALLED = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))
HOUSE = str(Path(__file__).parents[1])
NAMED_PACKAGES = {"posattn", "torch", "numpy", "jaxtyping", "beartype"} | sys.stdlib_module_names - {"__main__"}


class Teller:
    """Tells things of one task. `unknown` is set where it computes by something that cannot be looked into."""

    def __init__(self, held: Iterable[Any]) -> None:
        self.unknown = False
        self._seen: dict[int, int] = {}
        #: The packages of what the task itself holds: they are its author's, wherever they lie.
        self._own = {_package(thing) for thing in held} - NAMED_PACKAGES

    def tell(self, value: Any) -> str:
        if isinstance(value, Enum):
            return f"{_name(type(value))}.{value.name}"
        if isinstance(value, PLAIN):
            return f"{type(value).__name__} {value!r}"
        if isinstance(value, (torch.Tensor, np.ndarray, np.generic)):
            return _array(value)
        if isinstance(value, (tuple, frozenset, set, CodeType, MethodType)):
            return self._passing(value)
        if id(value) in self._seen:  # by the order of visits: a thing may hold itself
            return f"again {self._seen[id(value)]}"
        self._seen[id(value)] = len(self._seen)
        return self._lasting(value)

    def _passing(self, value: Any) -> str:
        """What may be made anew whenever it is looked at, so that its place in memory says nothing."""
        if isinstance(value, tuple):
            return f"{_name(type(value))}({', '.join(map(self.tell, value))})"
        if isinstance(value, (frozenset, set)):
            return f"{_name(type(value))}({', '.join(sorted(map(self.tell, value)))})"
        if isinstance(value, MethodType):
            return f"method {self.tell(value.__func__)} of {self.tell(value.__self__)}"
        return f"{value.co_name} {value.co_code.hex()} {value.co_names} {self.tell(value.co_consts)}"

    def _lasting(self, value: Any) -> str:
        if isinstance(value, list):
            return f"[{', '.join(map(self.tell, value))}]"
        if isinstance(value, dict):
            return f"{{{', '.join(f'{self.tell(key)}: {self.tell(entry)}' for key, entry in value.items())}}}"
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, functools.partial):
            return f"partial {self.tell(value.func)} {self.tell(value.args)} {self.tell(value.keywords)}"
        if isinstance(value, ModuleType):
            return value.__name__
        return self._object(value)

    def _object(self, value: Any) -> str:
        wrapped = getattr(value, "__wrapped__", None)
        if wrapped is not None:
            return f"{_name(type(value))} of {self.tell(wrapped)}"
        if isinstance(value, BuiltinFunctionType):
            return f"{_name(value)} of {self.tell(value.__self__)}"
        if isinstance(value, np.ufunc):
            return value.__name__
        if not self._is_named(type(value)):
            return f"{self.tell(type(value))} {self.tell(state(value))}"
        self.unknown |= callable(value)
        return _name(type(value))

    def _function(self, function: FunctionType) -> str:
        code = function.__code__
        told = [_name(function)]
        by_name = self._is_named(function)
        if not by_name:
            told.append(_source(code))
        if not by_name or "<lambda>" in code.co_qualname:
            told.append(self.tell(code))
        wrapped = getattr(function, "__wrapped__", None)
        if by_name and wrapped is not None:  # what it computes by is known, whatever else the wrapper holds
            told.append(self.tell(wrapped))
        unknown = self.unknown
        if not by_name or "<locals>" in code.co_qualname:
            told += [self.tell(each) for each in (function.__defaults__, function.__kwdefaults__)]
            told += [self.tell(cell.cell_contents) for cell in function.__closure__ or () if _is_filled(cell)]
        if by_name and wrapped is not None:
            self.unknown = unknown
        if not by_name:
            told += [f"{name} = {text}" for name, text in self._globals(function)]
        return "\n".join(told)

    def _globals(self, function: FunctionType) -> Iterator[tuple[str, str]]:
        """The module's names that a function reads and does not set, with what they stand for."""
        codes = list(_codes(function.__code__))
        used = [(step.opname, step.argval) for code in codes for step in dis.get_instructions(code)]
        set_here = {name for operation, name in used if operation == "STORE_GLOBAL"}
        read = {name for operation, name in used if operation in ("LOAD_GLOBAL", "LOAD_NAME")} - set_here
        for name in sorted(read & function.__globals__.keys()):
            value = function.__globals__[name]
            if isinstance(value, ModuleType) and _package(value) not in NAMED_PACKAGES:
                read_of_it = {attribute for code in codes for attribute in code.co_names} & vars(value).keys()
                for attribute in sorted(read_of_it):
                    yield f"{name}.{attribute}", self._global(vars(value)[attribute])
            else:
                yield name, self._global(value)

    def _global(self, value: Any) -> str:
        """A global's value. Lists, dicts and objects may change while a task runs: they count by their types."""
        lasting = isinstance(value, (*PLAIN, tuple, frozenset, Enum, FunctionType, type, functools.partial, ModuleType))
        return self.tell(value) if lasting else _name(type(value))

    def _class(self, kind: type) -> str:
        if self._is_named(kind):
            return _name(kind)
        told = [_name(kind), _source(kind), *(self.tell(base) for base in kind.__bases__)]
        for name, value in sorted(vars(kind).items()):
            held = _undecorated(value)
            written = not name.startswith("__") and isinstance(held, (*PLAIN, tuple, list, dict, functools.partial))
            if written or isinstance(held, FunctionType):
                told.append(f"{name} = {self.tell(held)}")
        return "\n".join(told)

    def _is_named(self, thing: Any) -> bool:
        """Whether a function or class is one of posattn's or of an installed package, which its name tells."""
        package = _package(thing)
        if isinstance(thing, FunctionType):  # a wrapper takes over the name of its module, not the file of its code
            file = thing.__code__.co_filename
            return file.startswith((HOUSE, "<frozen")) or (package not in self._own and file.startswith(INSTALLED))
        file = str(getattr(sys.modules.get(thing.__module__), "__file__", None) or "")
        return package in NAMED_PACKAGES or (package not in self._own and file.startswith(INSTALLED))


def _package(thing: Any) -> str:
    named = thing.__name__ if isinstance(thing, ModuleType) else getattr(thing, "__module__", None)
    return str(named).partition(".")[0]


def _name(thing: Any) -> str:
    return f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', '')}"


def state(value: Any) -> dict[str, Any]:
    """What an object holds, in its dict and in slots."""
    slots = [name for kind in type(value).__mro__ for name in _slots(kind) if hasattr(value, name)]
    return {name: getattr(value, name) for name in slots} | getattr(value, "__dict__", {})


def _slots(kind: type) -> Iterable[str]:
    slots = vars(kind).get("__slots__", ())
    named = (slots,) if isinstance(slots, str) else slots
    return [name for name in named if not name.startswith("__")]


def _undecorated(value: Any) -> Callable[..., Any] | Any:
    if isinstance(value, (staticmethod, classmethod)):
        return value.__func__
    return value.fget if isinstance(value, property) else value


def _is_filled(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _codes(value)


def _source(thing: Any) -> str:
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError):  # typed into a shell: the code stands for it
        return ""


def _array(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        held = value.detach().cpu().contiguous()
        content, kind = held.reshape(-1).view(torch.uint8).numpy().tobytes(), str(held.dtype)
    else:
        content, kind = np.ascontiguousarray(value).tobytes(), str(value.dtype)
    return f"{kind} {tuple(value.shape)} {hashlib.sha256(content).hexdigest()}"
