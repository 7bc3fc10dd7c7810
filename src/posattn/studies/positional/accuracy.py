"""How often is an answer right, and not only close on average?

    posattn run accuracy --preset quick --task sum                              (minutes on two CPU cores)
    posattn run accuracy --preset paper --device cuda                           (20 minutes on one H200)

Back de Luca et al. 2025, appendix: tested on integers; a sample counts when all its outputs are within
rtol = atol = 0.1 of the target. The trials are those of `ood-scale` but for the test sets. No figures were published as
numbers.
"""

import dataclasses

from posattn.studies.core.case import Case
from posattn.studies.core.study import Study, register
from posattn.studies.core.views import Curves
from posattn.studies.positional.numeric_protocol import (
    AT_SCALE,
    PROTOCOLS,
    RANGE,
    STANDARD,
    TASKS,
    models,
    scale_case,
    scale_name,
    trial,
)
from posattn.train import TestSet


@register
class Accuracy(Study):
    name = "accuracy"
    question = "How often is an answer right, and not only close on average?"
    answers = "appendix, accuracy"
    view = Curves(axis="scale c", score="metric", measure="accuracy", share=True, at=AT_SCALE, versus=STANDARD)
    tasks = TASKS
    cost = {"smoke": "seconds", "quick": "5 min per task, 2 cores", "paper": "20 min, H200"}

    def cases(self, task: str, preset: str) -> list[Case]:
        protocol = PROTOCOLS[preset]
        sets = tuple(
            TestSet(scale_name(scale), {"length": 8, "low": -RANGE * scale, "high": RANGE * scale, "integers": True})
            for scale in protocol.scales
        )
        cases = []
        for arm, model in models(protocol).items():
            usual = trial(task, model, protocol)
            evaluation = dataclasses.replace(usual.evaluation, sets=sets)
            cases.append(scale_case(task, arm, dataclasses.replace(usual, evaluation=evaluation), protocol.scales))
        return cases
