"""Tutorials do what they say: their commands run in an empty folder, one after the other, and print what is shown."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pages import blocks

DOCS = Path(__file__).parents[2] / "docs"
WORDS = re.compile(r"[^\W\d_]{2,}")


def typed(text: str) -> Iterator[tuple[str, list[str]]]:
    """What a page has its reader type into a file or a shell, and the lines that a command shows below it."""
    for block in blocks(text):
        named = re.match(r"# (\w+\.py)\n", block.code)
        if block.language == "python" and named:
            yield named[1], [block.code]
        elif block.language == "console":
            for part in re.split(r"^\$ ", block.code, flags=re.MULTILINE)[1:]:
                command, *shown = part.splitlines()
                yield command, shown


def said(line: str) -> list[str]:
    """The words of a line: numbers, spaces and frames of tables are other machines' own."""
    return WORDS.findall(re.sub(r"\b[0-9a-f]{16}\b", "", line))


@pytest.mark.parametrize("page", ["getting-started", "own-task", "compiler", "proof"])
def test_a_tutorial_does_what_it_says(page: str, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # where posattn and python are found
    for what, lines in typed((DOCS / f"{page}.md").read_text()):
        if what.endswith(".py") and " " not in what:
            (tmp_path / what).write_text(lines[0])
        elif not what.startswith("pip install "):
            ran = subprocess.run(
                ["bash", "-c", what],
                cwd=tmp_path, capture_output=True, text=True, timeout=600,
                env=os.environ | {"PATH": path, "PYTHONUTF8": "1", "COLUMNS": "100"},
            )  # fmt: skip
            assert ran.returncode == 0, f"{what}: {ran.stderr}"
            printed = [said(line) for line in ran.stdout.splitlines()]
            assert [line for line in lines if said(line) not in printed] == [], f"{what}: {ran.stdout}"


def test_commands_files_and_what_they_show_are_found() -> None:
    page = "```python\n# a.py\nx = 1\n```\n\n```console\n$ posattn tasks\nsum of 3\n$ posattn runs\n```\n"
    assert list(typed(page)) == [("a.py", ["# a.py\nx = 1"]), ("posattn tasks", ["sum of 3"]), ("posattn runs", [])]
    assert said("│ c=1 │ median loss  4.6e-01") == ["median", "loss"]
    assert said("runs/994b08b5a5872c0e") == ["runs"]
