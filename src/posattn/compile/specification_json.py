"""Specifications as JSON: the name of a kind, then its fields."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from posattn.compile.expressions import Expression
from posattn.compile.specification import KINDS, Semigroup, Specification
from posattn.errors import PosattnError, require

Pack = Callable[[Expression], Any]
Unpack = Callable[[Any], Expression]


def packed(specification: Specification | None, pack: Pack) -> dict[str, Any] | None:
    """{"kind": "Scan", "op": "sum"}. `pack` writes an expression."""
    if specification is None:
        return None
    return {"kind": type(specification).__name__} | _fields(specification, pack)


def unpacked(held: Any, unpack: Unpack) -> Specification | None:
    """The specification that `packed` wrote. `unpack` reads an expression."""
    if held is None:
        return None
    require(isinstance(held, dict) and held.get("kind") in KINDS, f"{held!r:.60} is not a specification.")
    kind = KINDS[held["kind"]]
    known = {field.name for field in dataclasses.fields(kind)}
    fields = ", ".join(sorted(known)) or "no field"
    require(set(held) == known | {"kind"}, f"a specification {held['kind']} has {fields}.")
    return kind(**{name: _read(name, held[name], unpack) for name in known})


def _fields(record: Any, pack: Pack) -> dict[str, Any]:
    return {field.name: _written(getattr(record, field.name), pack) for field in dataclasses.fields(record)}


def _written(value: Any, pack: Pack) -> Any:
    if isinstance(value, Expression):
        return pack(value)
    if isinstance(value, Semigroup):
        return _fields(value, pack)
    if isinstance(value, Mapping):
        return {name: _written(entry, pack) for name, entry in value.items()}
    if isinstance(value, tuple):
        return [_written(entry, pack) for entry in value]
    return value


def _read(name: str, value: Any, unpack: Unpack) -> Any:
    """What a field of this name holds; the constructors check the rest."""
    match name, value:
        case (("enter" | "join"), {**held}):
            return {part: unpack(entry) for part, entry in held.items()}
        case (("leave" | "never_negative"), [*held]):
            return tuple(map(unpack, held))
        case "values", {**held}:
            return {output: tuple(map(unpack, entries)) for output, entries in held.items()}
        case "op", {**held}:
            require(set(held) == {field.name for field in dataclasses.fields(Semigroup)}, "its op is not a semigroup.")
            return Semigroup(**{str(part): _read(str(part), entry, unpack) for part, entry in held.items()})
        case (("runs" | "ranks" | "table" | "parts"), [*held]):
            return tuple(held)
        case (("source" | "op"), int() | str()):
            return value
    raise PosattnError(f"its {name} is {value!r:.60}.")
