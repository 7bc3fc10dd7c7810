"""The fields of a program as text that `parsing` reads back: tables and constants whole, numbers exact."""

import json
from collections.abc import Mapping
from typing import Any

from posattn.compile.expression_json import packed
from posattn.compile.expressions import Expression, shared_parts
from posattn.compile.rounds import Round
from posattn.compile.specification_json import packed as packed_specification
from posattn.compile.text.tables import shown_constants, shown_table
from posattn.compile.text.tokens import quoted, shown_name, shown_number, shown_title
from posattn.compile.text.vocabulary import LANGUAGE
from posattn.compile.text.write_expression import Writer

#: Parts of this size and above get a name where an expression uses them more than once.
NAMED_FROM = 16


def printed(fields: Mapping[str, Any]) -> str:
    """A program, from its fields by name."""
    lines = [f"program {shown_title(fields['name'])}", f"length {fields['length']}", f"nodes {fields['nodes']}"]
    for key in ("registers", "inputs", "outputs", "permutations"):
        if fields[key]:
            lines.append(f"{key} {', '.join(map(shown_name, fields[key]))}")
    if fields["output_length"] is not None:
        lines.append(f"output_length {fields['output_length']}")
    if fields["pad"] is not None:
        lines.append(f"pad {shown_number(fields['pad'])}")
    if isinstance(fields["grid"], Mapping):
        lines += [f"grid {shown_name(name)} = {shown_number(step)}" for name, step in fields["grid"].items()]
    elif fields["grid"] is not None:
        lines.append(f"grid {shown_number(fields['grid'])}")
    lines += [f"constant {shown_name(name)} = {shown_constants(held)}" for name, held in fields["constants"].items()]
    if fields["recipe"] is not None:
        lines.append(f"recipe {json.dumps(fields['recipe'], default=lambda held: held.tolist())}")
    if fields["specification"] is not None:
        lines.append(f"specification {json.dumps(packed_specification(fields['specification'], packed))}")
    for round_ in fields["rounds"]:
        lines += ["", *round_lines(round_, fields["registers"])]
    return "\n".join(lines)


def round_lines(round_: Round, registers: tuple[str, ...]) -> list[str]:
    """A round: what it receives, parts that are used several times, and what registers become."""
    lines = [f"round {quoted(round_.note)}" if round_.note else "round"]
    lines += [f"  {shown_name(slot)} <- {shown_table(table)}" for slot, table in round_.receive.items()]
    named: dict[Expression, str] = {}
    taken = {*registers, *round_.receive, *LANGUAGE}
    for part in shared_parts(round_.update.values(), least=NAMED_FROM):
        text = Writer(named)(part)
        named[part] = _free(len(named) + 1, taken)
        lines.append(f"  let {named[part]} = {text}")
    show = Writer(named)
    return lines + [f"  {shown_name(name)} = {show(expression)}" for name, expression in round_.update.items()]


def _free(number: int, taken: set[str]) -> str:
    name = f"part{number}"
    while name in taken:
        name += "'"
    taken.add(name)
    return name
