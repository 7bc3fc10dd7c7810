"""The command `posattn`, thin: parse, call, print. A user's mistake ends with one line on stderr and exit code 2."""

import json
import math
import os
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from posattn import __version__, tasks
from posattn.errors import PosattnError

if TYPE_CHECKING:
    from posattn.studies.results import Results

PRESETS = ("smoke", "quick", "paper")

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
def _resumable() -> Iterator[None]:
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
    out: Out = "runs",
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
    with _resumable():
        store = engine.run(trials, out=out, device=device, reporter=engine.Lines() if as_json else engine.Bar())
    ids = {trial.id for trial in trials}
    rows = [row for row in store.rows(ids) if row["step"] == steps]
    if as_json:
        columns = ("trial", "seed", "set", "loss", "metric", "diverged_at")
        print(json.dumps({"event": "result", "rows": [{name: row[name] for name in columns} for row in rows]}))
        return
    table = Table(
        "test set",
        "median loss",
        "lowest",
        "highest",
        title=f"{model} on {task}, {seeds} seed{'s' if seeds > 1 else ''}",
    )
    for name in dict.fromkeys(row["set"] for row in rows):
        losses = [math.inf if row["loss"] is None else row["loss"] for row in rows if row["set"] == name]
        table.add_row(name, *(f"{value:.2e}" for value in (statistics.median(losses), min(losses), max(losses))))
    Console().print(table)
    print(f"weights and metrics: {store.folder}/<trial>/, one folder for each seed")


@app.command("studies")
def list_studies() -> None:
    """List the studies: the question each one asks, the published figure it answers, and what its presets cost."""
    from posattn.studies import REGISTRY

    table = Table(
        "study", "question", "answers", "smoke", "quick", "paper", title="Published experiments, to run again"
    )
    for study in REGISTRY.values():
        table.add_row(study.name, study.question, study.answers, *(study.cost[name] for name in PRESETS))
    Console().print(table)


@app.command()
def run(
    study: Annotated[str, typer.Argument(help="A study, as in `posattn studies`.")],
    task: Annotated[list[str] | None, typer.Option(help="A task of the study; repeatable. Default: all.")] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="A model of the study, as in its table; repeatable. Default: all.")
    ] = None,
    preset: Annotated[str, typer.Option(help="smoke (seconds), quick (minutes on a CPU) or paper.")] = "quick",
    gpt2: Annotated[
        str | None, typer.Option(help="mixed-type only: a causal language model, by name or folder, to fine-tune.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="How many seeds; default: the preset's.")] = None,
    device: Device = "auto",
    out: Out = "runs",
    as_json: Json = False,
) -> None:
    """Repeat a published experiment: ours beside the published figure, with a report.

    Stop with Ctrl-C and run the same command again to go on; what is finished is never trained again. With --model,
    what an earlier run of the same preset and tasks has of the other models stays in the table.

    Example: posattn run ood-scale --task sort --preset quick
    """
    from posattn import engine, report, studies
    from posattn.studies import results, table

    reporter = engine.Lines() if as_json else engine.Bar()
    with _resumable():
        found = results.run(
            studies.get(study).using(gpt2) if gpt2 else studies.get(study),
            preset=preset,
            tasks=tuple(task or ()),
            arms=tuple(model or ()),
            seeds=seeds,
            device=device,
            out=out,
            reporter=reporter,
        )
    page = report.write(found, out)
    if as_json:
        rows = [dict(zip(table.header(found), row, strict=True)) for row in table.cells(found)]
        print(json.dumps({"event": "result", "rows": rows, "report": str(page)}))
        return
    _print_results(found, str(page))


@app.command("report")
def write_report(
    what: Annotated[str, typer.Argument(metavar="STUDY|FOLDER", help="A study, or a folder of results: all in it.")],
    out: Out = "runs",
) -> None:
    """Write reports again, from what the store holds: tables, figures and report.html."""
    from posattn import report, studies
    from posattn.engine import Store
    from posattn.studies import record, results

    names, folder = [what], out
    if what not in studies.REGISTRY and os.path.isdir(what):
        names, folder = record.recorded(Store(what)), what
        if not names:
            raise PosattnError(f"no study was run in '{what}': start one, posattn run STUDY --out {what}.")
    for name in names:
        found = results.results(name, folder)
        _print_results(found, str(report.write(found, folder)))


def _print_results(found: "Results", page: str) -> None:
    from posattn.studies import table

    shown = Table(*table.header(found), title=found.study.question, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for row in table.cells(found):
        shown.add_row(*row)
    Console().print(shown)
    for note in table.footnotes(found):
        print(f"- {note}")
    print(f"report: {page}")


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
