"""Programs as JSON: a compiled model's file holds the whole program that it was compiled from."""

import dataclasses
import json
from typing import Any

import numpy as np

from posattn.compile.expression_json import checked_finite, checked_text, checked_whole, fields_of, packed, unpacked
from posattn.compile.expressions import Expression, shared_parts
from posattn.compile.program import Program
from posattn.compile.programs.recipes import made_by_library, with_oracle
from posattn.compile.rounds import Round
from posattn.compile.specification_json import packed as packed_specification
from posattn.compile.specification_json import unpacked as unpacked_specification
from posattn.errors import PosattnError, kind_of, require

#: Parts of this size and above are written once per round, however often they are used.
SHARED_FROM = 200


def to_json(program: Program) -> str:
    """The program as text. Its oracle is not part of it: the library knows it by the program's name."""
    fields = {f.name: getattr(program, f.name) for f in dataclasses.fields(program) if f.name != "oracle"}
    fields["rounds"] = [_packed_round(round_) for round_ in program.rounds]
    fields["constants"] = dict(program.constants)
    fields["specification"] = packed_specification(program.specification, packed)
    if program.output_length is None:
        del fields["output_length"]  # as files were before programs had one
    if not made_by_library(program):
        fields["recipe"] = None  # changed since the library made it: it is no longer the library's
    return json.dumps(fields, separators=(",", ":"), default=_plain)


def _packed_round(round_: Round) -> dict[str, Any]:
    """A round. "shared" holds large parts that its updates use several times; they are named by ["Shared", place]."""
    shared = shared_parts(round_.update.values(), least=SHARED_FROM)
    places = {part: place for place, part in enumerate(shared)}
    found = {
        "receive": dict(round_.receive),
        "update": {register: packed(expression, places) for register, expression in round_.update.items()},
        "note": round_.note,
    }
    return found | ({"shared": [fields_of(part, places) for part in shared]} if shared else {})


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
        constants = {name: tuple(map(checked_finite, values)) for name, values in fields.pop("constants").items()}
        names = ("registers", "inputs", "outputs", "permutations")
        listed = {name: tuple(map(checked_text, fields.pop(name))) for name in names}
        require(bool(listed["inputs"] and listed["outputs"]), "a program has inputs and outputs.")
        for name, check in {"name": checked_text, "length": checked_whole, "nodes": checked_whole}.items():
            check(fields[name])
        fields["pad"] = None if fields["pad"] is None else checked_finite(fields["pad"])
        grid = fields["grid"]
        fields["grid"] = (
            {checked_text(k): checked_finite(v) for k, v in grid.items()} if isinstance(grid, dict) else grid
        )
        older = "specification" not in fields  # written before programs had one
        fields["specification"] = unpacked_specification(fields.get("specification"), unpacked)
        made = Program(rounds=rounds, constants=constants, **listed, **fields)
        return with_oracle(made, len(text), older=older)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError) as error:
        reason = str(error) if isinstance(error, PosattnError) else f"{type(error).__name__}: {error}"
        raise PosattnError(f"not the description of a program ({reason}).") from None


def _unpacked_round(written: dict[str, Any]) -> Round:
    shared: list[Expression] = []
    for part in written.get("shared", ()):
        shared.append(unpacked(part, shared))
    return Round(
        receive={
            checked_text(slot): tuple(None if source is None else _source(*source) for source in table)
            for slot, table in written["receive"].items()
        },
        update={register: unpacked(part, shared) for register, part in written["update"].items()},
        note=checked_text(written["note"]),
    )


def _source(node: Any, register: Any) -> tuple[int, str]:
    return checked_whole(node), checked_text(register)
