"""A first file for a task, a study or a program of one's own."""

import importlib.util
import keyword
import os
import re
import shlex
from importlib import resources
from string import Template
from typing import Annotated

import typer

from posattn.cli.app import app, path
from posattn.errors import require, unknown

#: By what the file describes: the command that tries it.
NEXT = {
    "task": "posattn train {name} --plugin {file} --steps 200",
    "study": "posattn run {name} --plugin {file} --preset smoke",
    "program": "posattn compile {name} --plugin {file} --length 8",
}


@app.command("new")
def new_file(
    kind: Annotated[str, typer.Argument(metavar="task|study|program", help="What to begin.")],
    name: Annotated[str, typer.Argument(help="What commands will call it: small letters, digits and dashes.")],
    out: Annotated[
        str | None, typer.Option(help="File to write. Default: NAME.py, with _ for dashes.", callback=path)
    ] = None,
) -> None:
    """Write a documented file for a task, a study or a program of your own, which runs as it is.

    Example: posattn new task parity
    """
    from posattn.files import write_whole

    if kind not in NEXT:
        raise unknown("kind of file", kind, NEXT)
    _check_name(kind, name)
    function = name.replace("-", "_")
    file = out or f"{function}.py"
    taken = out is None and importlib.util.find_spec(function) is not None
    require(not taken, f"'{file}' would hide the module '{function}' from Python here: name another file, --out FILE.")
    require(not os.path.lexists(file), f"'{file}' is there already: name another file, --out FILE, or remove it.")
    template = resources.files("posattn.cli").joinpath("templates", f"{kind}.py.txt").read_text(encoding="utf-8")
    class_name = "".join(part.capitalize() for part in name.split("-"))
    shown = shlex.quote(file)
    written = Template(template).substitute(name=name, class_name=class_name, function=function, file=shown)
    write_whole(file, written.encode())
    print(f"written: {file}")
    print(f"next: {NEXT[kind].format(name=name, file=shown)}")


def _check_name(kind: str, name: str) -> None:
    from posattn import studies, tasks
    from posattn.compile import library

    require(
        re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) is not None and not keyword.iskeyword(name),
        f"name={name!r}: use small letters, digits and single dashes, as running-total; a letter comes first, words "
        "of Python's own are taken.",
    )
    taken = {"task": tasks.OURS, "study": studies.REGISTRY, "program": library.OURS}[kind]
    require(name not in taken, f"name={name!r} is a {kind} of posattn's own: choose another name.")
