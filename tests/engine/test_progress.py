"""A bar for people, a line now and then for a log file, lines of JSON for programs."""

import io
import json
import math
import re
from typing import Any

import pytest
from rich.console import Console
from rich.progress import ProgressColumn

from posattn.engine import Bar, Lines, progress

from .runs import run, small_trial


def bar_on(patch: pytest.MonkeyPatch, *, terminal: bool, width: int = 160) -> io.StringIO:
    """Where a bar writes that believes to be, or not to be, on a terminal."""
    written = io.StringIO()

    def console(**options: Any) -> Console:
        assert options == {"stderr": True}
        return Console(file=written, force_terminal=terminal, width=width, color_system=None, legacy_windows=False)

    patch.setattr(progress, "Console", console)
    return written


def shown(written: io.StringIO) -> str:
    """What was written, without the codes that move the cursor."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", written.getvalue())


def test_a_bar_shows_steps_rate_time_and_loss(monkeypatch):
    written, clock = bar_on(monkeypatch, terminal=True), [10.0]
    with Bar(clock=lambda: clock[0]) as bar:
        number = bar.start("positional on sum × 3", 1000, 200)
        for step in (350, 500, 650, 800):
            clock[0] += 1
            bar.update(number, step, [0.5, math.nan, 0.25])
    last = shown(written).splitlines()[-1]
    assert "positional on sum × 3" in last
    assert "800/1000 steps" in last
    assert "150/s" in last  # 600 steps in 4 seconds: those of an earlier run do not count
    assert "loss 5.00e-01 (2.5e-01 … 5.0e-01), 1 diverged" in last
    assert "0:00:04 0:00:02" in last  # taken, and left


@pytest.mark.parametrize("title", ["positional on sum × 3", "standard gpt, 12 layers, on khop-16 and others × 1000"])
@pytest.mark.parametrize("width", [80, 60])
def test_steps_and_times_are_whole_on_a_narrow_terminal(monkeypatch, width, title):
    written, clock = bar_on(monkeypatch, terminal=True, width=width), [10.0]
    with Bar(clock=lambda: clock[0]) as bar:
        number = bar.start(title, 60_030, 0)
        for step in (10_000, 20_000, 30_015):
            clock[0] += 9
            bar.update(number, step, [0.5, math.nan, 0.25])
    lines = shown(written).splitlines()
    assert "30015/60030 steps" in lines[-1]
    assert re.search(r" 0:00:27 0:00:\d\d ", lines[-1])
    assert lines[-1].startswith(title[:4])
    assert "loss" in lines[-1] or width < 80
    assert max(map(len, lines)) <= width


def test_fleets_on_their_way_have_a_bar_each_and_those_that_ended_make_room(monkeypatch):
    written = bar_on(monkeypatch, terminal=True)
    with Bar() as bar:
        first, second = (bar.start(title, 10, 0) for title in ("first", "second"))
        bar.update(second, 7, [1.0])
        bar.update(first, 3, [2.0])
    above, below = shown(written).splitlines()[-2:]
    assert "first" in above
    assert "3/10" in above
    assert "second" in below
    assert "7/10" in below

    written = bar_on(monkeypatch, terminal=True)
    with Bar() as bar:
        for title in ("first", "second"):
            number = bar.start(title, 10, 0)
            bar.update(number, 10, [1.0])
            bar.end(number)
    *_, before, last = shown(written).splitlines()
    assert "second" in last  # and it stays
    assert "10/10" in last
    assert "first" not in last
    assert "first" not in before


def test_off_a_terminal_a_line_comes_every_30_seconds(monkeypatch):
    written, clock = bar_on(monkeypatch, terminal=False), [10.0]
    with Bar(clock=lambda: clock[0]) as bar:
        number = bar.start("positional on sum × 3", 1000, 100)
        for step in range(101, 351):
            clock[0] += 0.5
            bar.update(number, step, [0.5])
        other = bar.start("standard on sum × 3", 10, 0)
        clock[0] += 30
        bar.update(other, 0, [math.nan])
        bar.end(number)
        bar.end(other)
        last = bar.start("standard on min × 3", 10_000, 0)
        clock[0] += 36_000
        bar.update(last, 5000, [2.0])
    first = "positional on sum × 3: step {} of 1000, {} taken, {} left, loss 5.00e-01 (5.0e-01 … 5.0e-01)"
    assert written.getvalue().splitlines() == [
        first.format(160, "0:00:30", "0:07:00"),
        first.format(220, "0:01:00", "0:06:30"),
        first.format(280, "0:01:30", "0:06:00"),
        first.format(340, "0:02:00", "0:05:30"),
        "standard on sum × 3: step 0 of 10, 0:00:30 taken, no finite loss, 1 diverged; 1 more beside it",
        "standard on min × 3: step 5000 of 10000, 10:00:00 taken, 10:00:00 left, loss 2.00e+00 (2.0e+00 … 2.0e+00)",
    ]


def test_a_short_run_off_a_terminal_says_only_what_must_be_said(monkeypatch):
    written = bar_on(monkeypatch, terminal=False)
    with Bar() as bar:
        number = bar.start("positional on sum × 3", 1000, 0)
        for step in range(1000):
            bar.update(number, step, [0.5])
        assert written.getvalue() == ""
        bar.say("[going] on")
    assert written.getvalue() == "[going] on\n"


def test_a_long_message_stays_one_line(monkeypatch):
    message = f"checkpoint '/{'long/' * 60}file' cannot be used"
    for terminal in (False, True):
        written = bar_on(monkeypatch, terminal=terminal, width=40)
        with Bar() as bar:
            bar.say(message)
        assert message in shown(written)


def test_a_run_without_a_reporter_is_quiet_off_a_terminal(tmp_path, capfd):
    run([small_trial()], tmp_path, reporter=None)
    assert capfd.readouterr() == ("", "")


def test_lines_are_json_whatever_the_losses_are(capsys):
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    with Lines() as lines:
        assert [lines.start("positional on sum × 5", 1000, 7), lines.start("another", 3, 0)] == [0, 1]
        lines.update(0, 8, [0.5, math.nan, math.inf, -math.inf, 1e-300])
        lines.say('a "quoted" line\nand another')
        lines.end(0)
    out, err = capsys.readouterr()
    assert [json.loads(line, parse_constant=refuse) for line in out.splitlines()] == [
        {"event": "start", "number": 0, "fleet": "positional on sum × 5", "steps": 1000, "step": 7},
        {"event": "start", "number": 1, "fleet": "another", "steps": 3, "step": 0},
        {"event": "progress", "number": 0, "step": 8, "losses": [0.5, None, None, None, 1e-300]},
        {"event": "message", "message": 'a "quoted" line\nand another'},
        {"event": "end", "number": 0},
    ]
    assert err == ""


def test_a_run_with_lines_reports_its_start_and_its_end(tmp_path, capsys):
    run([small_trial(seed=seed) for seed in range(2)], tmp_path, reporter=Lines())
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["event"] for event in events] == ["start", "progress", "end"]
    assert events[1]["step"] == 4
    assert len(events[1]["losses"]) == 2


@pytest.mark.parametrize(
    ("losses", "text"),
    [
        ([0.25], "loss 2.50e-01 (2.5e-01 … 2.5e-01)"),
        ([3.0, 1.0, 2.0], "loss 2.00e+00 (1.0e+00 … 3.0e+00)"),
        ([math.nan, 1.0, math.inf, 5.0, 4.0, -math.inf], "loss 4.00e+00 (1.0e+00 … 5.0e+00), 3 diverged"),
        ([math.nan, math.nan], "no finite loss, 2 diverged"),
    ],
)
def test_a_summary_has_the_median_the_range_and_the_lost(losses, text):
    assert progress.summary(losses) == text


def test_a_title_is_shown_as_it_is_whatever_a_folder_is_called():
    bar, title = Bar(), "models/[old]/[/x] on mixed-min"
    bar.start(title, 3, 0)
    (task,) = bar.progress.tasks
    first, *_ = bar.progress.columns
    assert isinstance(first, ProgressColumn)
    assert str(first.render(task)) == title
