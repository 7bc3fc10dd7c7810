"""Training models on one task, the trials that a folder holds, and scores of a saved model."""

import importlib
import json
import math
import statistics
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table

from posattn.cli.app import (
    LARGEST,
    MOST_SEEDS,
    Changes,
    Context,
    Device,
    Json,
    Keep,
    LogTo,
    ModelFile,
    Out,
    Plugin,
    Together,
    app,
    logs,
    modules_from_here,
    numeric_model,
    plain,
    resumable,
    together,
)
from posattn.cli.output import print_table, warn_of_divergence
from posattn.errors import require

#: The field of a trial that each option of `train` gives.
FIELDS = {
    "length": "data.options.length",
    "steps": "optimiser.steps",
    "samples": "data.samples",
    "batch": "data.batch",
    "lr": "optimiser.lr",
    "scales": "evaluation.sets",
    "precision": "precision",
}


@app.command()
def train(
    context: Context,
    task: Annotated[
        str,
        typer.Argument(
            help="A task on numbers (looped: graphs and tables too), as in `posattn tasks`, or one of your own."
        ),
    ],
    model: Annotated[
        str,
        typer.Option(
            help="positional, homogeneous (positional without biases), standard, looped (one layer for all "
            "iterations, with the symmetry of the task), or PACKAGE.MODULE:FUNCTION, which returns a module of your "
            "own."
        ),
    ] = "positional",
    length: Annotated[
        int | None,
        typer.Option(help="How many numbers an input has, or nodes a graph. Default: 8, or the task's.", max=LARGEST),
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many replicas to train, with seeds 0, 1, …", max=MOST_SEEDS)] = 1,
    steps: Annotated[int, typer.Option(help="Optimiser steps.")] = 2000,
    samples: Annotated[
        int | None, typer.Option(help="Training samples. Default: 30000, or all that fixed data has.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="Samples in a batch. Default: 1000, looped models 128, or all if fewer.")
    ] = None,
    lr: Annotated[
        float | None,
        typer.Option(help="Learning rate, decayed to 0 by a cosine. Default: 1e-3, looped models 1e-2."),
    ] = None,
    scales: Annotated[
        list[int] | None, typer.Option("--scale", help="Test on [-2c, 2c] for this c; repeatable.", max=LARGEST)
    ] = None,
    precision: Annotated[str, typer.Option(help="float32, tf32, bf16 or float64.")] = "float32",
    changes: Changes = None,
    device: Device = "auto",
    out: Out = "runs",
    keep: Keep = False,
    fleet: Together = "on",
    plugin: Plugin = None,
    log: LogTo = None,
    as_json: Json = False,
) -> None:
    """Train models on one task and test them far outside the range they saw.

    Trains on numbers in [-2, 2], tests on [-2c, 2c]. A task of your own comes from a file, --plugin FILE, or from an
    installed package; where its samples have no range it has one test set, and fixed data those of its splits.

    Stop with Ctrl-C and run the same command again to go on; what is finished is never trained again. Results and
    weights are kept below the folder given by --out. Exit code 1 if every seed diverged.

    Example: posattn train sort --model homogeneous --seeds 4 --steps 5000

    Example: posattn train sort --set model.layers=6 --set optimiser.schedule=constant

    Example: posattn train sum --model mymodels:mlp --set model.width=64 --seeds 100

    Example: posattn train all-pairs --model looped --length 6
    """
    from posattn import engine, plugins
    from posattn.train.changes import apply, parse, written
    from posattn.train.task_trials import task_trials

    as_one = together(fleet)
    plugins.load_all(plugin)
    plugins.provide("tasks", task)
    changed = parse(changes or [])
    _check_set_once(context, changed)
    described = task_trials(
        task,
        model,
        length=length,
        seeds=seeds,
        steps=steps,
        samples=samples,
        batch=batch,
        lr=lr,
        scales=tuple(scales or ()),
        precision=precision,
    )
    trials = [apply(trial, changed) for trial in described]
    with resumable(), modules_from_here():
        if trials[0].model.foreign:
            trials[0].model.shapes()  # a module that cannot be made leaves nothing behind
        reporter = engine.Lines() if as_json else engine.Bar()
        given = {"out": out, "device": device, "reporter": reporter, "keep": keep, "log": logs(log)}
        store = engine.run(trials, **given, together=as_one)
    ids = {trial.id for trial in trials}
    rows = [row for row in store.rows(ids) if row["step"] == row["optimiser.steps"]]
    if as_json:
        columns = ("trial", "seed", "set", "loss", "metric", "diverged_at")
        result = {"rows": [{name: row[name] for name in columns} for row in rows], "changes": changed}
        print(json.dumps({"event": "result"} | result))
    else:
        table = Table(
            "test set",
            "median loss",
            "lowest",
            "highest",
            title=f"{model} on {task}, {seeds} seed{'s' if seeds > 1 else ''}",
        )
        for name in dict.fromkeys(row["set"] for row in rows):
            held = [row for row in rows if row["set"] == name]
            if all(row["loss"] is None and row["diverged_at"] is None for row in held):
                table.add_row(name, "–", "–", "–")  # less than one epoch has no training loss
                continue
            losses = [math.inf if row["loss"] is None else row["loss"] for row in held]
            table.add_row(name, *(f"{value:.2e}" for value in (statistics.median(losses), min(losses), max(losses))))
        print_table(table)
        if changed:
            print(f"changed: {', '.join(written(path, value) for path, value in changed.items())}")
        for trial in trials:
            print(f"weights and metrics of seed {trial.seed}: {store.path(trial)}")
    steps_lost = {row["seed"]: row["diverged_at"] for row in rows if row["diverged_at"] is not None}
    if steps_lost:
        warn_of_divergence([f"seed {seed} at step {step}" for seed, step in sorted(steps_lost.items())], len(trials))


def _check_set_once(context: Context, changed: dict[str, Any]) -> None:
    """An option of the command and --set must not both give a field."""
    for option in context.command.params:
        path = FIELDS.get(option.name or "")
        given = context.get_parameter_source(option.name or "")
        for other in changed if path is not None and given is not None and given.name == "COMMANDLINE" else ():
            twice = f"{other}.".startswith(f"{path}.") or f"{path}.".startswith(f"{other}.")
            require(not twice, f"{option.opts[0]} and --set {other} both give {path}: give one of them.")


@app.command("runs")
def list_runs(out: Out = "runs", as_json: Json = False) -> None:
    """List the trials in a folder of results: id, model and task, whether it is finished, and its losses.

    A trial's weights lie in its folder, OUT/ID/weights.safetensors; posattn score tries them on fresh samples. Folders
    written by an older version have other names, which are then shown too. To go on with an unfinished trial, run the
    command that began it again.
    """
    from posattn.engine import Store, listing

    importlib.import_module("posattn.studies")  # so that their kinds of trials can be read
    found = listing(Store(out))
    if as_json:
        print(json.dumps([asdict(one) for one in found]))
        return
    require(bool(found), f"'{out}' holds no trials: start one, posattn train sum --out {out}.")
    table = Table(title=f"Trials below {out}")
    named = ("folder",) if any(one.finished and one.folder != one.trial for one in found) else ()
    for column in ("trial", *named, "what", "state", "losses"):
        table.add_column(column, no_wrap=column in ("trial", "folder"), overflow="fold")
    for one in found:
        what = "–" if one.task is None else f"{one.model} on {one.task}" + f", seed {one.seed}" * (one.seed is not None)
        state = "finished" if one.finished else f"unfinished, step {one.step}"
        state = state if one.diverged_at is None else f"diverged at step {one.diverged_at}"
        losses = (f"{name} {'inf' if loss is None else f'{loss:.2g}'}" for name, loss in one.losses.items())
        table.add_row(one.trial, *(one.folder for _ in named), what, state, ", ".join(losses) or "–")
    print_table(table)


@app.command("score")
def score_model(
    file: ModelFile,
    task: Annotated[str, typer.Option(help="A numeric task, as in `posattn tasks`.")],
    length: Annotated[
        int | None, typer.Option(help="How many numbers an input has. Default: as many as the model takes; looped: 8.")
    ] = None,
    scales: Annotated[
        list[float] | None, typer.Option("--scale", help="Score on [-2c, 2c] for this c; repeatable.")
    ] = None,
    samples: Annotated[int, typer.Option(help="Fresh samples for each scale.", max=LARGEST)] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the samples.")] = 0,
    plugin: Plugin = None,
    as_json: Json = False,
) -> None:
    """Score a saved model on fresh samples of a task, trained or compiled, in the range it saw and beyond.

    Samples lie in [-2c, 2c], drawn as posattn train draws its test sets.

    Example: posattn score sort16.safetensors --task sort --length 16 --scale 10
    """
    from posattn import compile as compiler
    from posattn import plugins
    from posattn.nn import LoopedPositionalTransformer
    from posattn.nn.example_inputs import LOOPED_LENGTH
    from posattn.nn.weights import check_finite_weights, read_header
    from posattn.train.numeric_trials import numeric_task, score
    from posattn.train.task_trials import SCALES

    plugins.load_all(plugin)
    asked = numeric_task(task)
    compiled = "program" in read_header(file)
    answer = compiler.load(file) if compiled else numeric_model(file)
    model = answer.model if isinstance(answer, compiler.Compiled) else answer
    check_finite_weights(f"'{file}'", model.weights())
    dtype = next(model.parameters()).dtype
    if isinstance(model, LoopedPositionalTransformer):
        wanted = LOOPED_LENGTH if length is None else length
    else:
        most = model.architecture.length // asked.nodes_per_number
        require(most >= 1, f"'{file}' takes {model.architecture.length} number: too short for task '{task}'.")
        wanted = most if length is None else length
        fits = wanted <= most or (not compiled and model.takes_any_length)
        require(fits, f"length={wanted}: the model in '{file}' takes up to {most} numbers of task '{task}'.")
    found = {
        scale: score(answer, task, length=wanted, scale=scale, samples=samples, seed=seed, dtype=dtype)
        for scale in scales or map(float, SCALES)
    }
    if as_json:
        scores = [{"scale": c, "loss": plain(one.loss), "metric": plain(one.metric)} for c, one in found.items()]
        print(
            json.dumps(
                {"file": file, "task": task, "length": wanted, "samples": samples, "seed": seed, "scores": scores}
            )
        )
        return
    table = Table("scale c", "loss", asked.metric_name, title=f"{file} on {task}, length {wanted}, {samples} samples")
    for scale, one in found.items():
        table.add_row(f"{scale:g}", f"{one.loss:.2e}", f"{one.metric:.4f}")
    print_table(table)
