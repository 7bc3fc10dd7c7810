"""Every public name is on a page of docs/api, described and in an example; site/test_pages.py runs the examples."""

import ast
import re
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType

import pytest

import posattn
from pages import blocks

API = Path(__file__).parents[1] / "docs" / "api"
#: Modules with a list of public names, and their pages.
LISTED = {
    "nn": "nn",
    "tasks": "tasks",
    "train": "train",
    "engine": "engine",
    "engine.cluster": "engine",
    "studies": "studies",
    "studies.sweep": "studies",
    "report": "report",
    "compile": "compile",
    "compile.mpc": "compile",
    "compile.library": "library",
    "theory": "theory",
}
#: Modules without one offer what they define; their pages show these names.
OTHERS = {
    "compile.specification": "specification",
    "encodings": "encodings",
    "zoo": "zoo",
    "published": "zoo",
    "plugins": "plugins",
}


def public(module: ModuleType) -> list[str]:
    """The names that a module offers."""
    listed = getattr(module, "__all__", None)
    return listed or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def in_examples(text: str) -> set[str]:
    """Every name and attribute in a page's Python."""
    found: set[str] = set()
    for block in blocks(text):
        if block.language == "python":
            for node in ast.walk(ast.parse(block.code)):
                match node:
                    case ast.Name(name) | ast.Attribute(_, name) | ast.alias(name):
                        found.add(name)
                    case _:
                        pass
    return found


def described(text: str) -> set[str]:
    return set(re.findall(r"^::: (\S+)", text, flags=re.MULTILINE))


@pytest.mark.parametrize("module", LISTED | OTHERS)
def test_every_public_name_is_in_an_example(module: str) -> None:
    text = (API / f"{(LISTED | OTHERS)[module]}.md").read_text()
    assert sorted(set(public(resolve_name(f"posattn.{module}"))) - in_examples(text)) == []


@pytest.mark.parametrize("module", LISTED)
def test_every_listed_name_is_described(module: str) -> None:
    text = (API / f"{LISTED[module]}.md").read_text()
    found = resolve_name(f"posattn.{module}")
    prefixes = {f"posattn.{module}", found.__name__}
    missing = [
        name
        for name in public(found)
        if not described(text) & {f"{prefix}.{name}" for prefix in prefixes}
        and not (isinstance(getattr(found, name), ModuleType) and has_page(f"{module}.{name}"))
    ]
    assert missing == []


def has_page(module: str) -> bool:
    return module in LISTED | OTHERS


def test_names_of_the_package_itself_are_in_an_example() -> None:
    assert sorted(set(posattn.__all__) - in_examples((API / "index.md").read_text())) == []


def test_a_name_in_prose_or_in_a_comment_is_no_example() -> None:
    page = "one\n\n```python\nfrom two import three\nfour.five(six)  # seven\n```\n"
    assert in_examples(page) == {"three", "four", "five", "six"}
    assert described("::: posattn.one\n\nsee ::: posattn.two\n") == {"posattn.one"}
