"""Compiled programs as one more model of a study: nothing is trained, the weights are right from the start."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

import posattn
from posattn import tasks
from posattn.compile import Compiled, compile, library
from posattn.engine import Store
from posattn.train.data import draw
from posattn.train.streams import stream
from posattn.train.trial import Options, canonical, frozen

#: The library's program for every task that has one.
PROGRAMS = {"sum": "cumsum", "min": "cummin", "max": "cummax", "median": "cummedian", "sort": "sort"}
PROGRAMS |= {"max-subarray": "max-subarray"}


@dataclass(frozen=True, kw_only=True)
class ExactTrial:
    """A compiled program to be tested like a trained model, on the same test sets for the same seed."""

    task: str
    length: int
    domain: float
    samples: int
    sets: Mapping[str, Options] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "sets", {name: frozen(options) for name, options in self.sets.items()})

    @property
    def id(self) -> str:
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    def to_json(self) -> str:
        fields = {"kind": "compiled", "program": PROGRAMS[self.task], "optimiser": {"steps": 0}} | asdict(self)
        return json.dumps(canonical(fields), sort_keys=True, separators=(",", ":"))

    def compiled(self) -> Compiled:
        return compile(library.get(PROGRAMS[self.task], self.length), domain=self.domain)


def evaluate(trial: ExactTrial, store: Store) -> None:
    """Score the compiled model on the trial's test sets and keep what comes out."""
    store.prepare()
    if store.finished(trial):
        return
    task, model = tasks.get(trial.task), trial.compiled()
    scores: list[dict[str, Any]] = []
    for name, options in trial.sets.items():
        generator = stream(trial.seed, f"test set {name}")
        x, y = draw(task, trial.samples, options, generator, torch.float32)
        guess = model(x)
        loss, metric = task.loss(guess, y).item(), task.metric(guess, y).item()
        scores.append({"set": name, "step": 0, "loss": loss, "metric": metric})
    about = {"device": "cpu", "fleet": 1, "seconds": 0.0, "version": posattn.__version__, "torch": torch.__version__}
    store.write(trial, None, {"scores": scores, "diverged_at": None} | json.loads(json.dumps(about, default=str)))
