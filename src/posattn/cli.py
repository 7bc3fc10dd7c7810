"""The command `posattn`, thin: parse, call, print. A user's mistake ends with one line on stderr and exit code 2."""

import json
import math
import statistics
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

Device = Annotated[str, typer.Option(help="auto, cpu or cuda; auto takes CUDA where there is one.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of a table for people.")]


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


@app.command()
def train(
    task: Annotated[str, typer.Argument(help="A numeric task, as in `posattn tasks`.")],
    model: Annotated[str, typer.Option(help="positional, homogeneous (positional without biases) or standard.")] = (
        "positional"
    ),
    length: Annotated[int, typer.Option(help="How many numbers an input has.")] = 8,
    seeds: Annotated[int, typer.Option(help="How many replicas to train, with seeds 0, 1, …")] = 1,
    steps: Annotated[int, typer.Option(help="Optimiser steps.")] = 2000,
    samples: Annotated[int, typer.Option(help="Training samples.")] = 30_000,
    batch: Annotated[int, typer.Option(help="Samples in a batch.")] = 1000,
    lr: Annotated[float, typer.Option(help="Learning rate, decayed to 0 by a cosine.")] = 1e-3,
    scales: Annotated[
        list[int] | None, typer.Option("--scale", help="Test on [-2c, 2c] for this c; repeatable.")
    ] = None,
    precision: Annotated[str, typer.Option(help="float32, tf32, bf16 or float64.")] = "float32",
    device: Device = "auto",
    out: Annotated[str, typer.Option(help="Folder for results and checkpoints.")] = "runs",
    as_json: Json = False,
) -> None:
    """Train models on one task and test them far outside the range they saw.

    Trains on numbers in [-2, 2], tests on [-2c, 2c]. Stop with Ctrl-C and run the same command again to go on; what is
    finished is never trained again. Results and weights lie below the folder given by --out.

    Example: posattn train sort --model homogeneous --seeds 4 --steps 5000
    """
    from posattn import engine
    from posattn.train.simple import numeric_trials

    trials = numeric_trials(
        task,
        model,
        length=length,
        seeds=seeds,
        steps=steps,
        samples=samples,
        batch=batch,
        lr=lr,
        scales=tuple(scales or (1, 2, 3, 5, 10)),
        precision=precision,
    )
    try:
        store = engine.run(trials, out=out, device=device, reporter=engine.Lines() if as_json else engine.Bar())
    except engine.Interrupted as stop:  # typer would end without a word
        print(f"posattn: {stop}", file=sys.stderr)
        raise typer.Exit(130) from None
    ids = {trial.id for trial in trials}
    rows = [row for row in store.rows() if row["trial"] in ids and row["step"] == steps]
    if as_json:
        columns = ("trial", "seed", "set", "loss", "metric", "diverged_at")
        print(json.dumps({"event": "result", "rows": [{name: row[name] for name in columns} for row in rows]}))
        return
    table = Table("test set", "median loss", "lowest", "highest", title=f"{model} on {task}, {seeds} seeds")
    for name in dict.fromkeys(row["set"] for row in rows):
        losses = [math.inf if row["loss"] is None else row["loss"] for row in rows if row["set"] == name]
        table.add_row(name, *(f"{value:.2e}" for value in (statistics.median(losses), min(losses), max(losses))))
    Console().print(table)
    print(f"weights and metrics: {store.folder}/<trial>/, one folder for each seed")


@app.command()
def bench(
    device: Device = "auto",
    precision: Annotated[str, typer.Option(help="float32, tf32, bf16 or float64.")] = "float32",
    fleet: Annotated[
        list[int] | None, typer.Option(help="Fleet size to measure; repeatable. Default 1 10 50 100.")
    ] = None,
    batch: Annotated[int, typer.Option(help="Samples in a batch.")] = 1000,
    as_json: Json = False,
) -> None:
    """Measure how fast fleets train, as ratios to a plain loop over one model in the same run.

    The share column says how much of the machine's measured matrix-product rate the arithmetic that the model needs
    amounts to. Takes a minute on a GPU and several on a CPU.
    """
    from posattn.bench import bench as measure

    found = measure(device=device, precision=precision, sizes=tuple(fleet or (1, 10, 50, 100)), batch=batch)
    if as_json:
        print(json.dumps(found))
        return
    table = Table(
        "model", "fleet", "ms per replica step", "plain loop, ms", "ratio", "share of matmul rate",
        title=f"{found['device']}, {found['precision']}, batch {found['batch']}, "
        f"matrix products at {found['matmul_tflops']:.3g} TFLOP/s",
    )  # fmt: skip
    for one in found["measurements"]:
        table.add_row(
            one["model"],
            str(one["fleet"]),
            f"{one['milliseconds']:.3g}",
            f"{one['plain_milliseconds']:.3g}",
            f"{one['ratio']:.2f}×",
            f"{one['matmul_share']:.0%}",
        )
    Console().print(table)


def main() -> None:
    """Run the command line."""
    try:
        app()
    except PosattnError as error:
        print(f"posattn: {error}", file=sys.stderr)
        sys.exit(2)
