"""Runs small enough for a test, and a reporter that can be asked what it was told."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from posattn import engine
from posattn.nn import Positional
from posattn.train import Data, Evaluation, Optimiser, Trial

MODEL = Positional(length=5, embed_dim=6, hidden_dim=7, layers=2)
FAR = {"length": 5, "low": -6.0, "high": 6.0, "avoid": (-2.0, 2.0)}
NONE: Mapping[str, Any] = {}


class Noting(engine.Reporter):
    def __init__(self) -> None:
        self.started: list[tuple[str, int, int]] = []
        self.updates: list[tuple[int, list[float]]] = []
        self.ended: list[int] = []
        self.said: list[str] = []

    def start(self, title: str, steps: int, done: int) -> int:
        self.started.append((title, steps, done))
        return len(self.started) - 1

    def update(self, number: int, step: int, losses: list[float]) -> None:
        assert 0 <= number < len(self.started)
        assert number not in self.ended
        self.updates.append((step, losses))

    def end(self, number: int) -> None:
        self.ended.append(number)

    def say(self, message: str) -> None:
        self.said.append(message)

    def __exit__(self, *_: Any) -> None:
        return None


def small_trial(*, data: Any = NONE, optimiser: Any = NONE, evaluation: Any = NONE, **fields: Any) -> Trial:
    """A trial of four steps on five numbers; `data`, `optimiser` and `evaluation` replace single fields of theirs."""
    return Trial(
        **{"task": "sum", "model": MODEL} | fields,
        data=Data(**{"samples": 24, "batch": 6, "options": {"length": 5}} | data),
        optimiser=Optimiser(**{"steps": 4, "lr": 1e-2} | optimiser),
        evaluation=Evaluation(**{"samples": 11, "sets": {"near": {"length": 5}, "far": FAR}} | evaluation),
    )


def run(trials: list[Trial], folder: Path, **options: Any) -> engine.Store:
    return engine.run(trials, **{"out": folder, "device": "cpu", "reporter": Noting()} | options)


def weights_of(store: engine.Store, trial: Trial) -> dict[str, torch.Tensor]:
    return safetensors.torch.load_file(store.path(trial) / "weights.safetensors")
