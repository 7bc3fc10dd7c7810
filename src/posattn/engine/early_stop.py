"""When a fleet is not worth its remaining steps: every setting in it does worse than others did at the same step.

A setting is what trials have in common that differ in the seed alone. It is judged by the median over its seeds, never
by a single run, and a fleet stops as a whole, or not at all: one replica less makes no step shorter.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posattn.train import Trial

#: The loss that a setting must not exceed at a step, by step.
Limits = Mapping[int, float]


@dataclass(frozen=True)
class EarlyStop:
    """Limits on the median loss of one test set, by the id of a setting's trial of seed 0."""

    test_set: str
    limits: Mapping[str, Limits]

    def stops(self, trials: Sequence[Trial], rows: Sequence[Sequence[Mapping[str, Any]]], step: int) -> str | None:
        """Why a fleet with these scores ends at this step; None where it goes on. `rows` are all scores so far."""
        losses: dict[str, list[float]] = {}
        for trial, scores in zip(trials, rows, strict=True):
            for row in scores:
                if row["set"] == self.test_set and row["step"] == step:
                    loss = math.inf if row["loss"] is None else row["loss"]
                    losses.setdefault(trial.seeded(0).id, []).append(loss)
        limits = {setting: self.limits.get(setting, {}).get(step, math.inf) for setting in losses}
        medians = {setting: statistics.median(some) for setting, some in losses.items()}
        if not losses or any(medians[setting] <= limits[setting] for setting in losses):
            return None
        best = min(medians, key=medians.__getitem__)
        return (
            f"stopped at step {step}: the median loss on '{self.test_set}' was {medians[best]:.2e}, and half of the "
            f"settings before it had {limits[best]:.2e} or less."
        )
