"""Does the effect hold at other lengths?

    posattn run sizes --preset quick --task sum                                 (minutes on two CPU cores)
    posattn run sizes --preset paper --device cuda                              (hours on one H200)

Back de Luca et al. 2025, appendix: length 2 … 64 with floor(log2 length) + 1 layers, tested at c = 3. Length 64 was
planned there and never published.
"""

from dataclasses import replace

from posattn.studies.core.case import Case
from posattn.studies.core.study import Study, register
from posattn.studies.core.views import CurvesOverCases
from posattn.studies.positional.numeric_protocol import PROTOCOLS, STANDARD, TASKS, models, published_losses, trial

LENGTHS = {"smoke": (2, 4), "quick": (2, 4, 8, 16), "paper": (2, 4, 8, 16, 32, 64)}


@register
class Sizes(Study):
    name = "sizes"
    question = "Does the effect hold at other lengths?"
    answers = "appendix"
    view = CurvesOverCases(
        axis="length", at="At length {x} and three times the training range", versus=STANDARD, decided_on="c=3"
    )
    tasks = TASKS
    cost = {"smoke": "seconds", "quick": "20 min per task, 2 cores", "paper": "8 h, H200"}

    def cases(self, task: str, preset: str) -> list[Case]:
        protocol = replace(PROTOCOLS[preset], scales=(3,))
        return [
            Case(
                task=task,
                arm=arm,
                x=length,
                trial=trial(task, model, protocol, length=length),
                published=published_losses("size", task, arm, protocol.scales, n=length),
            )
            for length in LENGTHS[preset]
            for arm, model in models(protocol, length=length).items()
        ]
