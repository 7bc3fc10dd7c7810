"""The command `posattn`, thin: parse, call, print. A user's mistake ends with one line on stderr and exit code 2."""

import json
import math
import os
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from posattn import __version__, tasks
from posattn.errors import PosattnError, unknown

if TYPE_CHECKING:
    from posattn.compile import Compiled
    from posattn.studies.results import Results


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
        typer.Option(help="sts-… studies: keys, query, query_scale, kappa or redraw, as query=sum; repeatable."),
    ] = None,
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
    asked = studies.get(study).choosing(_pairs(option or []))
    with _resumable():
        found = results.run(
            asked if gpt2 is None else asked.using(gpt2),
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

    shown = Table(title=found.study.question, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in table.header(found):
        shown.add_column(name, overflow="fold")
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


@app.command("programs")
def list_programs() -> None:
    """List the parallel programs that can be compiled to exact weights, with their cost at length 8.

    In Python: posattn.compile.compile(posattn.compile.library.get("sort", 16)).
    """
    from posattn.compile import compile, library

    table = Table("program", "computes", "layers", "nodes", "encoding", title="Programs, compiled at length 8")
    for name, build in library.PROGRAMS.items():
        made = compile(library.get(name, 8))
        sizes = made.model.architecture
        told = (build.__doc__ or "").split(".")[0].split(":")[0]
        table.add_row(
            name, escape(told), str(sizes.depth), str(sizes.nodes), f"{made.encoding}, {sizes.encoding_width}"
        )
    Console().print(table)


@app.command("compile")
def compile_program(
    program: Annotated[str, typer.Argument(help="A program, as in `posattn programs`.")],
    length: Annotated[int, typer.Option(help="How many numbers it works on.")],
    domain: Annotated[float, typer.Option(help="Inputs lie in ± this.")] = 1000.0,
    dtype: Annotated[str, typer.Option(help="float32 or float64.")] = "float32",
    option: Annotated[
        list[str] | None, typer.Option(help="An option of the program, as operation=min or route=grid; repeatable.")
    ] = None,
    out: Annotated[str | None, typer.Option(help="File to write; default: PROGRAM-LENGTH.safetensors.")] = None,
) -> None:
    """Compile a parallel program to the weights of a positional Transformer, verify it, and save both.

    Example: posattn compile sort --length 16 --domain 1000 --out sort16.safetensors
    """
    import torch

    from posattn import compile as compiler

    dtypes = {"float32": torch.float32, "float64": torch.float64}
    if dtype not in dtypes:
        raise unknown("dtype", dtype, dtypes)
    made = compiler.compile(
        compiler.library.get(program, length, **_options(option or [])), domain=domain, dtype=dtypes[dtype]
    ).verify()
    print(made.summary())
    _print_certificate(made)  # what fails is not written
    path = out or f"{program}-{length}.safetensors"
    made.save(path)
    print(f"written: {path}")


def _options(given: list[str]) -> dict[str, Any]:
    """operation=min, source=3, destinations=2,0,1: numbers where they look like numbers."""
    found: dict[str, Any] = {}
    for name, value in _pairs(given).items():
        if name in ("name", "length"):
            raise PosattnError(f"--option {name}={value}: the program's {name} is no option, it is given by itself.")
        parts = [_number(part) for part in value.split(",")]
        found[name] = parts if len(parts) > 1 else parts[0]
    return found


def _pairs(given: list[str]) -> dict[str, str]:
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


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _print_certificate(made: "Compiled") -> None:
    assert made.certificate is not None
    print(made.certificate)
    if not made.certificate.holds:
        raise typer.Exit(1)


@app.command("verify")
def verify_file(
    file: Annotated[str, typer.Argument(help="A file that `posattn compile` wrote.")],
    samples: Annotated[int, typer.Option(help="Random inputs to try, besides the nasty ones.")] = 256,
    seed: Annotated[int, typer.Option(help="Seed of the random inputs.")] = 0,
) -> None:
    """Check a compiled model against its program again. Exit code 1 where it disagrees, with the first input."""
    from posattn.compile import load

    made = load(file)
    print(made.summary())
    _print_certificate(made.verify(samples=samples, seed=seed))


Values = Annotated[list[str], typer.Argument(help="Numbers; x:y for a program with two inputs, as 7:0 8:2 9:1.")]
#: Negative numbers are values here, not options.
NUMBERS = {"ignore_unknown_options": True}


def _rows(values: list[str]) -> list[list[float]]:
    """One row a node, one column an input."""
    try:
        rows = [[float(part) for part in value.split(":")] for value in values]
    except ValueError as error:
        raise PosattnError(f"the values {' '.join(values)}: {error}. Give numbers, as 3 1 2.") from None
    if not all(math.isfinite(value) for row in rows for value in row):
        raise PosattnError(f"the values {' '.join(values)}: one is not finite. Give numbers, as 3 1 2.")
    if len({len(row) for row in rows}) > 1:
        raise PosattnError(f"the values {' '.join(values)}: give every node as many inputs.")
    return rows


@app.command("trace", context_settings=NUMBERS)
def trace_program(
    program: Annotated[str, typer.Argument(help="A program, as in `posattn programs`.")],
    values: Values,
    option: Annotated[list[str] | None, typer.Option(help="An option of the program; repeatable.")] = None,
    html: Annotated[str | None, typer.Option(help="Write a page with the network drawn and the values moving.")] = None,
) -> None:
    """Watch a program at work: who reads from whom, and what every register holds, round by round.

    Example: posattn trace sort 3 1 2 5 4 --html sort.html
    """
    import numpy as np
    import torch

    from posattn.compile import library, trace
    from posattn.compile.compiled import check_kinds
    from posattn.files import write_whole

    rows = np.array(_rows(values))
    made = library.get(program, len(rows), **_options(option or []))
    if rows.shape[1] != len(made.inputs):
        named = ":".join(made.inputs)
        raise PosattnError(f"the values {' '.join(values)}: '{program}' takes {named} for every node.")
    check_kinds(made, torch.from_numpy(rows)[None])
    print(trace.text(made, rows))
    if html is not None:
        write_whole(html, trace.page(made, rows).encode())
        print(f"page: {html}")


@app.command("run-model", context_settings=NUMBERS)
def run_model(
    file: Annotated[str, typer.Argument(help="A model's file: compiled, or trained on a numeric task.")],
    values: Values,
) -> None:
    """Run a model on numbers and print what comes out.

    Example: posattn run-model sort16.safetensors 3 1 2
    """
    import torch

    from posattn import compile as compiler
    from posattn.nn import NumericModel, load
    from posattn.nn.weights import read_header

    rows = torch.tensor([_rows(values)], dtype=torch.float64)
    if "program" in read_header(file):
        found = compiler.load(file)(rows)
    else:
        model = load(file)
        if not isinstance(model, NumericModel):
            raise PosattnError(f"'{file}' holds a model for tokens or text: this command runs models for numbers.")
        with torch.no_grad():
            found = model(rows.to(next(model.parameters())))
    digits = 15 if found.dtype == torch.float64 else 7  # what the dtype holds; the next one is rounding
    for column in found[0].T.tolist():
        print(" ".join(f"{value:.{digits}g}" for value in column))


@app.command("resources")
def print_resources(
    machines: Annotated[int | None, typer.Option(help="N machines of an MPC program.")] = None,
    words: Annotated[int, typer.Option(help="s words that each may send in a round.")] = 1,
    rounds: Annotated[int, typer.Option(help="R rounds.")] = 1,
    nodes: Annotated[int | None, typer.Option(help="N nodes of a standard Transformer.")] = None,
    layers: Annotated[int, typer.Option(help="L layers of it.")] = 1,
) -> None:
    """What simulating an MPC program or a standard Transformer costs: the theorem's figures beside the compiler's.

    Examples: posattn resources --machines 16 --rounds 2; posattn resources --nodes 9 --layers 4
    """
    from posattn.compile import resources

    if (machines is None) == (nodes is None):
        raise PosattnError("name either --machines, for an MPC program, or --nodes, for a standard Transformer.")
    if machines is not None:
        found, title = resources.mpc_cost(machines, words, rounds), f"MPC: N = {machines}, s = {words}, R = {rounds}"
    else:
        assert nodes is not None
        found, title = resources.transformer_cost(nodes, layers), f"standard Transformer: N = {nodes}, L = {layers}"
    table = Table("", "nodes", "layers", "heads", title=title)
    for one in found:
        table.add_row(one.what, str(one.nodes), str(one.layers), "–" if one.heads is None else str(one.heads))
    Console().print(table)


@app.command("bounds")
def print_bounds(
    file: Annotated[str, typer.Argument(help="A model's file, trained or compiled.")],
    samples: Annotated[int, typer.Option(help="m: how many samples it was, or would be, trained on.")] = 30_000,
    delta: Annotated[float, typer.Option(help="δ: the chance that the bound may fail.")] = 0.05,
    constant: Annotated[float, typer.Option(help="c in the exponent c·L; the paper leaves it open.")] = 1.0,
    task: Annotated[
        str | None, typer.Option(help="For a homogeneous model: a task to predict its error on, at other scales.")
    ] = None,
    scales: Annotated[list[float] | None, typer.Option("--scale", help="Such a scale c; repeatable.")] = None,
    as_json: Json = False,
) -> None:
    """What theory says about the model in your hand: norms, the terms of Theorem 6.1, and Lipschitz bounds.

    The bound's hidden constants are not public, so its terms are for comparing models with each other; the Lipschitz
    bounds need no unknown constant.

    Example: posattn bounds runs/3f2a…/weights.safetensors --samples 30000
    """
    from posattn.nn import load
    from posattn.theory import report

    found = report.about(
        load(file), samples=samples, delta=delta, constant=constant, task=task, scales=tuple(scales or (2.0, 5.0, 10.0))
    )
    if as_json:
        print(json.dumps(dict(found)))
        return
    table = Table("quantity", "value", "what it is", title=file)
    for name, (value, meaning) in found.items():
        table.add_row(name, value, meaning)
    Console().print(table)


def main() -> None:
    """Run the command line."""
    try:
        app()
    except PosattnError as error:
        print(f"posattn: {error}", file=sys.stderr)
        sys.exit(2)
