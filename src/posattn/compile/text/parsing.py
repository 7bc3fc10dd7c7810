"""A program's text as the fields of a program. Lines come in any order, the rounds last."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from posattn.checks import instance
from posattn.compile.expression_json import unpacked
from posattn.compile.rounds import Round
from posattn.compile.specification import Specification
from posattn.compile.specification_json import unpacked as unpacked_specification
from posattn.compile.text.read_expression import read_expression
from posattn.compile.text.tables import MOST_ENTRIES, Lists
from posattn.compile.text.tokens import HEADER, RESERVED, Reader, Token, lines
from posattn.compile.text.vocabulary import LANGUAGE
from posattn.errors import PosattnError, require

#: Lines that may be there more than once.
REPEATED = ("constant", "grid")
ASSIGN = ("=", "<-")


@dataclass
class _Lines:
    """The lines of a text, sorted by what they say."""

    header: dict[str, list[Reader]] = field(default_factory=dict)
    rounds: list[list[Reader]] = field(default_factory=list)


def parsed(text: str) -> dict[str, Any]:
    """The fields of the program, by name."""
    instance("text", text, str, fix="pass the text of a program, as str(program) gives it")
    found = _sorted_lines(text)
    try:
        fields = _header(found)
        fields["rounds"] = tuple(_rounds(found, fields))
    except RecursionError:
        raise PosattnError("parentheses are nested too deeply. Name parts of an expression: let part = …") from None
    return {key: value for key, value in fields.items() if key != "lists"}


def _sorted_lines(text: str) -> _Lines:
    found = _Lines()
    for reader in lines(text):
        if reader.next.text == "round" and reader.next.kind == "name" and reader.after_next.text not in ASSIGN:
            reader.at += 1
            found.rounds.append([reader])
        elif found.rounds:
            found.rounds[-1].append(reader)
        else:
            keyword = reader.next.text if reader.next.kind == "name" else ""
            if keyword not in HEADER:
                raise reader.wrong(f"one of {', '.join(HEADER)} or round", known=[*HEADER, "round"])
            if keyword in found.header and keyword not in REPEATED:
                raise reader.error(f"a second line for '{keyword}'. Leave one out.")
            reader.at += 1
            found.header.setdefault(keyword, []).append(reader)
    for needed in ("program", "length"):
        require(needed in found.header, f"a program's text needs a line '{needed} …', and has none.")
    return found


def _header(found: _Lines) -> dict[str, Any]:
    (name,), (length,) = found.header["program"], found.header["length"]
    fields: dict[str, Any] = {"name": name.title("the program's name"), "length": length.whole("a whole number")}
    (nodes,) = found.header.get("nodes", [None])
    fields["nodes"] = fields["length"] if nodes is None else nodes.whole("a whole number")
    if fields["nodes"] > MOST_ENTRIES:
        raise (nodes or length).error(f"{fields['nodes']} nodes: a text has at most {MOST_ENTRIES:,}.")
    lists = fields["lists"] = Lists(fields["nodes"])
    fields["constants"] = {}
    for reader in found.header.get("constant", []):
        token = reader.next
        constant = reader.name("a register")
        if constant in fields["constants"]:
            raise reader.error(f"a second line for constant '{constant}'. Leave one out.", token)
        reader.expect("=", " and a number for every node")
        fields["constants"][constant] = lists.constants(reader)
    for key in ("inputs", "outputs", "permutations", "registers"):
        for reader in found.header.get(key, []):
            fields[key] = reader.names("a register")
    for reader in found.header.get("output_length", []):
        fields["output_length"] = reader.whole("a whole number")
    for reader in found.header.get("pad", []):
        fields["pad"] = reader.number("a number")
    if "grid" in found.header:
        fields["grid"] = _grid(found.header["grid"])
    for reader in found.header.get("recipe", []):
        fields["recipe"] = _json(reader, 'a recipe is written as JSON, as {"name": "sort", "length": 8}')
    for reader in found.header.get("specification", []):
        fields["specification"] = _specification(reader)
    for readers in found.header.values():
        for reader in readers:
            reader.end()
    fields.setdefault("registers", _registers(found, fields))
    return fields


def _grid(readers: list[Reader]) -> float | dict[str, float]:
    """grid 1, for all inputs; grid key = 0.5, for one."""
    first, *others = readers
    if first.next.kind == "number":
        for other in others:
            raise other.error("a second line for 'grid'. Leave one out, or give each input its own: grid x = 1.")
        return first.number("a number")
    grids: dict[str, float] = {}
    for reader in readers:
        token, name = reader.next, reader.name("a number, or an input and its grid, as x = 1")
        if name in grids:
            raise reader.error(f"a second line for the grid of '{name}'. Leave one out.", token)
        reader.expect("=", " and a number")
        grids[name] = reader.number("a number")
    return grids


def _json(reader: Reader, expected: str) -> Any:
    """The rest of a line, as JSON."""
    text = reader.rest
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise reader.error(f"{expected} ({error}).") from None
    reader.at = len(reader.tokens) - 1
    return found


def _specification(reader: Reader) -> Specification | None:
    expected = 'a specification is written as JSON, as {"kind": "Sorted"}'
    held = _json(reader, expected)
    try:
        return unpacked_specification(held, unpacked)
    except (ValueError, KeyError, TypeError, IndexError) as error:  # a PosattnError is a ValueError
        raise reader.error(f"{expected} ({error}).") from None


def _registers(found: _Lines, fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Where no line names the registers: inputs, constants, and what the rounds write, as it comes."""
    written = [reader.tokens[0] for _, *body in found.rounds for reader in body if reader.tokens[1].text == "="]
    names = [Reader(0, "", [token]).name("") for token in written if token.kind in ("name", "string")]
    return tuple(dict.fromkeys((*fields.get("inputs", ("x",)), *fields["constants"], *names)))


