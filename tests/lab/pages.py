"""What the lab's pages say."""

import html
import re

from posattn.lab.shown import Page


def silent(_: str) -> None: ...


def text_of(page: Page) -> str:
    """What a page says, without its tags."""
    return html.unescape(re.sub(r"<(style|script).*?</\1>|<[^>]+>", " ", page.html, flags=re.DOTALL))


def cells(page: Page, row: str) -> list[str]:
    """The cells of a table's row."""
    found = re.search(rf'<th scope="row">{row}</th>(.*?)</tr>', page.html)
    assert found, row
    return re.findall(r"<td>(.*?)</td>", found[1])
