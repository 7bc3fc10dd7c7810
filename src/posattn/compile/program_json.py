"""Programs as JSON: a compiled model's file holds the whole program that it was compiled from."""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from posattn.compile.expressions import Call, Equal, Expression, Positive, shared_parts, tree
from posattn.compile.expressions.known_functions import ARGUMENTS, FUNCTIONS
from posattn.compile.program import Program
from posattn.compile.programs.recipes import made_by_library, with_oracle
from posattn.compile.rounds import Round
from posattn.errors import PosattnError, kind_of, require

#: Parts of this size and above are written once per round, however often they are used.
SHARED_FROM = 200


def to_json(program: Program) -> str:
    """The program as text. Its oracle is not part of it: the library knows it by the program's name."""
    fields = {f.name: getattr(program, f.name) for f in dataclasses.fields(program) if f.name != "oracle"}
    fields["rounds"] = [_packed_round(round_) for round_ in program.rounds]
    fields["constants"] = dict(program.constants)
    if program.output_length is None:
        del fields["output_length"]  # as files were before programs had one
    if not made_by_library(program):
        fields["recipe"] = None  # changed since the library made it: it is no longer the library's
    return json.dumps(fields, separators=(",", ":"), default=_plain)


def _packed_round(round_: Round) -> dict[str, Any]:
    """A round. "shared" holds large parts that its updates use several times; they are named by ["Shared", place]."""
    shared = shared_parts(round_.update.values(), least=SHARED_FROM)
    places = {part: place for place, part in enumerate(shared)}
    packed = {
        "receive": dict(round_.receive),
        "update": {register: _packed(expression, places) for register, expression in round_.update.items()},
        "note": round_.note,
    }
    return packed | ({"shared": [_fields(part, places) for part in shared]} if shared else {})


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays as Python's."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise PosattnError(f"{value!r} in a program is {kind_of(value)}, which cannot be saved: use numbers and lists.")


def from_json(text: str) -> Program:
    try:
        fields = json.loads(text)
        require("oracle" not in fields, "its oracle comes from the library.")
        rounds = tuple(map(_unpacked_round, fields.pop("rounds")))
        constants = {name: tuple(map(_finite, values)) for name, values in fields.pop("constants").items()}
        names = ("registers", "inputs", "outputs", "permutations")
        listed = {name: tuple(map(_text, fields.pop(name))) for name in names}
        require(bool(listed["inputs"] and listed["outputs"]), "a program has inputs and outputs.")
        for name, check in {"name": _text, "length": _whole, "nodes": _whole}.items():
            check(fields[name])
        fields["pad"] = None if fields["pad"] is None else _finite(fields["pad"])
        grid = fields["grid"]
        fields["grid"] = {_text(k): _finite(v) for k, v in grid.items()} if isinstance(grid, dict) else grid
        return with_oracle(Program(rounds=rounds, constants=constants, **listed, **fields), len(text))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError) as error:
        reason = str(error) if isinstance(error, PosattnError) else f"{type(error).__name__}: {error}"
        raise PosattnError(f"not the description of a program ({reason}).") from None


def _unpacked_round(packed: dict[str, Any]) -> Round:
    shared: list[Expression] = []
    for part in packed.get("shared", ()):
        shared.append(_unpacked(part, shared))
    return Round(
        receive={
            _text(slot): tuple(None if source is None else _source(*source) for source in table)
            for slot, table in packed["receive"].items()
        },
        update={register: _unpacked(part, shared) for register, part in packed["update"].items()},
        note=_text(packed["note"]),
    )


def _text(value: Any) -> str:
    require(isinstance(value, str), f"{value!r} is not a name.")
    return value


def _whole(value: Any) -> int:
    require(isinstance(value, int) and not isinstance(value, bool), f"{value!r} is not a whole number.")
    return value


def _finite(value: Any) -> float:
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    require(known, f"{value!r} is not a finite number.")
    return float(value)


def _source(node: Any, register: Any) -> tuple[int, str]:
    return _whole(node), _text(register)


def _packed(expression: Expression, places: Mapping[Expression, int]) -> list[Any]:
    """["Minimum", one, other]: an expression's kind, then its fields; or where it is among the shared parts."""
    return ["Shared", places[expression]] if expression in places else _fields(expression, places)


def _fields(expression: Expression, places: Mapping[Expression, int]) -> list[Any]:
    if isinstance(expression, Call):
        require(
            FUNCTIONS.get(expression.name) is expression.function,
            f"{expression}: a program with a function of your own cannot be saved. Known: {', '.join(FUNCTIONS)}.",
        )
        return ["Call", expression.name, *(_packed(argument, places) for argument in expression.arguments)]
    packed: list[Any] = [type(expression).__name__]
    for field in dataclasses.fields(expression):
        held = getattr(expression, field.name)
        if isinstance(held, Expression):
            packed.append(_packed(held, places))
        elif isinstance(held, tuple):
            packed.append([_packed(entry, places) for entry in held])
        else:
            packed.append(held)
    return packed


KINDS = {
    kind.__name__: kind
    for kind in vars(tree).values()
    if isinstance(kind, type) and issubclass(kind, Expression) and kind is not Expression
}


def _unpacked(packed: list[Any], shared: Sequence[Expression]) -> Expression:
    name, *held = packed
    if name == "Shared":
        (place,) = map(_whole, held)
        require(0 <= place < len(shared), f"shared part {place} of {len(shared)}.")
        return shared[place]
    if name == "Call":
        called, *arguments = held
        count = ARGUMENTS.get(called, 1)
        require(len(arguments) == count, f"'{called}' has {len(arguments)} arguments, not {count}.")
        return Call(called, FUNCTIONS[called], tuple(_unpacked(argument, shared) for argument in arguments))
    fields = dataclasses.fields(KINDS[name])
    made = KINDS[name](*(_field(field.type, value, shared) for field, value in zip(fields, held, strict=True)))
    if isinstance(made, Positive | Equal) and not made.grid > 0:
        raise PosattnError(f"{made}: its grid is not above 0.")
    return made


def _field(kind: Any, value: Any, shared: Sequence[Expression]) -> Any:
    """What a field of an expression holds: a name, a number, an expression, or several."""
    if kind is str:
        return _text(value)
    if kind is float:
        return _finite(value)
    if kind is Expression:
        return _unpacked(value, shared)
    require(bool(value), "a sum has terms.")
    return tuple(_unpacked(part, shared) for part in value)
