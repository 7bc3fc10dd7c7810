"""The command `posattn`, thin: parse, call, print. A user's mistake ends with one line on stderr and exit code 2."""

import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from posattn import __version__, tasks
from posattn.errors import PosattnError

app = typer.Typer(
    name="posattn",
    help="A workbench for Transformers that execute algorithms through position.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"posattn {__version__}")
        raise typer.Exit


@app.callback()
def posattn(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """A workbench for Transformers that execute algorithms through position."""


@app.command("tasks")
def list_tasks() -> None:
    """List the tasks: what each one computes, with an example.

    In Python: task = posattn.tasks.get("sort"); x, y = task.sample(1000, generator=torch.Generator()).
    """
    table = Table("task", "computes", "example", title="What a model can be asked to compute")
    for name in tasks.names():
        task = tasks.get(name)
        table.add_row(name, task.summary, task.example())
    Console().print(table)


def main() -> None:
    """Run the command line."""
    try:
        app()
    except PosattnError as error:
        print(f"posattn: {error}", file=sys.stderr)
        sys.exit(2)
