"""One valid command line for every command, and what can be wrong with each of its options and arguments."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

import typer

from .rules import matching
from .values import FILES, is_union, misspelt

#: What works, in a folder with good.safetensors (homogeneous), sorter.safetensors (compiled) and studied (a store).
LINES: dict[str, dict[str, Any]] = {
    "": {},
    "tasks": {},
    "train": {
        "task": "sum", "--length": "4", "--steps": "1", "--samples": "4", "--batch": "2", "--seeds": "1",
        "--device": "cpu", "--out": "trained",
    },
    "runs": {"--out": "studied"},
    "score": {"file": "good.safetensors", "--task": "sum", "--length": "4", "--samples": "2"},
    "studies": {},
    "run": {"study": "sts-bound", "--preset": "smoke", "--device": "cpu", "--out": "store"},
    "sweep": {
        "study": "ood-scale", "--set": "optimiser.lr=1e-3,1e-2", "--task": "sum", "--model": "positional",
        "--preset": "smoke", "--seeds": "2", "--device": "cpu", "--out": "swept",
    },
    "report": {"what": "sts-bound", "--out": "studied"},
    "programs": {},
    "new": {"kind": "task", "name": "my-first", "--out": "first.py"},
    "compile": {"program": "sort", "--length": "4", "--out": "made.safetensors"},
    "verify": {"file": "sorter.safetensors", "--samples": "1"},
    "prove": {"file": "sorter.safetensors", "--seconds": "60"},
    "trace": {"program": "sort", "values": ["3", "1", "2"]},
    "run-model": {"file": "sorter.safetensors", "values": ["3", "1"]},
    "export": {"file": "good.safetensors", "--to": "pretrained", "--out": "exported"},
    "resources": {"--machines": "4"},
    "bounds": {"file": "good.safetensors", "--samples": "10"},
    "bench": {"--device": "cpu", "--fleet": "1", "--batch": "2"},
    "lab": {"--out": "studied"},
}  # fmt: skip

#: Other lines, for parameters that the usual one leaves no room for.
ELSE: dict[tuple[str, str], dict[str, Any]] = {
    ("resources", "nodes"): {"--nodes": "4"},
    ("resources", "layers"): {"--nodes": "4"},
    ("bounds", "scales"): LINES["bounds"] | {"--task": "sort"},
    ("programs", "length"): {"--show": "sort"},
    ("run", "changes"): LINES["run"] | {"study": "ood-scale", "--task": "sum"},
}

#: What typer offers by itself.
EXEMPT = ("install_completion", "show_completion")

#: (command, parameter) patterns → usual wrong values that are right there.
FINE: dict[tuple[str, str], set[str]] = {
    ("*", "seed"): {"0"},
    ("score", "seed"): {"-1", "99999999999999999999"},
    ("train", "scales"): {"99999999999999999999"},
    ("compile", "domain"): {"10000"},
    ("compile", "out"): {"empty.safetensors"},  # a file, which is replaced
    ("new", "name"): {"my-firts"},  # a name of one's own
}

#: What --set refuses wherever it is offered.
CHANGES = [
    "", "x", "=3", "optimiser.lr", "optimiser.lr=", "optimiser.lr=fast", "optimiser.lr=-1", "optimiser.lr=NaN",
    "optimiser.lr=1e999", "optimiser.lr=1e-3,1e-2", "optimiser.lr=[", "optimizer.lr=1e-3", "optimiser..lr=1",
    "optimiser.lr.base=1", "optimiser=sgd", "optimiser.name=sdg", "optimiser.betas=[1]", "model.layres=6",
    "model.layers=2.5", "model.layers=0", "model.bias=False", "model=positional", "data.options.lwo=1",
    "data.options=3", "data.lengths=[x]", "evaluation.samples=0", "task_options.cumulativ=true", "precision=float16",
    "seed=1", "task=sort", "task_version=2",
]  # fmt: skip

EXTRA: dict[tuple[str, str], list[str]] = {
    ("*", "changes"): CHANGES,
    ("train", "changes"): ["data.batch=4", "optimiser.steps=3", 'evaluation.sets={"train": {}}'],
    ("run", "changes"): ["evaluation.sets={}", "model.bias=false"],
    ("train", "task"): ["mixed-min", "khop"],
    ("train", "lr"): ["0", "-1"],
    ("score", "task"): ["mixed-min"],
    ("sweep", "values"): [
        "",
        "x",
        "=3",
        "optimiser.lr",
        "optimiser.lr=",
        "optimiser.lr=1e-3,",
        "optimiser.lr=1e-3,fast",
        "optimiser.lr=1,1",
        "optimiser.lr=1e-3,-1",
        "optimizer.lr=1e-3,1e-2",
        "optimiser.lr=[",
        "model.layres=1,2",
        "model.layers=1,2.5",
        "optimiser.lr=1e-5..1e-2",
        "optimiser.lr=2..1",
        "seed=1,2",
        "task=sum,sort",
        "evaluation.sets={}",
    ],
    ("sweep", "option"): ["kappa", "kappa=1"],
    ("*", "cluster"): ["", "head", "ray://head:10001", ":6379"],
    ("run", "option"): ["kappa", "kapa=1", "query_scale=1e308", "query_scale=nan", "query=smu"],
    ("compile", "option"): ["route", "rout=grid", "length=3"],
    ("compile", "length"): ["1000000000"],
    ("compile", "domain"): ["", "wide", "0", "-1", "1e-300", "1e300", "y=1", "x=", "x=1,x=2", "nan"],
    ("compile", "program"): ["none.pos", "studied/none.pos", ".pos"],
    ("programs", "show"): ["", "srot"],
    ("programs", "length"): ["0", "-1", "1000000000"],
    ("trace", "option"): ["route", "rout=grid"],
    ("trace", "program"): ["zoo:", "zoo:sotr-positional"],
    ("trace", "values"): ["x", "nan", "1:2", "inf"],
    ("run-model", "values"): ["x", "nan", "1:2", "99999"],
    ("bounds", "delta"): ["0", "1"],
    ("bounds", "length"): ["0", "-1", "4"],
    ("bounds", "constant"): ["0", "-1"],
    ("score", "scales"): ["0", "-1"],
    ("bounds", "scales"): ["0", "-1"],
    ("*", "out"): ["~nobody-here/x"],
    ("compile", "out"): ["studied", "nowhere/made.safetensors"],
    ("run", "task"): ["selectoin"],
    ("new", "name"): ["My Task", "class", "sort"],
    ("new", "out"): ["nowhere/first.py"],
    ("*", "plugin"): ["", "mien.py", "folder", "garbage.safetensors", "~nobody-here/x.py"],
    ("run", "model"): ["positonal"],
    ("bounds", "task"): ["sotr", "mixed-min"],
    ("*", "fleet"): ["", "of", "no"],
    ("train", "model"): ["positonal", "nowhere:mlp", "posattn.nn:", ":mlp", "torch.nn:Linaer"],
    ("*", "log"): ["", "wandb:x", "studied", "nowhere/run.jsonl", "tensorboard:", "tensorboard:empty.safetensors"],
    ("*", "html"): ["~nobody-here/x", "nowhere/page.html", "studied"],
}


@dataclass(frozen=True)
class Line:
    """A command line with one thing wrong."""

    command: str
    parameter: str
    wrong: str
    arguments: tuple[str, ...]
    spelling: str

    @property
    def forms(self) -> tuple[str, ...]:
        """What the message must show one of: the value, as typed or as a number, or, of the parser, the option."""
        number = (str(float(self.wrong)),) if is_number(self.wrong) else ()
        return (self.wrong, self.wrong.partition("=")[0] or self.spelling, self.spelling, *number)

    @property
    def id(self) -> str:
        return f"{self.command or 'posattn'}-{self.parameter}-{self.wrong[:30]}"


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


WHOLE = ("x", "1.5", "", "-1", "0", "99999999999999999999", "nan")
REAL = ("x", "", "nan", "inf", "1e999")


def annotation(command: Any, name: str) -> Any:
    """The type of a parameter, without typer's notes and without None."""
    found = inspect.signature(command.callback).parameters[name].annotation
    found = get_args(found)[0] if get_origin(found) is Annotated else found
    if is_union(found):
        found = next(part for part in get_args(found) if part is not type(None))
    return get_args(found)[0] if get_origin(found) is list else found


