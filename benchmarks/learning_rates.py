"""Which learning rate suits each model of the study length-scale: the validation loss at the size it is trained at.

    python benchmarks/learning_rates.py [MODEL …]                                (about ten minutes on one core)

Sort and min, the quick preset's steps, seeds that the study does not use. A family's rate is the one with the lowest
geometric mean over tasks and seeds; all positional models, and all standard ones that are not looped, share a rate.
"""

import math
import sys
from dataclasses import replace

from posattn import studies
from posattn.studies.length.length_scale import STEPS
from posattn.train import Fleet, Trial

RATES = (1e-3, 3e-3, 1e-2)
SEEDS = (100, 101)
TASKS = ("sort", "min")
FAMILIES = ("scale", "no symmetry", "scale, wide state", "positional, sinusoidal", "standard, RoPE", "looped standard")
FAMILIES += ("fitted slopes",)


def losses(arm: str, task: str) -> list[list[float]]:
    """The validation losses of every rate, one for each seed."""
    (trial,) = [case.trial for case in studies.get("length-scale").cases(task, "paper") if case.arm == arm]
    assert isinstance(trial, Trial)
    optimiser = replace(trial.optimiser, steps=STEPS["quick"])
    each = [[replace(trial, optimiser=replace(optimiser, lr=rate), seed=seed) for seed in SEEDS] for rate in RATES]
    fleet = Fleet([one for some in each for one in some], device="cpu")
    list(fleet.run())
    scores = iter(fleet.scores())
    return [[next(scores)["validation"].loss for _ in some] for some in each]


def main() -> None:
    print("| model | task |" + "".join(f" {rate:g} |" for rate in RATES))
    print("|---|---|" + "---|" * len(RATES))
    for arm in sys.argv[1:] or FAMILIES:
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
