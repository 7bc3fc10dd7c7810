"""Studies: published experiments, repeated, and their reports."""

import json
import os
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table

from posattn.cli.app import (
    MOST_SEEDS,
    Changes,
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
    path,
    resumable,
    together,
)
from posattn.cli.output import print_table, warn_of_divergence
from posattn.cli.print_compact import print_compact, print_wrapped
from posattn.errors import PosattnError

if TYPE_CHECKING:
    from posattn.studies.core.results import Results


@app.command("studies")
def list_studies(plugin: Plugin = None, as_json: Json = False) -> None:
    """List the studies: the question each one asks, the published figure it answers, and what its presets cost."""
    from posattn import plugins
    from posattn.studies import REGISTRY

    plugins.load_all(plugin)
    others = {name: package for name, package in plugins.installed("studies").items() if name not in REGISTRY}
    if as_json:
        columns = ("paper", "question", "answers", "tasks", "cost")
        rows = [
            {"study": study.name}
            | {name: getattr(study, name) for name in columns}
            | {"options": {name: choice.known for name, choice in study.choices.items()}}
            for study in sorted(REGISTRY.values(), key=lambda study: (study.paper, study.name))
        ]
        rows += [{"study": name} | dict.fromkeys(columns) for name in others]
        print(json.dumps(rows))
        return

    for paper in dict.fromkeys(study.paper for study in REGISTRY.values()):
        table = Table(title=paper, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), title_justify="left")
        for column, widest in (("study", None), ("question", None), ("answers", 14), ("quick", 13), ("paper", 7)):
            table.add_column(column, no_wrap=column == "study", max_width=widest)
        for study in sorted(REGISTRY.values(), key=lambda study: study.name):
            if study.paper == paper:
                table.add_row(study.name, study.question, study.answers, study.cost["quick"], study.cost["paper"])
        print_table(table)
    for name, package in others.items():
        print(f"{name}: installed by {package}")
    print("What quick and paper cost; smoke takes seconds. Start one: posattn run STUDY --preset quick")


@app.command()
def run(
    study: StudyName,
    task: StudyTasks = None,
    model: StudyModels = None,
    preset: Preset = "quick",
    seeds: Annotated[
        int | None, typer.Option(help="How many seeds. Default: as many as the preset has.", max=MOST_SEEDS)
    ] = None,
    option: StudyOptions = None,
    changes: Changes = None,
    device: Device = "auto",
    cluster: Cluster = None,
    out: Out = "runs",
    keep: Keep = False,
    fleet: Together = "on",
    plugin: Plugin = None,
    log: LogTo = None,
    as_json: Json = False,
) -> None:
    """Repeat a published experiment: ours beside the published figure, with a report.

    Stop with Ctrl-C and run the same command again to go on; what is finished is never trained again. The table shows
    what earlier runs at this preset and with these options have asked for, too. With --set, the study has results and a
    report of its own, which say what was changed. Exit code 1 if every trial diverged.

    Example: posattn run ood-scale --task sort --preset quick

    Example: posattn run ood-scale --task sort --set optimiser.lr=3e-3 --set model.layers=6

    Example: posattn run ood-scale --preset paper --cluster auto
    """
    from posattn import engine, plugins, report, studies
    from posattn.report import table
    from posattn.report.answer import answer
    from posattn.studies.core import results
    from posattn.train.changes import parse

    as_one = together(fleet)
    plugins.load_all(plugin)
    plugins.provide("studies", study)
    reporter = engine.Lines() if as_json else engine.Bar()
    asked = studies.get(study).choosing(pairs(option or [])).setting(parse(changes or []))
    tasks, arms = tuple(task or ()), tuple(model or ())
    asked.chosen(tasks, preset, arms)
    nodes = engine_of(cluster, device, as_one)
    if "gpt2" in asked.chosen_values:
        cases, count = asked.chosen(tasks, preset, arms), asked.seed_count(preset, seeds)
        _check_language_models([case.seeded(seed) for case in cases for seed in range(count)], out)
    with resumable(), modules_from_here():
        found = results.run(
            asked,
            preset=preset,
            tasks=tasks,
            arms=arms,
            seeds=seeds,
            device=device,
            out=out,
            reporter=reporter,
            keep=keep,
            together=as_one,
            engine=nodes,
            log=logs(log),
        )
    page = report.write(found, out)
    if as_json:
        result = {"rows": table.rows(found), "changes": found.record.changes, "report": str(page)}
        print(json.dumps({"event": "result", "answer": answer(found)} | result))
    else:
        _print_results(found, str(page))
    if found.diverged:
        lost = [f"{case.arm} on {case.task}, seed {seed} at step {step}" for case, seed, step in found.diverged]
        trained = [seeds for case, seeds in found.finished if case.trial.architecture is not None]
        warn_of_divergence(lost, sum(map(len, trained)))


def _check_language_models(trials: list[Any], out: str) -> None:
    """The preset's own language model may be left out with a note; one that the user names must be usable."""
    from posattn.engine import Store
    from posattn.train.language.pretrained import check_usable

    missing = [trial for trial in trials if trial.needs is not None and not Store(out).has(trial)]
    for name in dict.fromkeys(trial.needs for trial in missing):
        check_usable(name)


@app.command("report")
def write_report(
    what: Annotated[
        str,
        typer.Argument(
            metavar="STUDY|FOLDER", help="A study, or a folder of results: every study in it.", callback=path
        ),
    ],
    out: Out = "runs",
    plugin: Plugin = None,
) -> None:
    """Write reports again from the stored results: tables, figures and report.html.

    A study that was run with --set has a report of its own: a folder's reports are all of them, STUDY alone is the
    unchanged one, and the name of a report's folder works too, as in posattn report ood-scale+optimiser.lr=0.001.

    A study of your own needs the file that describes it, --plugin FILE; no other file of yours is imported.
    """
    from posattn import plugins, report, studies
    from posattn.engine import Store
    from posattn.studies.core import record, results

    plugins.load_all(plugin)
    names, folder = [what], out
    if what not in studies.REGISTRY and os.path.isdir(what):
        names, folder = record.recorded(Store(what)), what
        if not names:
            raise PosattnError(f"no study was run in '{what}': start one, posattn run STUDY --out {what}.")
    if what not in studies.REGISTRY and set(names) <= set(record.recorded(Store(folder))):
        names = _known(names, studies.REGISTRY)
    for name in names:
        found = results.results(name, folder)
        _print_results(found, str(report.write(found, folder)))


def _known(names: list[str], known: Collection[str]) -> list[str]:
    """The studies that can be reported; a user's own is left out with a note where others are there."""
    others = [name for name in names if name.partition("+")[0] not in known]  # after it, what was changed
    note = f"{', '.join(others)}: not a study of posattn's own. Name the file that describes it, --plugin FILE."
    if len(others) == len(names):
        raise PosattnError(note)
    if others:
        print(f"posattn: {note}", file=sys.stderr)
    return [name for name in names if name not in others]


def _print_results(found: "Results", page: str) -> None:
    from posattn.report import answer, table
    from posattn.report.compact import compact

    print_wrapped(found.study.question)
    print_wrapped(answer.answer(found))
    print_wrapped(f"({'; '.join(answer.caveats(found))}.)")
    for part in compact(found):
        print_compact(part)
    if found.study.view.across == "x":
        print(f"Columns: {found.study.view.axis}.")
    for note in table.footnotes(found):
        print(f"- {note}")
    print(f"report: {page}")
