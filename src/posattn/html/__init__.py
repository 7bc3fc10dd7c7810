"""HTML pages from templates: one renderer for reports and traces.

Templates lie in `templates/`. All pages extend `base.html`, which holds the style that pages share. Every value is
escaped, so text stays text. Pages are self-contained: they open offline, and pictures are part of the page.

>>> page = render("trace.html", title="is 1 < 2?", filled=None, data={})
>>> "<h1>is 1 &lt; 2?</h1>" in page
True
"""

import base64
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def render(template: str, **values: Any) -> str:
    """The page that a template makes of these values, each of them escaped. A missing value raises."""
    return _environment().get_template(template).render(values)


def png(picture: bytes) -> str:
    """A PNG as an address that holds the whole picture, for an image's `src`."""
    return f"data:image/png;base64,{base64.b64encode(picture).decode()}"


def picture(caption: str, drawn: bytes, *, narrow: bytes | None = None) -> dict[str, str | None]:
    """A picture for templates: PNGs, of which narrow pages show the narrow one, so that its letters can be read."""
    return {"caption": caption, "source": png(drawn), "narrow": None if narrow is None else png(narrow)}


def csv(text: str) -> str:
    """Comma-separated values as an address that holds all of them, for a link's `href`."""
    return f"data:text/csv;charset=utf-8;base64,{base64.b64encode(text.encode()).decode()}"


@cache
def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("posattn.html", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.policies["json.dumps_kwargs"] = {"sort_keys": False}  # registers stay in their order
    return found
