"""`posattn …` in this process, as the installed command runs it."""

import re
import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from posattn import cli


class Ended(NamedTuple):
    code: object
    out: str
    err: str


def without_colours(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def runner(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Give it the command's arguments; it gives back how the command ended."""
    monkeypatch.setenv("COLUMNS", "200")

    def ended(*arguments: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["posattn", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            cli.main()
        printed = capsys.readouterr()
        return Ended(stop.value.code or 0, without_colours(printed.out), without_colours(printed.err))

    return ended
