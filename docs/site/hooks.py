"""What mkdocs needs to know of this repository: the guides beside docs/ are pages, and links to source files work.

README.md is the site's home. A link from any page to a file outside docs/ leads to a page that shows this file.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
#: Guides outside docs/, and their pages on the site.
GUIDES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
LANGUAGES = {".py": "python", ".sh": "sh", ".yaml": "yaml", ".toml": "toml"}
#: What the theme's pages ask of the web, so that the search works in files, and what does it here.
SHIM, OURS = "https://unpkg.com/iframe-worker/shim", "site/worker.js"
LINK = re.compile(r"(\]\(<?)([^)\s>#]+)(#[^)\s>]*)?(>?(?: \"[^\"]*\")?\))")
FENCED = re.compile(r"^( *(`{3,})[^\n]*\n.*?^ *\2`* *)$", flags=re.DOTALL | re.MULTILINE)


def on_files(files: Files, config: Any) -> Files:
    """Add the guides, and a page for every file of this repository that some page links to."""
    texts = {f"docs/{file.src_uri}": file.content_string for file in files.documentation_pages()}
    texts |= {guide: (ROOT / guide).read_text(encoding="utf-8") for guide in GUIDES}
    for name in sorted({name for page, text in texts.items() for name in linked(page, text)}):
        files.append(File.generated(config, source_page(name), content=shown(name)))
    for guide, page in GUIDES.items():
        files.append(File.generated(config, page, content=moved(texts[guide], guide, page)))
    for file in list(files.documentation_pages()):
        if f"docs/{file.src_uri}" in texts:
            file.content_string = moved(texts[f"docs/{file.src_uri}"], f"docs/{file.src_uri}", file.src_uri)
    return files


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Nothing on a page comes from the web."""
    return output.replace(SHIM, posixpath.relpath(OURS, posixpath.dirname(page.url) or "."))


def linked(page: str, text: str) -> Iterator[str]:
    """The files outside docs/ that a page of this repository links to, guides left out."""
    for _, target, _, _ in LINK.findall(FENCED.sub("", text)):
        name = resolved(page, target)
        if name and not name.startswith("docs/") and name not in GUIDES and (ROOT / name).is_file():
            yield name


def resolved(page: str, target: str) -> str | None:
    """What a relative link points at, from the repository's root; None for the web."""
    if re.match(r"[a-z][a-z0-9+.-]*:", target):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), target))


def moved(text: str, page: str, at: str) -> str:
    """A page's text with its links as they are on the site, where the page lies `at` its folder's top."""

    def replaced(match: re.Match[str]) -> str:
        before, target, anchor, after = match.groups()
        name = resolved(page, target)
        if name is None:
            return match[0]
        there = GUIDES.get(name) or (name.removeprefix("docs/") if name.startswith("docs/") else source_page(name))
        return f"{before}{posixpath.relpath(there, posixpath.dirname(at) or '.')}{anchor or ''}{after}"

    parts = FENCED.split(text)  # text, block, fence, text, block, fence, …
    return "".join(
        LINK.sub(replaced, part) if number % 3 == 0 else part for number, part in enumerate(parts) if number % 3 != 2
    )


def source_page(name: str) -> str:
    return f"source/{name}.md"


def shown(name: str) -> str:
    """The page of a file: its name and its text."""
    path = ROOT / name
    front = f"---\ntitle: {path.name}\nsearch: {{exclude: true}}\n---\n"
    return (
        f"{front}# `{name}`\n\n``````{LANGUAGES.get(path.suffix, 'text')}\n{path.read_text(encoding='utf-8')}``````\n"
    )
