"""The command's root, and what several commands share."""

import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posattn.errors import PosattnError, require, unknown
from posattn.version import __version__

if TYPE_CHECKING:
    from typer import Context

    from posattn.engine import Engine, Log
    from posattn.nn import LoopedPositionalTransformer, NumericModel
else:
    Context = typer.Context.__base__  # what typer passes is of this class, and what it declares a subclass of it

app = typer.Typer(
    name="posattn",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

#: The largest whole number that tensors can hold.
LARGEST = 2**63 - 1
#: Replicas that one command may ask for: each is a trial of its own, and a million of them would fill the memory.
MOST_SEEDS = 100_000


def path(text: str | None) -> str | None:
    """A file or folder as a user names it: ~ is the home folder, also in --out=~/runs, where no shell sees it."""
    if text is None:
        return None
    require(text != "", "an empty name was given for a file or folder: name one, as runs, or leave the option out.")
    require("\0" not in text, f"{text!r}: file names cannot hold a zero character.")
    found = os.path.expanduser(text)
    require(not found.startswith("~"), f"'{text}': there is no such user. Write ./{text} for a folder of that name.")
    return found


Device = Annotated[str, typer.Option(help="auto, cpu or cuda; auto uses CUDA if there is a GPU.")]
Out = Annotated[str, typer.Option(help="Folder for results and checkpoints.", callback=path)]
Keep = Annotated[bool, typer.Option("--keep", help="Use stored results even if your own task has changed since.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of a table.")]
Plugin = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE|NAME",
        help="A Python file of yours with tasks, studies or programs, or an installed plugin; repeatable.",
        callback=lambda given: given and [path(one) for one in given],
    ),
]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=VALUE",
        help="Change a field of the trials; repeatable. As optimiser.lr=1e-3, optimiser.schedule=cosine, "
        "data.samples=5000, data.options.low=-4, model.layers=6, precision=float64. Values are JSON or a word: "
        "'optimiser.betas=[0.9,0.99]', optimiser.clip=null, model.bias=false.",
    ),
]
Together = Annotated[
    str,
    typer.Option(
        "--fleet", help="on, or off: modules of your own take each step one replica after the other, as they are."
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="auto|HOST:PORT",
        help="Run on a Ray cluster: the one that runs on this machine, or the one whose head node is named. Every node "
        "needs posattn[cluster].",
    ),
]
StudyName = Annotated[str, typer.Argument(help="A study, as in `posattn studies`.")]
StudyTasks = Annotated[list[str] | None, typer.Option("--task", help="A task of the study; repeatable. Default: all.")]
StudyModels = Annotated[
    list[str] | None, typer.Option("--model", help="A model of the study, as in its table; repeatable. Default: all.")
]
Preset = Annotated[str, typer.Option(help="smoke (seconds), quick (minutes on a CPU) or paper.")]
StudyOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="An option of the study, with a value that posattn studies --json lists for it; repeatable. As "
        "gelu=erf (khop-…), query=sum (sts-…), or gpt2=FOLDER, a language model to fine-tune (mixed-type).",
    ),
]
LogTo = Annotated[
    list[str] | None,
    typer.Option(
        "--log",
        metavar="FILE|NAME:TARGET",
        help="Log losses and scores while training; repeatable. A file takes lines of JSON; tensorboard:FOLDER is "
        "TensorBoard's.",
    ),
]
ModelFile = Annotated[str, typer.Argument(help="A model's file, trained or compiled.", callback=path)]


def _print_version(wanted: bool) -> bool:
    if wanted:
        print(f"posattn {__version__}")
        raise typer.Exit
    return wanted


def together(fleet: str) -> bool:
    """What --fleet on or off says."""
    if fleet not in ("on", "off"):
        raise unknown("value of --fleet", fleet, ("on", "off"))
    return fleet == "on"


@contextmanager
def modules_from_here() -> Iterator[None]:
    """Let users' modules be found in the folder that the command runs in; installed ones come first."""
    here = os.getcwd()
    sys.path.append(here)
    try:
        yield
    finally:
        sys.path.remove(here)


@contextmanager
def resumable() -> Iterator[None]:
    """On Ctrl-C and SIGTERM, print how to go on; typer by itself would end without a message."""
    from posattn.engine import Interrupted

    try:
        yield
    except Interrupted as stop:
        print(f"posattn: {stop}", file=sys.stderr)
        raise typer.Exit(stop.exit_code) from None


@app.callback()
def posattn(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """A workbench for Transformers that execute algorithms through position.

    Train a model and test it far outside what it saw: posattn train sort --model homogeneous

    Compile a program to exact weights: posattn compile sort --length 16

    Repeat a published experiment: posattn run ood-scale --task sort

    Begin a task, a study or a program of your own: posattn new task parity

    Every command explains itself: posattn train -h

    Exit codes: 0 done; 1 a check failed, or every trial diverged; 2 a usage error, explained in one line; 130 Ctrl-C;
    141 the reader of the output has gone; 143 SIGTERM.
    """


def pairs(given: list[str]) -> dict[str, str]:
    """NAME=VALUE, …"""
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise PosattnError(f"--option {text}: write NAME=VALUE.")
        if name in found:
            raise PosattnError(f"--option {text}: {name}={found[name]} was given too. Give only one of them.")
        found[name] = value
    return found


def logs(given: list[str] | None) -> "list[Log]":
    """The logs that --log names, with ~ for the home folder."""
    from posattn.engine import log_to

    found = []
    for text in given or []:
        name, colon, target = text.rpartition(":")
        found.append(log_to(f"{name}{colon}{path(target) if target else ''}"))
    return found


def engine_of(cluster: str | None, device: str, as_one: bool) -> "Engine | None":
    """The engine that --cluster names, joined before anything else is done; None stands for this process."""
    if cluster is None:
        return None
    from posattn.engine.cluster import ClusterEngine

    found = ClusterEngine(cluster, device=device, together=as_one)
    found.share()
    return found


def numeric_model(file: str) -> "NumericModel | LoopedPositionalTransformer":
    """The model for lists of numbers in a file."""
    from posattn.nn import LoopedPositionalTransformer, NumericModel, load

    model = load(file)
    if isinstance(model, LoopedPositionalTransformer) and model.architecture.schedule in ("scan", "bitonic"):
        return model
    if not isinstance(model, NumericModel) or not model.takes_numbers_alone:
        raise PosattnError(f"'{file}' holds a {_described(model)}: this command takes models for lists of numbers.")
    return model


def _described(model: Any) -> str:
    """A model's kind; looped ones also by what they loop over."""
    schedule = {"pairs": " of graphs", "grid": " of tables"}.get(getattr(model.architecture, "schedule", ""), "")
    return f"{model.architecture.kind} model{schedule}"


def plain(value: Any) -> Any:
    """The same for JSON, which has no NaN and no infinity: they become null."""
    if isinstance(value, dict):
        return {name: plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
