"""The command's root, and what several commands share."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from posattn import __version__
from posattn.errors import PosattnError

app = typer.Typer(
    name="posattn",
    help="A workbench for Transformers that execute algorithms through position.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

Device = Annotated[str, typer.Option(help="auto, cpu or cuda; auto takes CUDA where there is one.")]
Out = Annotated[str, typer.Option(help="Folder for results and checkpoints.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of a table for people.")]


def _print_version(wanted: bool) -> bool:
    if wanted:
        print(f"posattn {__version__}")
        raise typer.Exit
    return wanted


@contextmanager
def resumable() -> Iterator[None]:
    """Ctrl-C ends with what the run says about going on; typer by itself would end without a word."""
    from posattn.engine import Interrupted

    try:
        yield
    except Interrupted as stop:
        print(f"posattn: {stop}", file=sys.stderr)
        raise typer.Exit(130) from None


@app.callback()
def posattn(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """A workbench for Transformers that execute algorithms through position."""


def pairs(given: list[str]) -> dict[str, str]:
    """NAME=VALUE, …"""
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise PosattnError(f"--option {text}: write NAME=VALUE.")
        if name in found:
            raise PosattnError(f"--option {text}: {name}={found[name]} was given, too. Give one of them.")
        found[name] = value
    return found
