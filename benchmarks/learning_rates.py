"""Which learning rate suits each model of the study length-scale: the validation loss at the size it is trained at.

    python benchmarks/learning_rates.py [MODEL …]                 (minutes on a GPU, hours on two cores)

Sort and min, the paper preset's steps (a rate that is best after 1,500 may diverge before 8,000), seeds that the study
does not use. A model's rate is the one with the lowest geometric mean over tasks and seeds.
"""

import math
import sys
from dataclasses import replace

import torch

from posattn import studies
from posattn.studies.length.length_scale import LEARNING_RATES
from posattn.train import Fleet, Trial

RATES = (3e-4, 1e-3, 3e-3, 1e-2)
SEEDS = (100, 101)
TASKS = ("sort", "min")


def losses(arm: str, task: str) -> list[list[float]]:
    """The validation losses of every rate, one for each seed."""
    (trial,) = [case.trial for case in studies.get("length-scale").cases(task, "paper") if case.arm == arm]
    assert isinstance(trial, Trial)
    each = [
        [replace(trial, optimiser=replace(trial.optimiser, lr=rate), seed=seed) for seed in SEEDS] for rate in RATES
    ]
    fleet = Fleet([one for some in each for one in some], device="cuda" if torch.cuda.is_available() else "cpu")
    list(fleet.run())
    found = (score["validation"].loss for score in fleet.scores())
    finite = (loss if math.isfinite(loss) else math.inf for loss in found)
    return [[next(finite) for _ in some] for some in each]


def main() -> None:
    print("| model | task |" + "".join(f" {rate:g} |" for rate in RATES))
    print("|---|---|" + "---|" * len(RATES))
    for arm in sys.argv[1:] or LEARNING_RATES:
        logs = [0.0] * len(RATES)
        for task in TASKS:
            found = losses(arm, task)
            logs = [log + sum(map(math.log, some)) for log, some in zip(logs, found, strict=True)]
            cells = " | ".join(", ".join(f"{loss:.1e}" for loss in some) for some in found)
            print(f"| {arm} | {task} | {cells} |", flush=True)
        means = [math.exp(log / len(TASKS) / len(SEEDS)) for log in logs]
        best = RATES[means.index(min(means))]
        print(f"| {arm} | chosen: {best:g} | {' | '.join(f'{mean:.1e}' for mean in means)} |", flush=True)


if __name__ == "__main__":
    main()
