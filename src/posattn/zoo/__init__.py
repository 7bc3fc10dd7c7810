"""Trained models that come with the package: the last weights of seed 0 of `posattn run ood-scale --preset paper`.

>>> model = load("sort", "positional")
>>> scores("sort", "positional")["c=10"] < 1 < scores("sort", "standard")["c=10"]
True

Seed 0, not the best seed. Trained on one H200 by the paper's protocol (60,030 steps, float32) on numbers in [−2, 2];
`scores` gives each model's own losses on [−2c, 2c], 1,000 samples each. The homogeneous models are those of the study's
“homogeneous, decayed”: as many steps by a better schedule.

The looped models, for sum, min and sort, are those of seed 0 of `posattn run length-scale --preset paper` with all of
their task's symmetry, polished: trained on up to eight numbers, in float64, and right to rounding at any length.
"""

import csv
from functools import cache
from importlib import resources

from posattn.checks import choice
from posattn.errors import require
from posattn.nn import LoopedPositionalTransformer, NumericModel
from posattn.nn import load as load_model


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


def load(task: str, model: str) -> NumericModel | LoopedPositionalTransformer:
    """The model trained on a task: "positional", "homogeneous", "standard" or, for some tasks, "looped"."""
    _check(task, model)
    name = f"{task}-{model}.safetensors"
    with resources.as_file(resources.files("posattn.zoo") / "weights" / name) as path:
        found = load_model(path)
    assert isinstance(found, NumericModel | LoopedPositionalTransformer)
    return found


def scores(task: str, model: str) -> dict[str, float]:
    """The model's measured losses by test set: "validation" and "c=1" … "c=10"."""
    _check(task, model)
    return dict(_scores()[task, model])


def _check(task: str, model: str) -> None:
    tasks, models = (list(dict.fromkeys(column)) for column in zip(*names(), strict=True))
    choice("task of a trained model", task, tasks)
    choice("trained model", model, models)
    there = [name for of, name in names() if of == task]
    require(model in there, f"there is no {model} model of '{task}' here: choose one of {', '.join(there)}.")
