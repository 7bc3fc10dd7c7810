"""How many samples does each model need?

    posattn run sample-complexity --preset quick --task sum                     (minutes on two CPU cores)
    posattn run sample-complexity --preset paper --device cuda                  (hours on one H200)

Back de Luca et al. 2025, Fig. 2: length 8, 5,000 … 50,000 samples, 2,001 epochs whatever their number, tested in
distribution and at c = 3.
"""

from dataclasses import replace

from posattn.studies.core.case import Case
from posattn.studies.core.study import Study, register
from posattn.studies.core.views import CurvesOverCases
from posattn.studies.positional.numeric_protocol import PROTOCOLS, STANDARD, TASKS, models, published_losses, trial

SAMPLES = {"smoke": (32, 64), "quick": (1_000, 5_000, 30_000), "paper": tuple(range(5_000, 50_001, 5_000))}


@register
class SampleComplexity(Study):
    name = "sample-complexity"
    question = "How many samples does each model need?"
    answers = "Fig. 2"
    view = CurvesOverCases(
        axis="training samples",
        at="With {x} training samples, at three times the training range,",
        versus=STANDARD,
        decided_on="c=3",
    )
    tasks = TASKS
    cost = {"smoke": "seconds", "quick": "15 min per task, 2 cores", "paper": "3 h, H200"}

    def cases(self, task: str, preset: str) -> list[Case]:
        cases = []
        for samples in SAMPLES[preset]:
            protocol = replace(PROTOCOLS[preset], samples=samples, scales=(3,))
            if preset == "paper":
                protocol = replace(protocol, steps=2001 * (samples // protocol.batch))
            for arm, model in models(protocol).items():
                published = published_losses("sample", task, arm, protocol.scales, samples=samples)
                cases.append(
                    Case(task=task, arm=arm, x=samples, trial=trial(task, model, protocol), published=published)
                )
        return cases
