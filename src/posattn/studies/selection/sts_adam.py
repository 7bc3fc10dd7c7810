"""Does it take gradient descent, or does Adam learn the same?

    posattn run sts-adam                                                        (minutes on two CPU cores)
    posattn run sts-adam --preset paper --device cuda                           (2 minutes on one H200)

Wang et al. 2024, Fig. 5: length generalisation with Adam in the place of SGD.
"""

import dataclasses

from posattn.studies.core.case import Case
from posattn.studies.core.study import register
from posattn.studies.selection.protocol import DROP_BY, DROP_FROM, PROTOCOLS
from posattn.studies.selection.sts_length import StsLength
from posattn.train import Optimiser

STEPS = {"smoke": 8, "quick": 4000, "paper": 30_000}


@register
class StsAdam(StsLength):
    name = "sts-adam"
    question = "Does Adam learn a selector that works on more tokens, too?"
    answers = "Fig. 5"
    cost = {"smoke": "seconds", "quick": "2 min, 2 cores", "paper": "2 min, H200"}
    notes = (
        "Adam with lr 1e-3, a third of it from half of all steps on; the paper's rate is not known.",
        *StsLength.notes,
    )

    def cases(self, task: str, preset: str) -> list[Case]:
        protocol = dataclasses.replace(PROTOCOLS[preset], steps=STEPS[preset])
        adam = Optimiser(steps=protocol.steps, lr=1e-3, schedule="drop", decay_from=DROP_FROM, factor=DROP_BY)
        return [
            self.case(self.trial(protocol, encoding, optimiser=adam)) for encoding in ("near-orthogonal", "stochastic")
        ]
