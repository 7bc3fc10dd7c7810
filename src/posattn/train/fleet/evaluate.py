"""Scores of a fleet on its test sets: all replicas and, where their shapes agree, all sets in one forward pass."""

import math
from collections import defaultdict
from typing import Any, NamedTuple

import torch
from torch import Tensor

from posattn import tasks
from posattn.train.fleet.data import draw
from posattn.train.random_streams import stream
from posattn.train.trial import Trial


class Score(NamedTuple):
    """One replica's loss and metric on one test set."""

    loss: float
    metric: float


def rows(found: dict[str, Score], step: int) -> list[dict[str, Any]]:
    """One replica's scores as results keep them. JSON knows no NaN and no infinity: they become None."""
    return [
        {"set": name, "step": step}
        | {kind: value if math.isfinite(value) else None for kind, value in score._asdict().items()}
        for name, score in found.items()
    ]


class FleetTests:
    """The test sets of all replicas, drawn once, each replica's from streams of its own."""

    def __init__(self, trials: list[Trial], *, device: torch.device, dtype: torch.dtype) -> None:
        self.task = tasks.get(trials[0].task, **trials[0].task_options)
        self.samples = trials[0].evaluation.samples
        groups: dict[tuple[torch.Size, ...], list[tuple[str, list[Tensor]]]] = defaultdict(list)
        options = [{one.name: one.options for one in trial.test_sets} for trial in trials]
        for name in options[0]:
            drawn = [
                draw(
                    tasks.get(trial.task, **trial.task_options),
                    self.samples,
                    sets[name],
                    stream(trial.seed, f"test set {name}", device=device),
                    dtype,
                )
                for trial, sets in zip(trials, options, strict=True)
            ]
            stacked = [torch.stack(slot) for slot in zip(*drawn, strict=True)]
            groups[tuple(tensor.shape for tensor in stacked)].append((name, stacked))
        self.groups = [
            ([name for name, _ in group], [torch.cat(slot, dim=1) for slot in zip(*(t for _, t in group), strict=True)])
            for group in groups.values()
        ]

    def scores(self, names: list[str], prediction: Tensor, target: Tensor) -> dict[str, list[Score]]:
        """Cut a joint prediction into its sets and score each replica on each of them."""
        found = {}
        pairs = zip(prediction.split(self.samples, dim=1), target.split(self.samples, dim=1), strict=True)
        for name, (guess, truth) in zip(names, pairs, strict=True):
            losses, metrics = self.task.loss(guess, truth).tolist(), self.task.metric(guess, truth).tolist()
            found[name] = [Score(loss, metric) for loss, metric in zip(losses, metrics, strict=True)]
        return found