def wrong_values(command: str, option: Any, kind: Any, good: str | None) -> list[str]:
    """What is wrong for an option or argument: by its type, its name where it is a path, and the rules."""
    name = option.name
    usual: tuple[str, ...] = ()
    if kind is int:
        usual = WHOLE
    elif kind is float:
        usual = REAL
    elif name == "file":
        usual = (*FILES, "")
    elif name in ("out", "html"):
        usual = ("", "empty.safetensors/below-a-file") if name == "html" else ("", "empty.safetensors")
    elif kind is str and good is not None and len(good) > 2:
        usual = (misspelt(good), "")
    fine = {label for labels in matching(FINE, command, name) for label in labels}
    own = [value for values in matching(EXTRA, command, name) for value in values]
    return [value for value in (*usual, *own) if value not in fine]


def lines(app: typer.Typer) -> list[Line]:
    """Every command line with one wrong value."""
    root: Any = typer.main.get_command(app)
    registered = {(entry.name or entry.callback.__name__): entry for entry in app.registered_commands if entry.callback}
    found: list[Line] = []
    for command, options in {"": root.params, **{n: c.params for n, c in root.commands.items()}}.items():
        for option in options:
            if option.name in EXEMPT:
                continue
            right = ELSE.get((command, option.name), LINES.get(command, {}))
            spelling = option.opts[-1]
            if getattr(option, "is_flag", False):
                found.append(Line(command, option.name, "=3", spelt(command, right, f"{spelling}=3"), spelling))
                continue
            good = right.get(spelling, option.default if isinstance(option.default, str) else None)
            kind = annotation(registered[command], option.name)
            for wrong in wrong_values(command, option, kind, good[0] if isinstance(good, list) else good):
                value = [*good, wrong] if isinstance(good, list) else wrong
                found.append(Line(command, option.name, wrong, spelt(command, right | {spelling: value}), spelling))
    return found


def spelt(command: str, given: Mapping[str, Any], *more: str) -> tuple[str, ...]:
    """As it is typed: arguments in their order, options as --name=value."""
    words = [command] if command else []
    for name, value in given.items():
        if name.startswith("--"):
            words.append(f"{name}={value}")
        else:
            words += value if isinstance(value, list) else [value]
    return (*words, *more)


def uncovered(app: typer.Typer) -> list[str]:
    """Commands without a valid line, and options and arguments without a wrong value."""
    root: Any = typer.main.get_command(app)
    covered = {(line.command, line.parameter) for line in lines(app)}
    found = [f"{command}: no valid line" for command in root.commands if command not in LINES]
    for command, options in {"": root.params, **{n: c.params for n, c in root.commands.items()}}.items():
        for option in options:
            if option.name not in EXEMPT and (command, option.name) not in covered:
                found.append(f"posattn {command} {option.opts[-1]}: no bad case")
    return found
