"""Studies: published experiments, repeated, and their reports."""

import json
import os
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from posattn.cli.app import Device, Json, Keep, Out, app, pairs, path, resumable
from posattn.cli.train import MOST_SEEDS, warn_of_divergence
from posattn.errors import PosattnError

if TYPE_CHECKING:
    from posattn.studies.core.results import Results


@app.command("studies")
def list_studies(as_json: Json = False) -> None:
    """List the studies: the question each one asks, the published figure it answers, and what its presets cost."""
    from posattn.studies import REGISTRY

    if as_json:
        columns = ("paper", "question", "answers", "tasks", "cost")
        rows = [
            {"study": study.name} | {name: getattr(study, name) for name in columns}
            for study in sorted(REGISTRY.values(), key=lambda study: (study.paper, study.name))
        ]
        print(json.dumps(rows))
        return

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
    seeds: Annotated[int | None, typer.Option(help="How many seeds; default: the preset's.", max=MOST_SEEDS)] = None,
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
    all that the folder has of the study at this preset and with these options, from earlier runs too. Exit code 1 where
    every trial diverged.

    Example: posattn run ood-scale --task sort --preset quick
    """
    from posattn import engine, report, studies
    from posattn.studies.core import results, table
    from posattn.train.language.pretrained import check_usable

    reporter = engine.Lines() if as_json else engine.Bar()
    asked = studies.get(study).choosing(pairs(option or []))
    if gpt2 is not None:
        asked = asked.using(_language_model(gpt2))
        cases, count = asked.chosen(tuple(task or ()), preset, tuple(model or ())), asked.seed_count(preset, seeds)
        reads = [case.seeded(seed) for case in cases for seed in range(count) if case.trial.needs is not None]
        if any(not engine.Store(out).has(trial) for trial in reads):  # an explicit one is not left out with a note
            check_usable(str(asked.language_model))
    with resumable():
        found = results.run(
            asked,
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
        print(json.dumps({"event": "result", "rows": table.rows(found), "report": str(page)}))
    else:
        _print_results(found, str(page))
    _warn_of_divergence(found, out)


def _language_model(name: str) -> str:
    """A name on the hub, OWNER/NAME or NAME, or a folder that is there."""
    folder = path(name) if name else name  # a study says what it needs where there is no name at all
    assert folder is not None
    named = os.path.isabs(folder) or folder.startswith(".") or folder.count("/") > 1
    if named and not os.path.isdir(folder):
        raise PosattnError(
            f"--gpt2 {name}: there is no such folder. Name one that holds config.json, model.safetensors and the "
            "tokenizer's files, or a model on the hub, as gpt2."
        )
    return folder


def _warn_of_divergence(found: "Results", out: str) -> None:
    from posattn.engine import Store

    seeded = [(case, seed) for case, seeds in found.finished for seed in seeds]
    trials = {case.seeded(seed).id: (case, seed) for case, seed in seeded if case.trial.architecture is not None}
    steps = {row["trial"]: row["diverged_at"] for row in Store(out).rows(trials.keys())}
    lost = [
        f"{case.arm} on {case.task}, seed {seed} at step {steps[trial]}"
        for trial, (case, seed) in trials.items()
        if steps[trial] is not None
    ]
    warn_of_divergence(lost, len(trials))


@app.command("report")
def write_report(
    what: Annotated[
        str, typer.Argument(metavar="STUDY|FOLDER", help="A study, or a folder of results: all in it.", callback=path)
    ],
    out: Out = "runs",
) -> None:
    """Write reports again, from what the store holds: tables, figures and report.html."""
    from posattn import report, studies
    from posattn.engine import Store
    from posattn.studies.core import record, results

    names, folder = [what], out
    if what not in studies.REGISTRY and os.path.isdir(what):
        names, folder = record.recorded(Store(what)), what
        if not names:
            raise PosattnError(f"no study was run in '{what}': start one, posattn run STUDY --out {what}.")
    for name in names:
        found = results.results(name, folder)
        _print_results(found, str(report.write(found, folder)))


def _print_results(found: "Results", page: str) -> None:
    from posattn.studies.core import table

    shown = Table(title=found.study.question, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in table.header(found):
        shown.add_column(name, overflow="fold")
    for row in table.cells(found):
        shown.add_row(*row)
    Console().print(shown)
    for note in table.footnotes(found):
        print(f"- {note}")
    print(f"report: {page}")
