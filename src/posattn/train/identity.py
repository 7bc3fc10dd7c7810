"""What makes a trial that trial, on every machine and in every version: its fields that differ from their defaults.

A trial's id is the start of a hash of those fields and of the schema's number, so a field that is added later, with a
default, leaves every id as it is. Another default for a field that is there is a new schema, and `from_json` of every
kind of trial goes on reading the older ones:

    schema 1   hashed all fields; a test set was drawn with its own options alone
    schema 2   hashes what differs; a test set inherits the options of the training data

A value that a class works out by itself, as the width of an encoding, counts as given.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, TypeVar

from posattn.errors import PosattnError, kind_of, require, unknown
from posattn.nn.architecture import LATER
from posattn.train.sample_options import BY_NAME, frozen, named, same

SCHEMA = 2
#: Entries of a trial whose own entries are fields, too.
PARTS = ("data", "optimiser", "evaluation")

#: Every kind of trial that can be read from JSON; that of a fleet has no `kind`.
KINDS: dict[str, type[Any]] = {}
PLAIN = "trained"

K = TypeVar("K", bound=type[Any])


def register(trial: K) -> K:
    """Let `read` know a kind of trial."""
    KINDS[getattr(trial, "kind", PLAIN)] = trial
    return trial


def read(text: str | bytes) -> Any:
    """The trial that a `to_json` wrote, of whichever kind, in this schema or an older one."""
    _, held = loads(text)
    kind = held.get("kind", PLAIN)
    if kind not in KINDS:
        raise unknown("kind of trial", kind, KINDS)
    return KINDS[kind].from_json(text)


def described(value: Any) -> Any:
    """All fields of a dataclass, at every depth, with the `kind` of those that have one; `LATER` ones if set."""
    if not dataclasses.is_dataclass(value):
        return value
    found = {"kind": getattr(value, "kind", None)} if hasattr(value, "kind") else {}
    for field in dataclasses.fields(value):
        held = getattr(value, field.name)
        if field.metadata == LATER and held == field.default:
            continue
        found[field.name] = {one.name: one.options for one in held} if field.metadata == BY_NAME else described(held)
    return found


def reduced(value: Any) -> Any:
    """The fields of a dataclass that have no default or differ from it, at every depth."""
    if not dataclasses.is_dataclass(value):
        return value
    found = {"kind": getattr(value, "kind", None)} if hasattr(value, "kind") else {}
    for field in dataclasses.fields(value):
        held = getattr(value, field.name)
        usual = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        differing = {one.name: one.options for one in held} if field.metadata == BY_NAME else reduced(held)
        if usual is dataclasses.MISSING or not same(differing, {} if field.metadata == BY_NAME else reduced(usual)):
            found[field.name] = differing
    return found


def dumps(value: Any) -> str:
    """Canonical JSON: sorted, without blanks, equal numbers written alike."""
    return json.dumps(_canonical(value), sort_keys=True, separators=(",", ":"))


def _canonical(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _canonical(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(entry) for entry in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def loads(text: str | bytes) -> tuple[int, dict[str, Any]]:
    """The schema that a trial was written in, and its entries."""
    try:
        held = json.loads(text)
        require(isinstance(held, dict), f"{kind_of(held)}, no object")
        held = frozen("entry", held)
    except (ValueError, TypeError, RecursionError) as error:
        raise no_trial(text, error) from None
    schema = held.pop("schema", 1)
    require(
        isinstance(schema, int) and schema >= 1,
        f"schema {schema!r} of a trial: it must be a whole number from 1 to {SCHEMA}.",
    )
    require(
        schema <= SCHEMA,
        f"the trial was written by a newer version of posattn (schema {schema}, this one reads up to {SCHEMA}): "
        "install that version.",
    )
    return schema, held


def check_known(held: Mapping[str, Any], written: str) -> None:
    """A KeyError where a trial that was read has an entry that it does not write: it says more than was understood."""
    known = json.loads(written)
    for name, entry in held.items():
        if name not in known:
            raise KeyError(name)
        if isinstance(entry, Mapping) and name in PARTS:
            check_known(entry, json.dumps(known[name]))


def no_trial(text: str | bytes, error: Exception) -> PosattnError:
    """The error for text that describes no trial."""
    shown = text[:80] if isinstance(text, (str, bytes)) else text
    return PosattnError(f"not the description of a trial ({error}): {shown!r}. Trial.to_json writes one.")


def settle(part: Any) -> None:
    """Bring a frozen dataclass's fields to the form that JSON gives back; its parts have done so themselves."""
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if not dataclasses.is_dataclass(value):
            settled = named(value) if field.metadata == BY_NAME else frozen(field.name, value)
            object.__setattr__(part, field.name, settled)
