"""What a tab answers with: pages of the one renderer, and perhaps a file to download."""

from collections.abc import Callable
from typing import NamedTuple

#: Tells the user what is being done.
Note = Callable[[str], None]


class Page(NamedTuple):
    """A whole HTML page, and what it shows, in a few words."""

    title: str
    html: str


class Shown(NamedTuple):
    """Pages from top to bottom, and the path of a file to download."""

    pages: tuple[Page, ...]
    file: str | None = None