def _rounds(found: _Lines, fields: Mapping[str, Any]) -> list[Round]:
    return [_round(head, body, fields["registers"], fields["lists"]) for head, *body in found.rounds]


def _round(head: Reader, body: list[Reader], registers: tuple[str, ...], lists: Lists) -> Round:
    note = head.name("a note in quotes") if head.next.kind == "string" else ""
    head.end('a note in quotes, as in round "add", or the end of the line')
    statements = [(*_statement(reader), reader) for reader in body]
    slots = {name for kind, name, _, _ in statements if kind == "slot"}
    words = {*registers, *slots}
    held: dict[str, dict[str, Any]] = {"slot": {}, "part": {}, "register": {}}
    for kind, name, token, reader in statements:
        if name in held[kind]:
            raise reader.error(f"a second line for {kind} '{name}'. Leave one out.", token)
        if kind == "register" and name not in registers:
            raise reader.wrong("a register", known=registers, token=token)
        if kind == "part" and (name in words or name in LANGUAGE or name in RESERVED):
            raise reader.error(f"'{name}' has a meaning already: give the part another name.", token)
        held[kind][name] = lists.table(reader) if kind == "slot" else read_expression(reader, words, held["part"])
    return Round(receive=held["slot"], update=held["register"], note=note)


def _statement(reader: Reader) -> tuple[str, str, Token]:
    """What a line of a round is about, a slot, a part or a register, and its name."""
    part = reader.starts_with("let") and reader.after_next.text not in ASSIGN
    if part:
        reader.at += 1
    if reader.next.kind not in ("name", "string") or reader.after_next.text not in ASSIGN:
        expected = "slot <- …, register = …, let part = … or round"
        known = ("round", "let") if not part else ()
        raise reader.wrong(expected, known=known, token=reader.next if not part else reader.after_next)
    token, name = reader.next, reader.name("a name")
    if part:
        reader.expect("=", " and an expression")
        return "part", name, token
    return ("slot" if reader.take(*ASSIGN) == "<-" else "register"), name, token
