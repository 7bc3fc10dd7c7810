"""The blocks of code on a page of Markdown."""

import re
from collections.abc import Iterator
from typing import NamedTuple


class Block(NamedTuple):
    language: str
    code: str
    line: int  # of its first line of code, counted from 1
    left_out: bool


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page."""
    lines = text.splitlines()
    opened: tuple[str, str, int] | None = None
    for number, line in enumerate(lines):
        fence = re.match(r" *(`{3,})(.*)", line)
        if opened is None and fence:
            opened = (fence[1], fence[2].strip(), number)
        elif opened is not None and fence and fence[1].startswith(opened[0]) and not fence[2].strip():
            _, language, start = opened
            before = lines[start - 1] if start else ""
            left_out = re.fullmatch(r"<!-- not run: \S.* -->", before.strip()) is not None
            yield Block(language, "\n".join(lines[start + 1 : number]), start + 2, left_out)
            opened = None
    assert opened is None, f"the block that starts in line {opened and opened[2] + 1} never ends"
