"""Does the choice of positional encoding matter?

    posattn run encodings --preset quick --task sum                             (minutes on two CPU cores)
    posattn run encodings --preset paper --device cuda                          (20 minutes on one H200)

Back de Luca et al. 2025, appendix: one-hot, ±1 binary and sinusoidal encodings of the positional Transformer; here
also a near-orthogonal one. No figures were published as numbers.
"""

from posattn.nn import Positional
from posattn.studies.core.case import Case
from posattn.studies.core.study import Study, register
from posattn.studies.core.views import Curves
from posattn.studies.positional.numeric_protocol import AT_SCALE, PROTOCOLS, TASKS, scale_case, sizes, trial

ENCODINGS = ("one-hot", "binary", "sinusoidal", "near-orthogonal")


@register
class Encodings(Study):
    name = "encodings"
    question = "Does the choice of positional encoding matter?"
    answers = "appendix, encodings"
    view = Curves(axis="scale c", at=AT_SCALE)
    tasks = TASKS
    cost = {"smoke": "seconds", "quick": "5 min per task, 2 cores", "paper": "20 min, H200"}

    def cases(self, task: str, preset: str) -> list[Case]:
        protocol = PROTOCOLS[preset]
        return [
            scale_case(
                task, encoding, trial(task, Positional(**sizes(protocol), encoding=encoding), protocol), protocol.scales
            )
            for encoding in ENCODINGS
        ]
