"""Do the terms of the generalisation bound move as the measured gap does?

    posattn run bounds-vs-gap --task sum                                        (15 minutes on two CPU cores)
    posattn run bounds-vs-gap --preset paper --device cuda                      (hours on one H200)

Back de Luca et al. 2025, Theorem 6.1. Three sweeps for both architectures: over the number of samples m, over depth,
and through training. The gap is the distance between the loss on fresh samples of the training range and the training
loss of the last epoch. The bound is that of `posattn bounds` with every unknown constant taken as 1: its value is
vacuous, and only its movement is compared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from posattn.errors import counted
from posattn.nn import load
from posattn.studies.core.case import Case
from posattn.studies.core.points import Point, Row
from posattn.studies.core.sentence import span, times
from posattn.studies.core.study import Study, register
from posattn.studies.core.views import Derived
from posattn.studies.positional.numeric_protocol import PROTOCOLS, TASKS, Protocol, models, scale_name, trial
from posattn.theory import bounds

SAMPLES = {"smoke": (32, 64), "quick": (500, 2_000, 8_000), "paper": tuple(range(5_000, 50_001, 5_000))}
DEPTHS = {"smoke": (1, 2), "quick": (1, 2, 4, 6), "paper": (1, 2, 3, 4, 5, 6)}
SHARES = {"smoke": (0.5,), "quick": (0.1, 0.3), "paper": (0.01, 0.03, 0.1, 0.3)}  # of all steps; the whole is there
FEWEST = {"smoke": 32, "quick": 2_000, "paper": 5_000}  # samples in the sweeps over depth and steps


def gap_and_bound(case: Case, rows: list[Row], weights: Path) -> Mapping[str, float]:
    """The measured gap beside the bound and its factors."""
    losses = {row["set"]: row["loss"] for row in rows}
    found = bounds.terms(load(weights), samples=rows[0]["data.samples"])
    return {
        "gap": abs(losses[scale_name(1)] - losses["train"]),
        "bound": 10**found.total,
        "norm factor": 10**found.norm_factor,
        "query-key factor": 10**found.query_key_factor,
    }


@register
class BoundsVsGap(Study):
    name = "bounds-vs-gap"
    question = "Do the terms of the generalisation bound move as the measured gap does?"
    answers = "Theorem 6.1"
    tasks = TASKS
    seeds = {"smoke": 2, "quick": 2, "paper": 5}
    cost = {"smoke": "seconds", "quick": "15 min per task, 2 cores", "paper": "2 h, H200"}
    view = Derived(
        axis="samples, layers or steps",
        figures=("gap", "bound", "norm factor", "query-key factor"),
        drawn=("gap", "bound"),
        derive=gap_and_bound,
    )
    notes = (
        "“bound” is Theorem 6.1's with δ = 0.05, c = 1 and every other constant 1. As a bound it says nothing: it "
        "exceeds any gap by far. “norm factor” is (H·L_σ·B₂)^L·B_{2,1}; “query-key factor” is B_QK^L, by which the "
        "standard model's bound exceeds it and which is 1 where attention sees positions alone.",
        "The learning rate is constant, so a run of fewer steps is the beginning of a longer one.",
    )

    def sentence(self, points: Sequence[Point]) -> str:
        """Whether bound and gap move the same way along each axis, and how far apart they are."""
        curves: dict[tuple[str, str], dict[str, list[Point]]] = {}
        for point in points:
            if point.drawn:
                curves.setdefault((point.task, point.arm), {}).setdefault(point.test_set, []).append(point)
        pairs = [(held["gap"], held["bound"]) for held in curves.values()]
        ratios = [b.median / a.median for gap, bound in pairs for a, b in zip(gap, bound, strict=True) if a.median > 0]
        alike = sum((gap[-1].median > gap[0].median) == (bound[-1].median > bound[0].median) for gap, bound in pairs)
        apart = f", and is {span(ratios, times)} times as large" if ratios else ""
        return (
            f"From one end of its axis to the other, the bound moves the same way as the measured gap in {alike} of "
            f"{counted(len(pairs), 'curve')}{apart}."
        )

    def cases(self, task: str, preset: str) -> list[Case]:
        protocol = replace(PROTOCOLS[preset], schedule="constant", scales=(1,), warmup=0, clip=None)
        few = replace(protocol, samples=FEWEST[preset])
        found = []
        for samples in SAMPLES[preset]:
            found += self._pair(f"{task} by samples", task, replace(protocol, samples=samples), samples)
        for depth in DEPTHS[preset]:
            found += self._pair(f"{task} by layers", task, few, depth, layers=depth)
        for share in (*SHARES[preset], 1.0):
            steps = max(1, round(share * few.steps))
            found += self._pair(f"{task} by steps", task, replace(few, steps=steps), steps)
        return found

    def _pair(self, label: str, task: str, protocol: Protocol, x: float, **options: int) -> list[Case]:
        batch = min(protocol.batch, protocol.samples)
        pair = models(replace(protocol, batch=batch), **options)
        return [
            Case(task=label, arm=arm, x=x, trial=trial(task, pair[arm], replace(protocol, batch=batch)))
            for arm in ("standard", "positional")
        ]
