"""Trained models that come with the package: the last weights of seed 0, not of the best seed.

>>> model = load("sort", "positional")
>>> scores("sort", "positional")["c=10"] < 1 < scores("sort", "standard")["c=10"]
True
>>> "# A looped model of posattn" in card("sort", "looped")
True

| model | tasks | trained by |
|---|---|---|
| standard, positional, homogeneous | sum, min, median, sort, max-subarray | `posattn run ood-scale --preset paper` |
| looped | sum, min, max, sort, all-pairs, widest-path | `posattn run length-scale --preset paper`, then polished |
| gated | mixed-min, mixed-sum, mixed-multitask | `posattn run mixed-type --preset paper` |
| tables | khop | `posattn run khop-depth --preset paper` |

`scores` gives each model's own losses on [−2c, 2c] ([0, 5c] for mixed types), 1,000 samples each, on graphs of several
sizes, or on k-hop sequences. `card` says the rest: what it is, what it was trained on, what to expect of it and what
not.
"""

import csv
from functools import cache
from importlib import resources
from typing import Any, Literal, overload

from posattn import tasks
from posattn.checks import choice
from posattn.errors import require
from posattn.nn import HopTablesModel, LoopedPositionalTransformer, MixedGatedModel, NumericModel
from posattn.nn import load as load_model
from posattn.nn.model_card import model_card
from posattn.tasks.numeric import NumericTask
from posattn.zoo.stories import STORIES


@cache
def _scores() -> dict[tuple[str, str], dict[str, float]]:
    """By task and model, the loss on every test set."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    with (resources.files("posattn.zoo") / "scores.csv").open() as file:
        for row in csv.DictReader(file):
            found.setdefault((row["task"], row["model"]), {})[row["test_set"]] = float(row["loss"])
    return found


def names() -> list[tuple[str, str]]:
    """The (task, model) pairs that there are."""
    return list(_scores())


def of_lists() -> list[tuple[str, str]]:
    """Those of tasks on lists of numbers."""
    return [(task, model) for task, model in names() if isinstance(tasks.get(task), NumericTask)]


@overload
def load(task: str, model: Literal["standard", "positional", "homogeneous"]) -> NumericModel: ...
@overload
def load(task: str, model: Literal["looped"]) -> LoopedPositionalTransformer: ...
@overload
def load(task: str, model: Literal["gated"]) -> MixedGatedModel: ...
@overload
def load(task: str, model: Literal["tables"]) -> HopTablesModel: ...
@overload
def load(task: str, model: str) -> Any: ...
def load(task: str, model: str) -> Any:
    """The model trained on a task: "standard", "positional", "homogeneous", "looped", "gated" or "tables"."""
    _check(task, model)
    name = f"{task}-{model}.safetensors"
    with resources.as_file(resources.files("posattn.zoo") / "weights" / name) as path:
        return load_model(path)


def scores(task: str, model: str) -> dict[str, float]:
    """The model's measured losses by test set: "validation" and "c=1" … "c=10", sizes of graphs, or numbers of hops."""
    _check(task, model)
    return dict(_scores()[task, model])


def card(task: str, model: str) -> str:
    """The model card, in Markdown: what it computes, how it was trained, its losses, its limits and its sizes."""
    _check(task, model)
    made, story = load(task, model), STORIES[model]
    losses = "\n".join(f"| {name} | {loss:.2g} |" for name, loss in scores(task, model).items())
    about = (
        f"`{task}`: {tasks.get(task).summary}.\n\n```python\nfrom posattn import zoo\n\n"
        f'model = zoo.load("{task}", "{model}")\n```\n\n'
        f"## Training\n\n{story.training}\n\n```console\n$ {story.command(task)}\n```\n\n"
        f"## Losses\n\n{story.losses(task)}\n\n| test set | loss |\n|---|---|\n{losses}\n\n## Limits\n\n{story.limits}"
    )
    return model_card(made.architecture, reader=made.reader, about=about)


def _check(task: str, model: str) -> None:
    known, models = (list(dict.fromkeys(column)) for column in zip(*names(), strict=True))
    choice("task of a trained model", task, known)
    choice("trained model", model, models)
    there = [name for of, name in names() if of == task]
    require(model in there, f"there is no {model} model of '{task}' here: choose one of {', '.join(there)}.")
