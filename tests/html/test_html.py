"""Pages come from templates alone, and whatever they show is text."""

import ast
import re
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from types import SimpleNamespace

import jinja2
import pytest

from posattn.html import csv, png, render

SOURCE = Path(__file__).parents[2] / "src" / "posattn"
TEMPLATES = sorted(
    entry.name for entry in (resources.files("posattn.html") / "templates").iterdir() if entry.name.endswith(".html")
)  # pages; folders hold parts of them
NASTY = "</title><script>alert('1')</script> & \"2\" <b>"


class Page(HTMLParser):
    """The texts of a page, by tag, and the attributes of its pictures."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.pictures: list[dict[str, str | None]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "img":
            self.pictures.append(dict(attrs))

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self.tags[-1] if self.tags else "", []).append(data)


def report(text: str) -> str:
    picture = {"caption": text, "source": png(b"\x89PNG"), "narrow": None}
    line = SimpleNamespace(head=(text, text), cells=(text, text), published=False, best={0})
    part = SimpleNamespace(names=("task", text), columns=(text, text), lines=[line])
    study = SimpleNamespace(name=text, question=text, paper=text, answers=text)
    return render(
        "report.html", study=study, changes=[], preset=text, versions=[text], curves=picture, maps=[],
        learned=[picture], answer=text, caveats=[text], compact=[part], axis=text, measure=text,
        every=([text], [[text, text]]), rows=text, csv=csv(text), file=text, notes=[text],
    )  # fmt: skip


def test_text_in_a_report_is_only_ever_text():
    page = Page(report(NASTY))
    assert "script" not in page.tags
    assert "b" not in page.tags
    assert page.texts["title"][0] == f"{NASTY} · posattn"
    shown = [
        text for tag in ("h1", "th", "td", "li", "figcaption", "strong") for text in page.texts[tag] if text.strip()
    ]
    assert shown == [NASTY] * len(shown)
    assert len(shown) == 1 + 5 + 4 + 1 + 2 + 2
    assert [picture["alt"] for picture in page.pictures] == [NASTY, NASTY]


def test_text_in_a_trace_is_only_ever_text():
    page = Page(render("trace.html", title=NASTY, filled=NASTY, data={"name": NASTY}))
    assert page.texts["h1"][0] == page.texts["p"][0] == NASTY
    assert page.tags.count("script") == 1
    assert "b" not in page.tags


def test_pictures_are_part_of_the_page():
    assert png(b"\x89PNG") == "data:image/png;base64,iVBORw=="
    assert [picture["src"] for picture in Page(report("x")).pictures] == [png(b"\x89PNG")] * 2


def test_a_value_that_a_template_lacks_is_an_error():
    with pytest.raises(jinja2.UndefinedError, match="filled"):
        render("trace.html", title="sort", data={})


@pytest.mark.parametrize("name", TEMPLATES)
def test_pages_fit_a_phone_and_paper_in_the_dark_too_and_need_nothing_from_elsewhere(name):
    folder = resources.files("posattn.html") / "templates"
    text = (folder / name).read_text(encoding="utf-8")
    if name == "base.html":
        assert all(part in text for part in ('name="viewport"', "@media print", "color-scheme: light dark"))
    else:
        assert text.startswith('{% extends "base.html" %}')
    assert "|safe" not in text.replace(" ", "")
    assert "innerHTML" not in text
    without = text.replace("http://www.w3.org/2000/svg", "")  # a name, not an address
    assert not re.search(r"https?:|//cdn|url\(|@import|<link", without)


def written_by_hand(tree: ast.AST) -> list[str]:
    """Strings with an HTML tag in them, wherever they stand, f-strings included."""
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    tags = "!doctype|html|head|body|div|span|p|table|thead|tr|td|th|ul|li|h[1-6]|img|figure|style|script|svg|a"
    return [text for text in texts if re.search(rf"<(?:{tags})(?:[ >]|$)", text)]


def test_no_file_writes_html_by_hand():
    docstring = "<h1>is 1 &lt; 2?</h1>"  # the renderer's own example
    found = {
        str(path.relative_to(SOURCE)): text
        for path in SOURCE.rglob("*.py")
        for text in written_by_hand(ast.parse(path.read_text(encoding="utf-8")))
        if docstring not in text
    }
    assert found == {}


@pytest.mark.parametrize("code", ["x = '<div class=\"a\">'", "f'<td>{cell}</td>'", "'''<!doctype html>'''"])
def test_html_written_by_hand_is_seen(code):
    assert written_by_hand(ast.parse(code))
