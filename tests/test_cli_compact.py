"""The table at the end of a run: it fits the terminal, and says what it leaves out."""

import re

import pytest

from posattn.cli.print_compact import print_compact, print_wrapped
from posattn.report.compact import Compact, Line

SCALES = ("validation", *(f"c={c}" for c in range(1, 11)))


def table(columns: tuple[str, ...] = SCALES, model: str = "homogeneous, decayed") -> Compact:
    lines = [
        Line(head=("max-subarray", model), cells=tuple(f"{n}.0e-5" for n in range(1, len(columns) + 1))),
        Line(head=("max-subarray", "  published"), cells=tuple("–" for _ in columns), published=True),
    ]
    return Compact(names=("task", "model"), columns=columns, lines=tuple(lines))


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_table_fits_the_terminal_and_names_the_columns_that_it_leaves_out(width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    print_compact(table())
    lines = printed(capsys)
    assert max(map(len, lines)) <= width
    header = next(line.split() for line in lines if line.split()[:2] == ["task", "model"])
    shown = header[2:]
    assert (shown[0], shown[-1]) == ("validation", "c=10")
    said = re.search(r"Not shown, for want of room: (.*?)\. The report has them\.", " ".join(lines))
    assert said is not None
    assert sorted([*shown, *said[1].split(", ")]) == sorted(SCALES)
    (row,) = [line for line in lines if "homogeneous" in line]
    assert row.split()[-len(shown) :] == [f"{SCALES.index(name) + 1}.0e-5" for name in shown]


def test_a_wide_terminal_shows_all_columns_and_says_nothing(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    print_compact(table())
    lines = printed(capsys)
    assert next(line.split()[2:] for line in lines if line.split()[:2] == ["task", "model"]) == list(SCALES)
    assert not any("Not shown" in line for line in lines)


def test_a_models_name_is_never_taken_for_markup(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    print_compact(table(("c=1",), model="[bold]odd[/bold]"))
    assert any("[bold]odd[/bold]" in line for line in printed(capsys))


def test_sentences_are_broken_between_words(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "20")
    print_wrapped("one two three four five six")
    assert printed(capsys) == ["one two three four", "five six"]
