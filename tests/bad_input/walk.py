"""Everything a user can call: the public functions, classes and methods, and the commands, with their parameters."""

import inspect
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from operator import attrgetter
from types import ModuleType
from typing import Any

import posattn
from posattn.nn import Architecture

#: Where users find things. A module without `__all__` offers what it defines.
MODULES = (
    "nn",
    "nn.law",
    "tasks",
    "train",
    "train.polish",
    "engine",
    "compile",
    "compile.library",
    "compile.learned_program",
    "compile.mpc",
    "compile.specification",
    "encodings",
    "zoo",
    "published",
    "devices",
    "theory.bounds",
    "theory.homogeneity",
    "theory.lipschitz",
    "theory.longer_selection",
    "theory.looped_errors",
    "theory.looped_report",
    "theory.norms",
    "theory.selection",
    "theory.step_deviation",
    "theory.report",
    "studies",
    "studies.core.results",
    "studies.sweep",
    "engine.cluster",
    "report",
    "plugins",
)

#: What is public and takes nothing from users, by pattern, and why.
EXEMPT = {
    "nn.Architecture": "abstract",
    "nn.Model": "abstract; test_python calls it",
    "nn.NumericModel": "abstract",
    "nn.Step": "what `trace` answers",
    "nn.OnnxFile": "what `to_onnx` answers",
    **{
        f"nn.*.{method}": "called by the constructor or by `forward`, which checks what it was given"
        for method in (
            "build",
            "layer",
            "checked",
            "check_length",
            "check_encoding",
            "check_places",
            "rows",
            "inputs",
            "embed",
            "tables",
            "encodings",
            "e_query",
        )
    },
    "tasks.Task*": "abstract",
    "tasks.*.choosing": "called by `tasks.get` with options that it has checked",
    "tasks.*.settled_options": "called by a trial with its own options",
    "studies.Study*": "abstract; `studies.get` gives one, and the commands choose from it",
    "tasks.KHopInputs": "a plain tuple, checked by the task and the model that take it",
    "tasks.MixedInputs": "a plain tuple, checked by the task and the model that take it",
    "tasks.SelectionInputs": "a plain tuple, checked by the task and the model that take it",
    "tasks.Shape": "what a task answers",
    "train.Score": "what a fleet answers",
    "train.Checkpoints*": "made and read by the engine, in files of its own",
    "train.Fleet.restore": "called by the engine with its own checkpoints",
    "devices.memory_*": "called with errors of PyTorch's",
    "theory.norms.check_weights": "what the other norms check by",
    "train.Fleet.run": "taken step by step by the engine",
    "train.Trial.seeded": "called by a study with the numbers of its seeds",
    "train.execute": "called by an engine with what it was given",
    "engine.LocalEngine*": "made by `run` from what it was given",
    "engine.Engine*": "a protocol",
    "engine.EarlyStop*": "made by a sweep",
    "engine.Store.receive": "called by an engine with files of another store",
    "engine.cluster.ClusterEngine.*": "called by `run`",
    "engine.Capacity": "said by an engine",
    "engine.Plan*": "what `plan` answers",
    "engine.plan": "called by `run` with what it was given",
    "engine.attempt": "checks what `run` checks",
    "engine.Log": "an interface",
    "engine.Log.*": "an interface",
    "engine.Logs*": "made by `run` from what it was given",
    "engine.JsonLines.*": "called by the engine",
    "engine.TensorBoard.*": "called by the engine",
    "engine.Provenance": "said by an engine",
    "devices.name_of": "called with what `resolve` gave",
    "engine.Held": "what `listing` answers",
    "devices.arithmetic": "called with what `resolve` gave",
    "engine.Interrupted": "raised by the engine",
    "engine.Reporter*": "abstract",
    "engine.Bar*": "called by the engine",
    "engine.Lines*": "called by the engine",
    "engine.Plain*": "called by the engine",
    "compile.product": "a function for `call`, run by the interpreter",
    "compile.sigmoid": "a function for `call`, run by the interpreter",
    "compile.Certificate": "what `verify` answers",
    "compile.Certificate.sealed": "called by `verify` and `load`",
    "compile.Proof": "what `prove` answers",
    "compile.Proof.sealed": "called by `prove` and `load`",
    "compile.Compiled": "what `compile` answers",
    "compile.Round.problems": "called by `Program` with what it was given",
    "compile.specification.Specification": "abstract",
    "compile.specification.Folded": "abstract",
    "compile.specification.*.problems": "called by `Program` with what it was given",
    "compile.specification.*.semigroup": "called by a proof with a program's own inputs",
    "compile.Round.renamed": "called by `Program.then` with names of its own",
    "theory.bounds.Terms": "what `terms` answers",
    "theory.homogeneity.Interval*": "what `interval` answers",
    "theory.homogeneity.Prediction": "what `predict` answers",
    "nn.law.Law": "what `law` answers",
    "nn.law.ExactStep*": "made by `law` and `largest_deviation`, which check what they were given",
    "nn.law.check_looped": "what the others check by",
    "theory.step_deviation.check_two_numbers": "what the others check by",
    "theory.step_deviation.Deviation": "what `largest_deviation` answers",
    "theory.looped_errors.Bound": "what `error_bound` answers",
    "compile.learned_program.Agreement": "what `agreement` answers",
    "theory.lipschitz.Upper": "what `upper` answers",
    "theory.lipschitz.Lower": "what `lower` answers",
    "theory.norms.Norms": "what `norms` answers",
    "theory.selection.Gradient": "what `gradient` answers",
    "theory.selection.Trajectory": "what `trajectory` answers",
    "studies.Case*": "made by a study",
    "studies.core.results.Point": "what `results` answers",
    "studies.core.results.Results": "what `results` answers",
    "studies.sweep.Sweep*": "what `sweep` answers",
    "studies.sweep.Tried*": "what `sweep` answers",
    "studies.sweep.Range.at": "called by a search with a share that it has drawn",
    "report.page": "made from results by `report.write`",
    "report.curves": "made from results by `report.write`",
    "report.rendered": "made from results by `report.write`",
    "report.attention_map": "made from results by `report.write`",
    "report.weight_maps": "made from results by `report.write`",
}


