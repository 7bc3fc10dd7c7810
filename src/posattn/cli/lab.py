"""`posattn lab`."""

import signal
import sys
from typing import Annotated

import typer

from posattn.cli.app import app, path


@app.command("lab")
def lab(
    out: Annotated[str, typer.Option(help="Folder of results that the tab Runs shows.", callback=path)] = "runs",
    port: Annotated[int | None, typer.Option(help="Port; default: the first free one from 7860 on.")] = None,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """Serve an interactive page on this machine: watch models run, write programs, look at runs.

    Needs the extra lab of the package. Only this machine can reach the page, and it fetches nothing from elsewhere.
    Ctrl-C ends it, and leaves nothing behind.
    """
    from posattn.lab.serve import serve

    try:
        serve(out, port=port, browser=browser, ready=lambda address: print(f"the lab is at {address}", flush=True))
    except KeyboardInterrupt:
        print("posattn: the lab has ended.", file=sys.stderr)
        raise typer.Exit(128 + signal.SIGINT) from None
