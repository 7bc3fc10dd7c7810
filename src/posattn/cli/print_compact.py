"""A study's answer and its compact table, in as many columns as the terminal has room for."""

import textwrap
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from posattn.cli.output import print_table

if TYPE_CHECKING:
    from posattn.report.compact import Compact


def print_wrapped(text: str) -> None:
    """Print a sentence in lines that fit the terminal, at most 100 letters long."""
    print(textwrap.fill(text, min(100, Console().width), break_long_words=False, break_on_hyphens=False))


def print_compact(part: "Compact") -> None:
    """Print one table; columns that do not fit are left out and named."""
    width = Console().width
    most = len(part.columns)
    while most > 2 and _needed(part.narrowed(most)) > width:
        most -= 1
    shown = part.narrowed(most)
    print_table(_table(shown))
    left_out = [name for name in part.columns if name not in shown.columns]
    if left_out:
        print_wrapped(f"Not shown, for want of room: {', '.join(left_out)}. The report has them.")


def _needed(part: "Compact") -> int:
    console = Console()
    return Measurement.get(console, console.options.update(max_width=10_000), _table(part)).maximum


def _table(part: "Compact") -> Table:
    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in part.names:
        made.add_column(name, no_wrap=True)
    for name in part.columns:
        made.add_column(name, no_wrap=True, justify="right")
    for line in part.lines:
        cells = [f"[bold]{cell}[/bold]" if place in line.best else cell for place, cell in enumerate(line.cells)]
        made.add_row(*map(escape, line.head), *cells, style="dim" if line.published else None)
    return made
