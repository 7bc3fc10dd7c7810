"""The blocks of code on a page of Markdown, and how they run."""

import doctest
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple


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


def run_python(page: Path) -> None:
    """Run the Python of a page from top to bottom, in the folder that a test works in."""
    names: dict[str, Any] = {"__name__": "__page__"}
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.language in ("python", "py", "pycon") and not block.left_out:
            named = re.match(r"# (\w+\.py)\n", block.code)
            if named:  # a file of the reader's
                Path(named[1]).write_text(block.code, encoding="utf-8")
            execute(block, names, str(page))


def execute(block: Block, names: dict[str, Any], where: str) -> None:
    """Run a block: as an interactive session where it is written as one, and then what it shows must come out."""
    if ">>>" not in block.code:
        # Lines before it keep the numbers right in a traceback.
        exec(compile("\n" * (block.line - 1) + block.code, where, "exec"), names)
        return
    session = doctest.DocTestParser().get_doctest(block.code + "\n", names, where, where, block.line - 1)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    printed: list[str] = []
    runner.run(session, out=printed.append, clear_globs=False)
    assert runner.failures == 0, "".join(printed)
    names.update(session.globs)
