"""Examples in docstrings are shown as code: a run of lines from `>>>` to the next empty line."""

import re
from typing import Any

import griffe

SESSION = re.compile(r"^( *)>>> .*?(?=\n\s*\n|\Z)", flags=re.DOTALL | re.MULTILINE)


class Doctests(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = SESSION.sub(fenced, obj.docstring.value)


def fenced(session: re.Match[str]) -> str:
    indent = session[1]
    return f"{indent}```pycon\n{session[0]}\n{indent}```"
