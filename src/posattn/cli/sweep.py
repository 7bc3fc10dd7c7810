"""Sweeps of a study: which values of some fields do best on its validation sets."""

import json
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from posattn.cli.app import (
    MOST_SEEDS,
    Cluster,
    Device,
    Json,
    Keep,
    LogTo,
    Out,
    Plugin,
    Preset,
    StudyModels,
    StudyName,
    StudyOptions,
    StudyTasks,
    Together,
    app,
    engine_of,
    logs,
    modules_from_here,
    pairs,
    plain,
    resumable,
    together,
)
from posattn.cli.output import print_table


@app.command()
def sweep(
    study: StudyName,
    values: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="FIELD=VALUE,VALUE",
            help="A field of the trials and the values to try; repeatable. As optimiser.lr=1e-4,5e-4,1e-3, "
            "model.heads=1,2,4, optimiser.schedule=cosine,linear; for random and optuna also a range, by logarithms, "
            "optimiser.lr=1e-5..1e-2, or of whole numbers, where both ends are, model.layers=1..6.",
        ),
    ] = None,
    search: Annotated[str, typer.Option(help="grid (every combination), random, or optuna.")] = "grid",
    budget: Annotated[int | None, typer.Option(help="How many settings random and optuna try.")] = None,
    batch: Annotated[
        int | None,
        typer.Option(
            help="Settings that are tried at once, as fleets. Default: all; 16 for optuna and with --stop-early, which "
            "learn from those before."
        ),
    ] = None,
    stop_early: Annotated[
        bool,
        typer.Option("--stop-early", help="Stop fleets that do worse than half of the settings before them."),
    ] = False,
    task: StudyTasks = None,
    model: StudyModels = None,
    preset: Preset = "quick",
    seeds: Annotated[int, typer.Option(help="Seeds of every setting, 2 or more.", max=MOST_SEEDS)] = 3,
    option: StudyOptions = None,
    device: Device = "auto",
    cluster: Cluster = None,
    out: Out = "runs",
    keep: Keep = False,
    fleet: Together = "on",
    plugin: Plugin = None,
    log: LogTo = None,
    as_json: Json = False,
) -> None:
    """Try many settings of a study's trials, and report which does best for each model and task.

    Settings of one shape train as one fleet with all their seeds. Each is judged by the median over seeds of its loss
    on the set “validation”, never by a single run or a test set; a study without such a set gets one, drawn as its
    training data. Stop with Ctrl-C and run the same command again to go on.

    Example: posattn sweep ood-scale --task sort --set optimiser.lr=1e-4,5e-4,1e-3 --set model.heads=1,2,4

    Example: posattn sweep ood-scale --task sort --set optimiser.lr=1e-5..1e-2 --search optuna --budget 64 --stop-early
    """
    from posattn import engine, plugins, report, studies
    from posattn.report import sweep as sweep_report
    from posattn.studies import sweep as sweeps

    as_one = together(fleet)
    plugins.load_all(plugin)
    plugins.provide("studies", study)
    space = sweeps.parse(values or [])
    asked = studies.get(study).choosing(pairs(option or []))
    nodes = engine_of(cluster, device, as_one)
    with resumable(), modules_from_here():
        found = sweeps.sweep(
            asked,
            space,
            search=search,
            budget=budget,
            batch=batch,
            stop_early=stop_early,
            preset=preset,
            tasks=tuple(task or ()),
            arms=tuple(model or ()),
            seeds=seeds,
            device=device,
            out=out,
            reporter=engine.Lines() if as_json else engine.Bar(),
            keep=keep,
            together=as_one,
            engine=nodes,
            log=logs(log),
        )
    page = report.write_sweep(found, out)
    if as_json:
        rows = plain(sweep_report.rows(found))
        print(json.dumps({"event": "result", "rows": rows, "report": str(page)}))
        return
    table = Table(title=f"Best of {len(found.tried)} settings", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in sweep_report.header(found):
        table.add_column(name, no_wrap=name in ("median", "spread"))
    for row in sweep_report.best_cells(found):
        table.add_row(*row)
    print_table(table)
    for note in sweep_report.notes(found):
        print(f"- {note}")
    print(f"report: {page}")
