"""What is behind `posattn train` and `posattn score`: one numeric task, one model, tested at several scales."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from posattn import tasks
from posattn.errors import PosattnError, require, unknown
from posattn.nn import AnyModule, Architecture, Positional, Standard
from posattn.tasks import NumericTask, Shape
from posattn.train.fleet.data import draw
from posattn.train.fleet.evaluate import Score
from posattn.train.random_streams import stream
from posattn.train.sample_options import TestSet
from posattn.train.trial import Trial
from posattn.train.trial_parts import Data, Evaluation, Optimiser

MODELS = ("positional", "homogeneous", "standard")
#: Numbers that training sees lie in ± this.
RANGE = 2.0


def numeric_task(name: str) -> NumericTask:
    """The task of this name, which must be one on lists of numbers."""
    found = tasks.get(name)
    if not isinstance(found, NumericTask):
        names = ", ".join(name for name, task in tasks.REGISTRY.items() if isinstance(task, NumericTask))
        raise PosattnError(f"task '{name}' is not a list of numbers: this command takes {names}.")
    return found


def options_at_scale(length: int, scale: float) -> dict[str, Any]:
    """Samples in [-2c, 2c], each outside what training saw; at c = 1 they are like those of training."""
    inside = {"length": length, "low": -RANGE * scale, "high": RANGE * scale}
    return inside if scale == 1 else inside | {"avoid": (-RANGE, RANGE)}


def score(
    model: Callable[[Tensor], Tensor],
    task: str,
    *,
    length: int,
    scale: float,
    samples: int,
    seed: int,
    dtype: torch.dtype,
) -> Score:
    """Loss and metric of a model for numbers on fresh samples at a scale."""
    found = numeric_task(task)
    require(samples >= 1, f"samples={samples}: score at least one.")
    require(1 <= scale < math.inf, f"scale={scale:g}: it must be 1 or more.")
    options = options_at_scale(length, scale)
    x, y = draw(found, samples, options, stream(seed, f"fresh samples at c={scale:g}"), dtype)
    with torch.no_grad():
        answer = model(x)
    require(
        answer.shape == y.shape,
        f"the model answers with shape {tuple(answer.shape)} where task '{task}' has {tuple(y.shape)}: it was made for "
        "another task.",
    )
    return Score(float(found.loss(answer, y)), float(found.metric(answer, y)))


def is_factory(model: str) -> bool:
    """Whether a model is named by the function that makes it, package.module:function."""
    return ":" in model


def architecture(model: str, shape_of: Callable[[], Shape]) -> Architecture:
    """The model called by this name for a task of a shape, with floor(log2 nodes) + 1 layers, or a user's module."""
    if is_factory(model):
        return AnyModule(model)
    if model not in MODELS:
        raise unknown("model", model, (*MODELS, "looped", "PACKAGE.MODULE:FUNCTION"))
    shape = shape_of()
    sizes = {"length": shape.nodes, "in_dim": shape.in_dim, "out_dim": shape.out_dim, "layers": None}
    return Standard(**sizes) if model == "standard" else Positional(bias=model == "positional", **sizes)


def numeric_trials(
    task: str,
    model: str,
    *,
    length: int,
    seeds: int,
    steps: int,
    samples: int,
    batch: int,
    lr: float,
    scales: tuple[int, ...],
    precision: str,
) -> list[Trial]:
    """One trial per seed."""
    found = numeric_task(task)
    require(seeds >= 1, f"seeds={seeds}: train at least one.")
    require(all(scale >= 1 for scale in scales), f"scales {scales}: each must be 1 or more.")
    described = architecture(model, lambda: found.shape(length))
    inside = options_at_scale(length, 1)
    sets = tuple(TestSet(f"c={scale}", options_at_scale(length, scale)) for scale in scales)
    return [
        Trial(
            task=task,
            model=described,
            data=Data(samples=samples, batch=batch, options=inside),
            optimiser=Optimiser(steps=steps, lr=lr, schedule="cosine"),
            evaluation=Evaluation(sets=sets),
            precision=precision,
            seed=seed,
        )
        for seed in range(seeds)
    ]
