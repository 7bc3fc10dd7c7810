"""Tasks, training and studies."""

import json
import math
import os
import statistics
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from posattn import tasks
from posattn.cli.app import Device, Json, Out, app, pairs, resumable
from posattn.errors import PosattnError

if TYPE_CHECKING:
    from posattn.studies.results import Results


Keep = Annotated[bool, typer.Option("--keep", help="Use results of a task of yours that has changed since.")]


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
    keep: Keep = False,
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
    with resumable():
        reporter = engine.Lines() if as_json else engine.Bar()
        store = engine.run(trials, out=out, device=device, reporter=reporter, keep=keep)
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

    for paper in dict.fromkeys(study.paper for study in REGISTRY.values()):
        table = Table(title=paper, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), title_justify="left")
        for column, widest in (("study", None), ("question", None), ("answers", 14), ("quick", 13), ("paper", 7)):
            table.add_column(column, no_wrap=column == "study", max_width=widest)
        for study in sorted(REGISTRY.values(), key=lambda study: study.name):
            if study.paper == paper:
                table.add_row(study.name, study.question, study.answers, study.cost["quick"], study.cost["paper"])
        Console().print(table)
    print("What quick and paper cost; smoke takes seconds. Start one: posattn run STUDY --preset quick")


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
    option: Annotated[
        list[str] | None,
        typer.Option(
            help="sts-… studies: keys, query, query_scale, kappa or redraw, as query=sum; khop-… studies: "
            "standard_layers=4 ends that model at 4 layers, gelu=erf is the exact GELU; repeatable."
        ),
    ] = None,
    device: Device = "auto",
    out: Out = "runs",
    keep: Keep = False,
    as_json: Json = False,
) -> None:
    """Repeat a published experiment: ours beside the published figure, with a report.

    Stop with Ctrl-C and run the same command again to go on; what is finished is never trained again. The table shows
    all that the folder has of the study at this preset and with these options, from earlier runs too.

    Example: posattn run ood-scale --task sort --preset quick
    """
    from posattn import engine, report, studies
    from posattn.studies import results, table

    reporter = engine.Lines() if as_json else engine.Bar()
    asked = studies.get(study).choosing(pairs(option or []))
    with resumable():
        found = results.run(
            asked if gpt2 is None else asked.using(gpt2),
            preset=preset,
            tasks=tuple(task or ()),
            arms=tuple(model or ()),
            seeds=seeds,
            device=device,
            out=out,
            reporter=reporter,
            keep=keep,
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

    shown = Table(title=found.study.question, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in table.header(found):
        shown.add_column(name, overflow="fold")
    for row in table.cells(found):
        shown.add_row(*row)
    Console().print(shown)
    for note in table.footnotes(found):
        print(f"- {note}")
    print(f"report: {page}")
