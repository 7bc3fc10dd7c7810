"""Notebooks run as scripts on one core in under a minute, and their pages show what comes out, up to its numbers."""

import os
import re
import resource
import subprocess
import sys

import pytest

from notebooks import ROOT, script

WRITER = script()


def without_numbers(text: str) -> str:
    """What is left of an output when its numbers are not looked at: other machines round otherwise."""
    return re.sub(r"[ ─]+", " ", re.sub(r"[-−]?\d[\d.,]*(?:e[-+]?\d+)?", "#", text))


@pytest.mark.parametrize("name", WRITER.NOTEBOOKS)
def test_a_notebook_runs_as_a_script_within_a_minute_and_its_page_is_current(name: str) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run(
        [sys.executable, ROOT / "examples" / f"{name}.py"],
        capture_output=True, text=True, timeout=600, env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"},
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert ran.returncode == 0, ran.stderr
    assert after.ru_utime - before.ru_utime < 60
    page = (ROOT / "docs" / "examples" / f"{name}.md").read_text()
    saved = "\n".join(re.findall(r"```text\n(.*?)\n```", page, flags=re.DOTALL))
    assert without_numbers(ran.stdout).split("\n")[:-1] == without_numbers(saved).split("\n")


def test_marimo_finds_nothing_wrong() -> None:
    files = [ROOT / "examples" / f"{name}.py" for name in WRITER.NOTEBOOKS]
    checked = subprocess.run(
        [sys.executable, "-m", "marimo", "check", "--strict", *files], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_numbers_are_not_compared_and_words_are() -> None:
    assert without_numbers("at most 3e-05, 65,536 −2.5") == "at most #, # #"
    assert without_numbers("holds") != without_numbers("fails")
