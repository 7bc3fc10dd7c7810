"""Pages of sentences, tables and pictures, by the one renderer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from matplotlib.figure import Figure

from posattn.html import picture, render
from posattn.lab.shown import Page
from posattn.report import rendered


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table with a caption. The first cell of a row names it."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Drawn(NamedTuple):
    """A picture, for wide pages and for narrow ones."""

    caption: str
    wide: Figure
    narrow: Figure


def panel(
    title: str,
    lines: Sequence[str] = (),
    *,
    tables: Sequence[Table] = (),
    pictures: Sequence[Drawn] = (),
    steps: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Page:
    """A page of sentences, tables and pictures."""
    drawn = [picture(one.caption, rendered(one.wide, "png"), narrow=rendered(one.narrow, "png")) for one in pictures]
    page = render("panel.html", title=title, lines=lines, tables=tables, pictures=drawn, steps=steps, notes=notes)
    return Page(title, page)


def number(value: float) -> str:
    """A number as tables show it.

    >>> number(2.5), number(1 / 3), number(123456789.0)
    ('2.5', '0.333333', '1.23457e+08')
    """
    return f"{value:.6g}"
