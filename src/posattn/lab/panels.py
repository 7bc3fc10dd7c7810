"""Pages of sentences, tables and pictures, by the one renderer."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from posattn.html import png, render
from posattn.lab.shown import Page
from posattn.report import rendered


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table with a caption. The first cell of a row names it."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def panel(
    title: str,
    lines: Sequence[str] = (),
    *,
    tables: Sequence[Table] = (),
    pictures: Sequence[tuple[str, Figure]] = (),
    steps: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Page:
    """A page of sentences, tables and pictures; a picture is (caption, Matplotlib figure)."""
    drawn = [{"caption": caption, "source": png(rendered(figure, "png"))} for caption, figure in pictures]
    page = render("panel.html", title=title, lines=lines, tables=tables, pictures=drawn, steps=steps, notes=notes)
    return Page(title, page)


def number(value: float) -> str:
    """A number as tables show it.

    >>> number(2.5), number(1 / 3), number(123456789.0)
    ('2.5', '0.333333', '1.23457e+08')
    """
    return f"{value:.6g}"
