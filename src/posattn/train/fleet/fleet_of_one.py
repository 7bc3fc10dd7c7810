"""A trial by itself: a fleet of one, for engines that run trials one by one."""

import torch

from posattn.train.fleet.evaluate import rows
from posattn.train.fleet.fleet import Fleet
from posattn.train.runnable import Outcome, Report, execute
from posattn.train.trial import Trial


@execute.register
def _(trial: Trial, *, device: torch.device, report: Report) -> Outcome:
    fleet, every = Fleet([trial], device=device), trial.evaluation.every
    found = rows(fleet.scores()[0], 0) if every else []
    for step in fleet.run():
        report(step, fleet.loss.tolist())
        if step == fleet.steps or (every and step % every == 0):
            found += rows(fleet.scores()[0], step)
    return Outcome(scores=found, weights=fleet.weights(0), diverged_at=fleet.divergence()[0])