def public() -> dict[str, Callable[..., Any]]:
    """Every public callable by its name below `posattn`, methods as `nn.GPT.forward`."""
    found: dict[str, Callable[..., Any]] = {}
    for module in MODULES:
        offered(attrgetter(module)(posattn), module, found)  # as users reach it: compile.library is one of its rooms
    return {name: value for name, value in found.items() if not any(fnmatch(name, pattern) for pattern in EXEMPT)}


def offered(module: ModuleType, prefix: str, found: dict[str, Callable[..., Any]]) -> None:
    """Add what a module offers, each thing under the first name that leads to it."""
    known = set(map(id, found.values()))
    names = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]
    for name in names:
        value = getattr(module, name)
        if id(value) in known or isinstance(value, ModuleType) or not callable(value):
            continue
        found[f"{prefix}.{name}"] = value
        for method, function in methods(value) if inspect.isclass(value) else ():
            if id(function) not in set(map(id, found.values())):
                found[f"{prefix}.{name}.{method}"] = function


def methods(owner: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public methods of a class, inherited ones included: each is walked at the first class that has it.

    An architecture's own are pure functions of tensors that the module around it has checked.
    """
    if issubclass(owner, Architecture):
        return
    seen: set[str] = set()
    for parent in owner.__mro__:
        if parent.__module__.split(".")[0] != "posattn":
            continue
        for name, value in vars(parent).items():
            function = getattr(value, "__func__", value)  # of a class method
            is_public = inspect.isfunction(function) and (name == "__call__" or not name.startswith("_"))
            if is_public and name not in seen:
                seen.add(name)
                yield name, function


def parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """What it takes, `*inputs` and `**options` included, without self."""
    try:
        taken = dict(inspect.signature(function).parameters)
    except ValueError:  # an exception of ours
        return {}
    return {name: parameter for name, parameter in taken.items() if name not in ("self", "cls")}
