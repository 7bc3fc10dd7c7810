"""Odd calls of the lab's functions: right ones with something wrong put in one or more places."""

import json
import random
from collections.abc import Iterator
from typing import Any

from posattn.lab.write import library_text

SORT = library_text("sort")
SUM = library_text("cumsum")
#: One right call of each function.
RIGHT: dict[str, list[Any]] = {
    "execute": ["program: sort", "3 1 2", False],
    "generalise": ["min", 1, 2, 0],
    "attention": ["trained: min, positional", "3 1 2"],
    "upload": [None, "3 1 2"],
    "select": [20, 2, 3, 1.0, 50],
    "compile": [SUM, 1000],
    "watch": [SUM, 1000, "1 2 3 4 5 6 7 8"],
    "prove": [SUM, 1000],
    "weights": [SUM, 1000],
    "runs": ["finished"],
    "report": ["ood-scale"],
}
ODD: list[Any] = [
    None, "", " ", "\t\n", "text", "🦉 🦉 🦉", "1e308 -1e308", "1e309", "nan", "inf 1", "1e-320 1", "0x10", "1_000",
    "١٢٣", "1:2:3", "1: 2", ":", "--", "3 1 two", " ".join(map(str, range(10_000))), "9" * 500, "-" * 70,
    "1 " * 65, "1 " * 64,
    True, False, 0, -1, 1.5, 1e308, -1e308, 10**400, 2**63, [], [1, 2], [[]], {}, {"a": 1}, {"path": "/etc/passwd"},
    {"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}}, {"path": 5, "meta": {"_type": "gradio.FileData"}},
    "/etc/passwd", "../../../etc/passwd", "runs/../../x", "~", "file:///etc/passwd", "a\0b", "\u202e\u0000\ud7ff",
    "\ufeff3 1", "<script>alert(1)</script>", "${value}", "{{7*7}}", "'; drop table", "%s%n", "$(touch x)",
    "__import__('os')", "program: nosuch", "trained: sort", "trained: median, looped", "program: fetch",
    "ood-scale+x", "+", "*",
]  # fmt: skip
TEXTS: list[str] = [
    "x" * 1_000_000, "(" * 1_000_000, "program a\nlength 4\nround\n  x = " + "(" * 20_000 + "x" + ")" * 20_000,
    "program a\nlength 4\nround\n  x = " + "-" * 30_000 + "x",
    "program a\nlength 4\nround\n  x = " + " + ".join(["x"] * 10_000),
    "program a\nlength 4\nround\n  x = " + " * ".join(["x"] * 40), "program a", "length 4",
    "program a\nlength 1000000000", "program a\nlength -3",
    "program a\nlength 4\nnodes 99999999\nround\n  x = x", "program a\nlength 4\nround\n  x = y",
    "program a\nlength 4\nround\n  x = __import__('os').system('x')", 'program a\nlength 2\nrecipe {"name": "sort"}',
    'program a\nlength 2\nrecipe {"name": "sort", "length": 1e9}\nround\n  x = x', "program a\nlength 2\nrecipe [[[[[",
    'program a\nlength 2\nspecification {"kind": "Nope"}\nround\n  x = x',
    "program a\nlength 2\nspecification " + "[" * 5000, "program a\nlength 2\nconstant c = 1e999\nround\n  x = x",
    "program a\nlength 256\n" + "round\n  y <- x of i - 1\n  x = x + y\n" * 300,
    "program 🦉\nlength 2\nround\n  x = x / 0", 'program "../../x"\nlength 2\nround\n  x = x + x',
    "program a\nlength 1\nround\n  x = exp(exp(exp(x)))",
    "program a\nlength 0\nround\n  x = x", "program a\nlength 2", "\0", "program a\r\nlength 2\r\nround\r\n  x = x",
]  # fmt: skip


def odd_calls(count: int, *, seed: int) -> Iterator[tuple[str, list[Any]]]:
    """So many calls, each function in turn; all of the odd texts and values come up in a long list."""
    chance = random.Random(seed)
    for at in range(count):
        name = list(RIGHT)[at % len(RIGHT)]
        inputs = json.loads(json.dumps(RIGHT[name]))
        for place in chance.sample(range(len(inputs)), chance.choice([1, 1, 1, len(inputs)])):
            is_program = isinstance(inputs[place], str) and inputs[place].startswith("program ")
            inputs[place] = _program(chance) if is_program and chance.random() < 0.8 else chance.choice(ODD)
        yield name, inputs


def _program(chance: random.Random) -> str:
    """An odd program, or a right one with a few characters changed."""
    if chance.random() < 0.5:
        return chance.choice(TEXTS)
    letters = list(chance.choice([SORT, SUM]))
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(letters))
        letters[at : at + chance.randint(0, 3)] = chance.choice(
            ["", " ", "\n", "0", "-", "(", "x", "round", "é", "<-", "1e9"]
        )
    return "".join(letters)
