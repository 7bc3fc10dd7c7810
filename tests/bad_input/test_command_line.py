"""Every option and argument of every command: one wrong value at a time, one message, code 2, nothing lost."""

import os
import sys
from pathlib import Path

import pytest

from posattn import cli

from .commands import LINES, Line, lines, spelt
from .spoil import SECONDS, within

CASES = lines(cli.app)


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of every file below a folder, links followed, and of the folders."""
    found = {}
    for where, folders, files in os.walk(folder, followlinks=True):
        for name in (*folders, *files):
            status = Path(where, name).stat()
            found[f"{where}/{name}"] = (status.st_size, status.st_mtime_ns)
    return found


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], here: Path):
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("NO_COLOR", "1")

    def run(arguments: tuple[str, ...]) -> tuple[object, str]:
        monkeypatch.setattr(sys, "argv", ["posattn", *arguments])
        with pytest.raises(SystemExit) as stop, within(SECONDS):
            cli.main()
        return stop.value.code, " ".join(capsys.readouterr().err.split())

    return run


#: Lines that cost seconds, or serve until they are stopped; other tests run them.
DEAR = ("", "bench", "lab", "programs", "report", "run", "sweep")


@pytest.mark.parametrize("command", [command for command in LINES if command not in DEAR])
def test_the_valid_line_works(command: str, ended) -> None:
    code, said = ended(spelt(command, LINES[command]))
    assert code == 0, said


@pytest.mark.parametrize("line", CASES, ids=lambda line: line.id)
def test_a_wrong_word_is_one_message_and_code_2(line: Line, ended, here: Path) -> None:
    before = contents(here)
    code, said = ended(line.arguments)
    assert code == 2, said
    assert "Traceback" not in said
    assert any(form in said for form in line.forms), said
    assert len(said) > 20
    assert contents(here) == before
