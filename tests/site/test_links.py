"""Every link of the built site leads somewhere, and nothing on a page is loaded from the web."""

import os
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import pytest

SITE = Path(os.environ["POSATTN_SITE"]).resolve()


class Reference(NamedTuple):
    tag: str
    target: str


class Page(HTMLParser):
    """What a page refers to, and the places in it that can be referred to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.references: list[Reference] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value is not None:
                self.references.append(Reference(tag, value))
            elif name in ("id", "name") and value:
                self.anchors.add(value)


def broken(pages: dict[Path, Page]) -> list[str]:
    """Links to files that are not there, and to places that their page does not have."""
    found = []
    for path, page in pages.items():
        for reference in page.references:
            target = urlsplit(reference.target)
            if target.scheme or target.netloc:
                continue
            there = (path.parent / unquote(target.path)).resolve() if target.path else path
            anchor = unquote(target.fragment)
            if not there.is_file():
                found.append(f"{path.name}: {reference.target}")
            elif anchor and there in pages and anchor not in pages[there].anchors:
                found.append(f"{path.name}: {reference.target}, no such place")
    return found


def loaded_from_the_web(pages: dict[Path, Page]) -> list[str]:
    """Scripts, styles, pictures and frames with an address elsewhere; a plain link is the reader's choice."""
    return [
        f"{path.name}: {target}"
        for path, page in pages.items()
        for tag, target in page.references
        if tag != "a" and urlsplit(target).scheme not in ("", "data")
    ]


@pytest.fixture(scope="module")
def pages() -> dict[Path, Page]:
    return {path: Page(path.read_text(encoding="utf-8")) for path in SITE.rglob("*.html") if path.name != "404.html"}


def test_every_link_and_anchor_of_the_site_is_there(pages: dict[Path, Page]) -> None:
    assert len(pages) > 30
    assert broken(pages) == []


def test_nothing_is_loaded_from_the_web(pages: dict[Path, Page]) -> None:
    assert loaded_from_the_web(pages) == []
    styles = [path.read_text(encoding="utf-8") for path in SITE.rglob("*.css")]
    assert styles
    assert not any("url(http" in text or "@import" in text for text in styles)


def test_the_checks_can_fail(tmp_path: Path) -> None:
    one, other = tmp_path / "one.html", tmp_path / "other.html"
    one.write_text(
        '<a href="other.html#here">a</a> <a href="other.html#there">b</a> <a href="gone.html">c</a> <a href="#me">d</a>'
        '<a href="https://example.org">e</a> <script src="https://example.org/x.js"></script> <img src="data:,x">'
    )
    other.write_text('<h1 id="here">')
    read = {path: Page(path.read_text()) for path in (one, other)}
    assert broken(read) == [
        "one.html: other.html#there, no such place",
        "one.html: gone.html",
        "one.html: #me, no such place",
    ]
    assert loaded_from_the_web(read) == ["one.html: https://example.org/x.js"]
