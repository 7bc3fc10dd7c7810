"""Which part of the positional Transformer makes it generalise?

    posattn run ablation --preset quick --task sum                              (minutes on two CPU cores)
    posattn run ablation --preset paper --device cuda                           (an hour on one H200)

Back de Luca et al. 2025, appendix, models M0 … M5 (`posattn.nn.ablations`). No figures were published as numbers.
"""

from posattn.nn import ABLATIONS, ablation
from posattn.studies.core.case import Case
from posattn.studies.core.study import Study, register
from posattn.studies.core.views import Curves
from posattn.studies.positional.numeric_protocol import AT_SCALE, PROTOCOLS, TASKS, scale_case, sizes, trial


@register
class Ablation(Study):
    name = "ablation"
    question = "Which part of the positional Transformer makes it generalise?"
    answers = "appendix, M0–M5"
    view = Curves(axis="scale c", at=AT_SCALE)
    tasks = TASKS
    notes = ("; ".join(f"{name}: {entry[2]}" for name, entry in ABLATIONS.items()) + ".",)
    cost = {"smoke": "seconds", "quick": "12 min per task, 2 cores", "paper": "1 h, H200"}

    def cases(self, task: str, preset: str) -> list[Case]:
        protocol = PROTOCOLS[preset]
        return [
            scale_case(
                task, name, trial(task, ablation(name, **sizes(protocol)).architecture, protocol), protocol.scales
            )
            for name in ABLATIONS
        ]
